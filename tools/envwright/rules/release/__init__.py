"""Rules of releases."""
