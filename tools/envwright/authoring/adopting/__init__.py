"""Adoption of environments from elsewhere."""
