"""The author's own pytest tests and cases."""
