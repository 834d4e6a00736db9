"""Statistics of rewards, as pure functions. Each names where its method comes from."""
