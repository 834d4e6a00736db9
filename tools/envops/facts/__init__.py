"""What was observed, as plain data without judgement."""
