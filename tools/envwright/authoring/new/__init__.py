"""New environments: from rows and a few choices to a package that passes all gates."""
