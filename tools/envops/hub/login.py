"""What a command needs that cannot do without the platform."""

from __future__ import annotations

from envops.hub.access import HubAccess, hub_access
from envops.hub.client import HubUnavailable
from envops.hub.prime import INSTALL, Prime, find_prime


def the_platform(otherwise: str = "") -> tuple[Prime, HubAccess]:
    """The prime CLI and the key to ask with; `otherwise` is what else the user can do.

    Raises `HubUnavailable`.
    """
    access, prime = hub_access(), find_prime()
    if not access.key:
        ways = ["set PRIME_API_KEY", "or run: prime login", otherwise]
        raise HubUnavailable("there is no key for the platform", ", ".join(filter(None, ways)))
    if prime is None:
        raise HubUnavailable("the prime CLI is not installed", INSTALL)
    return prime, access
