"""Rules of the rewards gate: does the reward tell right from wrong?"""
