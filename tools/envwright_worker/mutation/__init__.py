"""Mutants of the reward code, put in place and tried."""
