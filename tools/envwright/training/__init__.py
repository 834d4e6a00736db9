"""Declared training runs: compiled for their trainers, submitted once, followed."""
