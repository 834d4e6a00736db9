"""What the rows of a dataset are: which column is what, of which format the answers are, what fits them."""
