"""Rules of the smoke gate."""
