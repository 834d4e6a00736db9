"""Rules of the distribution gate."""
