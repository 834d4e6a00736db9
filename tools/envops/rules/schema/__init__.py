"""Rules of the schema gate: is the package what it says, and does it load?"""
