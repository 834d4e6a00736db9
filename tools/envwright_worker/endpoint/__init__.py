"""The scripted policies behind the APIs of OpenAI and Anthropic, on loopback."""
