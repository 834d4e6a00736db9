"""The two generations of verifiers behind one surface."""
