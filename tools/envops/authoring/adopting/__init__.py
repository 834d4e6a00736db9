"""Bringing environments that exist elsewhere into the repository."""
