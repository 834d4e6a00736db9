"""GitHub's API, as far as workflows need it."""
