"""Atomic writes of files."""
