"""Searches for replies that earn a reward without the answer.

A find depends on relations of answers, not on the form of a reply:

- One reply earns the reference reply's reward on tasks whose right answers exclude each other. It cannot be right on
  both.
- A reply that is made from the reference reply so that it must be wrong earns as much as it.

`exploit_search` combines the parts: `seeds` has the first replies of attackers, and `coverage` reports which replies
reached new lines of the reward's code.
"""
