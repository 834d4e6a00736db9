"""Reports: one result in many formats; nothing is recomputed."""
