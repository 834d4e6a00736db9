"""Statistics of rewards, as pure functions. Each names the source of its method."""
