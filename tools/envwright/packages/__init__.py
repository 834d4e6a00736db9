"""Packages on disk: what they hold, their locks, cases and recordings, and what a change touches."""
