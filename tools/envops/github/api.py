"""GitHub's API as far as a workflow needs it: one address, one token, JSON in and out."""

from __future__ import annotations

import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

SECONDS = 30.0
TRIES = 3
PAGE = 100
MOST_PAGES = 30


class GitHubError(Exception):
    """GitHub refused, or could not be reached; the message holds no token."""

    def __init__(self, message: str, status: int | None = None) -> None:
        self.status = status
        super().__init__(message)


@dataclass(frozen=True)
class GitHub:
    """One repository, and who asks."""

    repository: str
    token: str = field(repr=False)
    url: str = "https://api.github.com"

    @classmethod
    def of_workflow(cls, environ: Mapping[str, str] = os.environ) -> GitHub:
        """From the variables of a workflow's job. Raises `GitHubError` outside of one."""
        missing = [name for name in ("GITHUB_REPOSITORY", "GITHUB_TOKEN") if not environ.get(name)]
        if missing:
            raise GitHubError(f"{' and '.join(missing)} must be set: this runs in a job of GitHub Actions")
        url = environ.get("GITHUB_API_URL", cls.url)
        return cls(environ["GITHUB_REPOSITORY"], environ["GITHUB_TOKEN"], url.rstrip("/"))

    def get(self, path: str, **query: str | int) -> Any:
        """Read, again where that failed for a reason that may pass. Raises `GitHubError`."""
        for attempt in range(TRIES):
            try:
                return self._ask("GET", f"{path}?{urlencode(query)}" if query else path)
            except GitHubError as error:
                passing = error.status is None or error.status == 429 or error.status >= 500
                if not passing or attempt == TRIES - 1:
                    raise
                time.sleep(0.5 * 2**attempt)
        raise AssertionError

    def all(self, path: str, **query: str | int) -> Iterator[Any]:
        """Every entry of a list, page by page."""
        for page in range(1, MOST_PAGES + 1):
            entries = self.get(path, **query, per_page=PAGE, page=page)
            yield from entries
            if len(entries) < PAGE:
                return

    def send(self, method: str, path: str, body: Mapping[str, Any]) -> Any:
        """Write, once: whoever calls looks first what became of it. Raises `GitHubError`."""
        return self._ask(method, path, json.dumps(body).encode())

    def _ask(self, method: str, path: str, content: bytes | None = None) -> Any:
        address = f"{self.url}/repos/{quote(self.repository)}/{path}"
        headers = {"Accept": "application/vnd.github+json", "Authorization": f"Bearer {self.token}"}
        request = urllib.request.Request(
            address, content, {**headers, "X-GitHub-Api-Version": "2022-11-28"}, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=SECONDS) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as error:
            said = error.read(500).decode("utf-8", "replace")
            raise GitHubError(f"{method} {path}: HTTP {error.code}: {said}", error.code) from None
        except (OSError, ValueError) as error:
            raise GitHubError(f"{method} {path}: {error}") from None
