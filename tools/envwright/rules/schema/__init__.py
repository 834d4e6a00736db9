"""Rules of the schema gate: does the package match its declaration, and does it load?"""
