"""One interface for both generations of verifiers."""
