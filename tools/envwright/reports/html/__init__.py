"""The HTML report: one file, made from the same data as validate.json, without requests to other hosts."""
