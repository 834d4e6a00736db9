"""A client of the Environments Hub and its CLI."""
