"""For authors: datasets, new environments, migration."""
