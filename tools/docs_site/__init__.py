"""The documentation as static pages, with a page for each rule and the environments' catalogue: `nox -s pages`."""
