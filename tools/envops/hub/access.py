"""What the Hub is asked with: the key, the team and the address, as the prime CLI itself would find them.

Our calls run in a throwaway home, because the CLI writes keys into the one that it finds. So
its own files are read here, once, and handed on as variables.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from envops.text.scrubbing import Scrubber

DEFAULT_URL = "https://api.primeintellect.ai"
_PASSED = frozenset(
    {"PATH", "LANG", "LC_ALL", "TMPDIR", "TZ", "HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "SSL_CERT_FILE"}
    | {"REQUESTS_CA_BUNDLE", "PRIME_FRONTEND_URL", "PRIME_INFERENCE_URL"}
)


@dataclass(frozen=True)
class HubAccess:
    """Who asks the Hub, and where it is."""

    key: str = field(default="", repr=False)
    team: str = ""
    """A team's id, as PRIME_TEAM_ID holds it; empty for the user's own."""
    url: str = DEFAULT_URL
    source: str = ""
    """Where the key was found, in words."""

    @property
    def scrubber(self) -> Scrubber:
        """Takes the key, and whatever else the environment calls a secret, out of texts."""
        return Scrubber.of_environment(None, self.key)

    def environment(self, home: Path) -> dict[str, str]:
        """The variables of a program that may hold the key: it, and no other secret."""
        kept = {name: value for name, value in os.environ.items() if name in _PASSED}
        bypass = {part for part in os.environ.get("NO_PROXY", "").split(",") if part}
        own = {
            "HOME": str(home),
            "NO_PROXY": ",".join(sorted({*bypass, "127.0.0.1", "localhost", "::1"})),
            "PRIME_API_BASE_URL": self.url,
            "PRIME_DISABLE_VERSION_CHECK": "1",
            "TYPER_STANDARD_TRACEBACK": "1",
            "PYTHONUNBUFFERED": "1",
            "NO_COLOR": "1",
            "TERM": "dumb",
            "COLUMNS": "400",
        }
        if self.key:
            own["PRIME_API_KEY"] = self.key
        if self.team:
            own["PRIME_TEAM_ID"] = self.team
        return kept | own


def hub_access(environ: Mapping[str, str] = os.environ) -> HubAccess:
    """The access that the variables, or else the CLI's own files, give; without a key where there is none."""
    saved = _saved(environ)
    key, source = environ.get("PRIME_API_KEY", ""), "PRIME_API_KEY"
    if not key:
        key, source = str(saved.get("api_key") or ""), "prime login"
    team = environ.get("PRIME_TEAM_ID", "").strip() or str(saved.get("team_id") or "")
    url = (
        environ.get("PRIME_API_BASE_URL") or environ.get("PRIME_BASE_URL") or str(saved.get("base_url") or DEFAULT_URL)
    )
    return HubAccess(key.strip(), team, url.rstrip("/").removesuffix("/api/v1"), source if key else "")


def _saved(environ: Mapping[str, str]) -> Mapping[str, object]:
    """What `prime login` wrote, of the context that is chosen; empty where there is nothing to read."""
    home = environ.get("HOME")
    if not home:
        return {}
    context = environ.get("PRIME_CONTEXT", "")
    name = f"environments/{context}.json" if context.replace("-", "").replace("_", "").isalnum() else "config.json"
    try:
        data = json.loads((Path(home) / ".prime" / name).read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}
