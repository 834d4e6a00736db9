"""Observations as plain data, without judgement."""
