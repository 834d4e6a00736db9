"""The declarations: registry, packages, locks, and changes."""
