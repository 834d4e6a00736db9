"""A Hub on loopback: the API as the real prime CLI speaks it, with its state on disk and faults on demand.

It stands beside the five rooms and takes from them only how git is asked and a mistake reported:
what it says may not depend on the code that is tried against it. Every endpoint says how it is
known: `measured` (the real CLI against a recording server), `read` (in the CLI's source) or
`assumed` (about the real server, which nobody could look at). `envops emulator --assumptions`
prints the list.
"""
