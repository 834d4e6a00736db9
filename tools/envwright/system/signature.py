"""Signatures of what the cache remembers, with a key of the user's own outside every checkout.

A file in `.envwright/` may come from a commit, an archive or the code of an environment. What has no signature of this
user counts as missing, and is observed again.
"""

from __future__ import annotations

import hmac
import os
import secrets
import stat
from contextlib import suppress
from functools import cache
from pathlib import Path

from envwright.system.workspace import users_folder

KEY_BYTES = 32
_DIGEST = "sha256"
_LENGTH = 64
"""Characters of a signature."""


class NotSigned(ValueError):
    """The content has no valid signature of this user."""


def signature_key() -> Path | None:
    """The file of the user's key; `None` where the user has no folder for it. Only the host may read it."""
    folder = users_folder()
    return None if folder is None else folder / f"signatures-{os.geteuid()}.key"


def signed(content: bytes, kind: str) -> bytes:
    """The content behind its signature. `kind` names what it is, so that one thing cannot stand for another.

    Raises `OSError` where the key can neither be read nor made.
    """
    return _signature(content, kind, _key_of_user()) + b"\n" + content


def verified(raw: bytes, kind: str) -> bytes:
    """The content that `signed` got. Raises `NotSigned` for everything that this user's key did not sign as `kind`."""
    found, newline, content = raw[:_LENGTH], raw[_LENGTH : _LENGTH + 1], raw[_LENGTH + 1 :]
    try:
        expected = _signature(content, kind, _key_of_user())
    except OSError as error:
        raise NotSigned(f"there is no key to check signatures with: {error}") from None
    if newline != b"\n" or not hmac.compare_digest(found, expected):
        raise NotSigned("it has no valid signature of this user")
    return content


def _signature(content: bytes, kind: str, key: bytes) -> bytes:
    name = kind.encode()
    own = hmac.digest(key, b"%d " % len(name) + name, _DIGEST)  # a key of its own for each kind
    return hmac.digest(own, content, _DIGEST).hex().encode()


def _key_of_user() -> bytes:
    path = signature_key()
    if path is None:
        raise OSError("the user has no home folder")
    return _key(path)


@cache
def _key(path: Path) -> bytes:
    """The key in a file, made where there is none that only this user can read."""
    for _ in range(3):  # two processes may begin at once, or one may find a key that has to be replaced
        key = _read(path)
        if key is not None:
            return key
        _make(path)
    raise OSError(f"{path} is not a file that only its owner can read and write")


def _read(path: Path) -> bytes | None:
    """The key; `None` where there is none, or one that others may know or have written."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:  # none, a link, or a file of another user
        return None
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        private = stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077
        key = file.read(KEY_BYTES + 1) if private else b""
    return key if len(key) == KEY_BYTES else None


def _make(path: Path) -> None:
    """Make a key in one step: a reader finds all of it or none, and the first of two processes decides."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(KEY_BYTES))
        try:
            path.hardlink_to(unfinished)
        except FileExistsError:
            if _read(path) is None:
                unfinished.replace(path)
    finally:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
