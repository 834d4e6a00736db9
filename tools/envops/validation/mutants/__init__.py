"""Mutants of a package's reward code: small changes of the source, each of which a test ought to notice."""
