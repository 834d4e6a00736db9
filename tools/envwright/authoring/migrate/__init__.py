"""Migrates an environment of verifiers 0.3 to a package of 0.4, as far as code can be moved mechanically.

`reading` finds the parts that `load_environment` assembles, `rewriting` turns the package's own modules into plain
Python, and `package` puts the files together. Code that is not moved is marked.
"""
