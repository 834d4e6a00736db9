"""`python -m envwright` is the command `envwright`."""

from envwright.cli.main import run

if __name__ == "__main__":
    run()
