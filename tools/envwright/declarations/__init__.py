"""What a repository declares: registry, runs, packages' keys, endpoints."""
