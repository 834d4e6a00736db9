"""What scripted policies reply, and the oracle that they vary."""
