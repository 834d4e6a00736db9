"""Transcripts as people read them: files beside a report, a page of their own, and a server on loopback."""
