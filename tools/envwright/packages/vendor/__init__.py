"""Code of others, unchanged, with its licence."""
