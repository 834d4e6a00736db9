"""The Environments Hub and its CLI, as a client sees them."""
