"""What the machine offers: cores, programs, signals, servers on loopback."""
