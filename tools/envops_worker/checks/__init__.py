"""Checks of scoring itself: its repeatability, its growth, the data it reads."""
