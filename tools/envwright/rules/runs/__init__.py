"""Rules of training runs."""
