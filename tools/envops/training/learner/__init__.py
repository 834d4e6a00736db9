"""A policy that is trained here: served on loopback, rolled out by an environment's worker, stepped by TRL."""
