"""Virtual environments, wheels, interpreters and prepared data."""
