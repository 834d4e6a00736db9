"""Problems of built pages: links without a target, and files that are loaded from another host."""

from __future__ import annotations

import html
import posixpath
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from urllib.parse import unquote

_TAG = re.compile(r"<(?P<name>[a-z]+)\b(?P<attributes>[^>]*)>", re.IGNORECASE)
_ATTRIBUTE = re.compile(r"""\b(href|src|srcset|data|poster|action)=(?:"([^"]*)"|'([^']*)'|([^\s>]+))""")
_ANCHOR = re.compile(r"""\s(?:id|name)=(?:"([^"]*)"|'([^']*)'|([^\s>]+))""")
_STYLE = re.compile(r"""url\(\s*["']?([^"')]+)|@import\s+["']([^"']+)""")
_ADDRESS = re.compile(r"^(?:[a-z][a-z0-9+.-]*:)?//|^[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_READ_BY_A_CLICK = ("a", "area")
_SAID_ONLY = ("canonical", "alternate", "describedby", "prev", "next")
"""Relations of `<link>` that load nothing."""


def problems(folder: Path, *, served: str = "/", without: str = "") -> Iterator[str]:
    """A line for each problem in the pages and styles of a folder.

    Args:
        served: the path of the folder on its host.
        without: a folder in it that is not read.
    """
    for file in sorted(folder.rglob("*")):
        path = file.relative_to(folder).as_posix()
        if without and path.startswith(f"{without}/"):
            continue
        if file.suffix == ".html":
            yield from _page_problems(folder, file, path, served)
        elif file.suffix == ".css":
            yield from _loaded_elsewhere(path, file.read_text(encoding="utf-8"))


def _page_problems(folder: Path, file: Path, path: str, served: str) -> Iterator[str]:
    text = file.read_text(encoding="utf-8")
    yield from _loaded_elsewhere(path, "".join(re.findall(r"<style\b.*?</style>", text, re.DOTALL)))
    seen: set[str] = set()
    for name, attributes in _tags(text):
        for address in _addresses(attributes):
            if _ADDRESS.match(address):
                if not address.startswith("data:") and _loads(name, attributes):
                    yield f"{path}: <{name}> loads {address}"
            elif address not in seen:
                seen.add(address)
                if complaint := _unresolved(folder, path, _relative(address, path, served)):
                    yield f"{path}: {complaint}"


def _loaded_elsewhere(path: str, style: str) -> Iterator[str]:
    for found in _STYLE.finditer(style):
        address = found[1] or found[2]
        if _ADDRESS.match(address) and not address.startswith("data:"):
            yield f"{path}: its style loads {address}"


def _loads(name: str, attributes: str) -> bool:
    """Whether a browser loads the address without a click."""
    relation = re.search(r"""\brel=["']?([\w-]+)""", attributes)
    said_only = name == "link" and relation is not None and relation[1] in _SAID_ONLY
    return name not in _READ_BY_A_CLICK and not said_only


def _relative(address: str, path: str, served: str) -> str:
    """An address on the page's own host, as seen from the page."""
    if not address.startswith("/"):
        return address
    return posixpath.relpath(f"/{address.removeprefix(served)}", f"/{posixpath.dirname(path)}")


def _unresolved(folder: Path, path: str, address: str) -> str:
    """The problem of a link inside the site that has no target; empty if it has one."""
    target, _, anchor = unquote(address).partition("#")
    there = posixpath.normpath(posixpath.join(posixpath.dirname(path), target)) if target else path
    file = folder / there
    if there.startswith("..") or not (file.is_file() or (file / "index.html").is_file()):
        return f"{address} does not exist"
    if anchor and file.suffix == ".html" and anchor not in _anchors(file):
        return f"{address}: the page has no such anchor"
    return ""


@cache
def _anchors(file: Path) -> frozenset[str]:
    found = _ANCHOR.findall(file.read_text(encoding="utf-8"))
    return frozenset(html.unescape("".join(each)) for each in found)


def _tags(text: str) -> Iterator[tuple[str, str]]:
    for found in _TAG.finditer(text):
        yield found["name"].lower(), found["attributes"]


def _addresses(attributes: str) -> Iterator[str]:
    for found in _ATTRIBUTE.finditer(attributes):
        yield html.unescape(found[2] or found[3] or found[4] or "")
