"""The files of a repository of environments that are not environments: written once, and upgraded by merges."""
