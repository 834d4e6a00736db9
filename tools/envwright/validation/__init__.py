"""Validation of environments: virtual environments, wheels, processes, stages, facts, and verdicts."""
