"""A policy that is trained here: served on loopback, used by an environment's worker, updated by TRL."""
