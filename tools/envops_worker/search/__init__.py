"""Searching for replies that are paid although they do not carry the answer.

What makes a find is decided by how answers relate, not by how a reply looks:

- One reply earns what gold earns on tasks whose right answers exclude each other: it cannot
  be right on both, whatever it says (`panel`).
- A reply that is made from gold so that it must be wrong earns what gold earns (`wrong`).

`hunt` puts the parts together: `seeds` are what attackers try first, `properties` draws from
hypothesis, `breeding` is the evolutionary part, `coverage` says what was new to the code.
"""
