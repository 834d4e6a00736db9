"""What the repository declares: the registry, packages, locks, and what a change touches."""
