"""Processes, stages, mutants, budget, scheduling, and the cache of facts and verdicts."""
