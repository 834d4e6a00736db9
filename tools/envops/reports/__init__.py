"""How do I see it? Renders one result in many forms and recomputes nothing."""
