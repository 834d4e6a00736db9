"""The machine: cores, programs, signals, servers on loopback, retries."""
