"""The worker: the process that observes one environment inside its own virtual environment.

Only the standard library and what verifiers itself installs may be imported here. The host
puts this package alone on the path (see `validation/starting.py`), so that nothing of the
host's is importable from the environment's code. Requests come in and answers go out as
JSON lines; verifiers is imported once.
"""
