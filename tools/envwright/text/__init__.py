"""Text that is safe to show, and free of secrets."""
