"""Rules of the rewards gate: does the reward separate right from wrong?"""
