"""Make it so: what is published and what is trained."""
