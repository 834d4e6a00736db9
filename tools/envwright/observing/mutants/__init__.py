"""Mutants of a package's reward code: small changes of the source that tests should detect."""
