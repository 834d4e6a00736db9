"""The operations of a worker; each module sends facts in the shape of `envwright.facts.observed`."""
