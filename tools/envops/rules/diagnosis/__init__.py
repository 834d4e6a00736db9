"""Rules of diagnoses: signatures of runs that go wrong."""
