"""The worker: the process that observes one environment inside its own virtual environment.

Only the standard library and what verifiers itself installs may be imported here. The host puts this package alone on
the path (see `builds/venv.py`), so that the environment's code cannot import modules of the host. Requests and
answers are JSON lines; verifiers is imported once.
"""
