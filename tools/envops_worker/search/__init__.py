"""Searches for replies that earn a reward without the answer.

A find is decided by relations of answers and not by the look of a reply:

- One reply earns what the reference reply earns on tasks whose right answers exclude each other. It cannot be right on
  both (`probe_tasks`).
- A reply that is made from the reference reply so that it must be wrong earns as much as it (`wrong`).

`exploit_search` combines the parts: `seeds` are what attackers try first, `properties` draws replies from hypothesis,
`evolution` changes the best ones, and `coverage` reports which replies reached new lines of the reward's code.
"""
