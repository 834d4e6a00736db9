"""A Hub on loopback: the API as the real prime CLI uses it, with its state on disk and faults on demand.

It imports nothing of the code that is tested against it. Every route declares the source of its behaviour: `measured`
(the real CLI against a recording server), `read` (in the CLI's source) or `assumed` (about the real server, which was
not available). `envwright emulator --assumptions` prints the list.
"""
