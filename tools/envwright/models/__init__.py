"""Real models: endpoints, evaluations, recordings, comparison, and prompt optimization."""
