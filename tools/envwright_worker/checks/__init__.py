"""Checks of scoring itself: its repeatability, its growth, its inputs."""
