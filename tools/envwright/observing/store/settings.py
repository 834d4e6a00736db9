"""The store that this user or runner declared, and the trusted keys.

All of it comes from variables. `registry.yaml` has no keys for it: a pull request could name its own store and key.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping, MutableMapping
from dataclasses import dataclass

from envwright.builds.sandbox import why_not_confined
from envwright.declarations.registry import EnvironmentEntry
from envwright.exit_codes import CommandError

ADDRESS = "ENVWRIGHT_STORE"
TRUSTS = "ENVWRIGHT_STORE_TRUSTS"
KEY = "ENVWRIGHT_STORE_KEY"
_NAME = r"[a-z0-9][a-z0-9.-]{0,63}"
_KEY = re.compile(rf"({_NAME}):([A-Za-z0-9+/]{{43}}=)")
_ADDRESS = re.compile(r"(?:(?:s3|gs)://[a-z0-9][a-z0-9._-]*|(?:file://)?/)(?:[\w.=-]+/)*[\w.=-]*", re.ASCII)


class SettingsRefused(CommandError, ValueError):
    """A variable of the store has a value that it cannot have."""


@dataclass(frozen=True)
class NamedKey:
    """An Ed25519 key, public or private, under the name that reports show."""

    name: str
    raw: bytes

    def text(self) -> str:
        """The key as the variables have it."""
        return f"{self.name}:{base64.b64encode(self.raw).decode()}"


@dataclass(frozen=True)
class StoreSettings:
    """Where the store is, whose entries count, and the key to write with."""

    address: str
    trusted: Mapping[str, bytes]
    """Name → public key."""
    key: NamedKey | None = None
    """The private key; `None` where the store is only read."""


def store_settings(variables: MutableMapping[str, str]) -> StoreSettings | None:
    """The declared store; `None` where none is. The private key is removed from the variables: no child may have it.

    Raises `SettingsRefused`.
    """
    private = variables.pop(KEY, "").strip()
    address = variables.get(ADDRESS, "").strip()
    if not address:
        return None
    if not _ADDRESS.fullmatch(address) or {".", ".."} & set(address.split("/")):
        raise SettingsRefused(f"{ADDRESS} must be /FOLDER, s3://BUCKET/PREFIX or gs://BUCKET/PREFIX")
    keys = [_key(text, TRUSTS) for text in variables.get(TRUSTS, "").split()]
    trusted = {key.name: key.raw for key in keys}
    if len(trusted) < len(keys):
        raise SettingsRefused(f"{TRUSTS} names one key twice")
    return StoreSettings(address.rstrip("/"), trusted, _key(private, KEY) if private else None)


def named(text: str) -> bool:
    """Whether a text can be the name of a key."""
    return re.fullmatch(_NAME, text) is not None


def _key(text: str, variable: str) -> NamedKey:
    found = _KEY.fullmatch(text)
    if found is None:  # the text is not shown: it may be a private key
        raise SettingsRefused(f"{variable} must hold NAME:KEY as `envwright store key NAME` prints them")
    return NamedKey(found[1], base64.b64decode(found[2]))


def refuse_key_beside_unconfined(store: StoreSettings | None, entries: Iterable[EnvironmentEntry]) -> None:
    """Raise `SettingsRefused` if code of an environment would run without a sandbox beside the store's private key."""
    if store is None or store.key is None:
        return
    for entry in entries:
        if reason := why_not_confined(entry.sandbox):
            raise SettingsRefused(
                f"{KEY} is set, and {entry.name} would run without a sandbox beside it ({reason}): "
                "prove without the key; then, with it: envwright store push"
            )
