"""A policy in training on this machine: served on loopback, used by an environment's worker, updated by TRL."""
