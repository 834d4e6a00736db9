"""The HTML report: one file, made from the same data as validate.json, that asks no other host for anything."""
