"""`python -m envops` is the command `envops`."""

from envops.cli.main import run

if __name__ == "__main__":
    run()
