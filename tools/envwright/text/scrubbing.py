"""Removal of secrets from messages, logs, ledgers and reports.

Known keys are replaced wherever they occur, also escaped as in an address or in JSON. Text that looks like a key (a
bearer token, the signature of an upload address, the forms of providers' keys) is replaced too, because a server may
respond with secrets that are unknown here.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

HIDDEN = "[key]"
SHORTEST_SECRET = 6
"""The least length of a secret: shorter values are placeholders such as EMPTY, which occur in ordinary text."""
SECRET_NAME = re.compile(r"(?:^|_)(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)(?:_|$)")
"""Names of variables with secret values."""
_PASSWORD = re.compile(r"(?:^|[/=\s])[^/\s@]+@")
_SHAPES = (
    (re.compile(r"(?i)\b(bearer\s+)[A-Za-z0-9._~+/=-]{6,}"), r"\1" + HIDDEN),
    (
        re.compile(
            r"(?i)([?&](?:x-[a-z]+-)?(?:signature|credential|security-token|token|sig|key|awsaccesskeyid)=)[^&\s\"'<>]+"
        ),
        r"\1" + HIDDEN,
    ),
    (re.compile(r"(?<=://)[^/\s:@\"']*:[^/\s\"']+(?=@)"), HIDDEN),
    (re.compile(r"\b(?:pit_|hf_|sk-|gh[pousr]_|github_pat_|wandb_v1_)[A-Za-z0-9_-]{16,}"), HIDDEN),
    (re.compile(r"\b[a-z]{2,6}_[a-f0-9]{40,}\b"), HIDDEN),
)


def without_secrets(variables: Mapping[str, str]) -> dict[str, str]:
    """Variables without those whose names are names of secrets."""
    return {name: value for name, value in variables.items() if not SECRET_NAME.search(name)}


def holds_password(setting: str) -> bool:
    """Whether an address has `user:password@host` or `token@host`: with or without a scheme, alone or after `name=`."""
    return not setting.startswith("/") and _PASSWORD.search(setting) is not None


class Scrubber:
    """Removes known secrets, and texts that look like secrets, from texts and data."""

    def __init__(self, *secrets: str, shapes: bool = True) -> None:
        self._shapes = _SHAPES if shapes else ()
        forms: set[str] = set()
        for secret in secrets:
            if len(secret) >= SHORTEST_SECRET:
                forms |= {secret, quote(secret, safe=""), json.dumps(secret)[1:-1]}
        self._forms = sorted(forms, key=len, reverse=True)

    @classmethod
    def of_environment(cls, environment: Mapping[str, str] | None = None, *more: str) -> Scrubber:
        """A scrubber for the values of all variables with the name of a secret."""
        seen = os.environ if environment is None else environment
        return cls(*(value for name, value in seen.items() if SECRET_NAME.search(name)), *more)

    def text(self, text: str) -> str:
        """The text without known secrets and, unless `shapes` is off, without texts that look like one."""
        for form in self._forms:
            text = text.replace(form, HIDDEN)
        for shape, shown in self._shapes:
            text = shape.sub(shown, text)
        return text

    def value(self, value: Any) -> Any:
        """The data with every text in it scrubbed."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(str(key)): self.value(item) for key, item in value.items()}
        return [self.value(item) for item in value] if isinstance(value, list | tuple) else value
