"""Proves, publishes and trains a monorepo of reinforcement-learning environments."""

__version__ = "0.1.0"
