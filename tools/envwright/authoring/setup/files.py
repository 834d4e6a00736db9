"""The text of every file, from the answers."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from difflib import unified_diff
from pathlib import Path, PurePosixPath

from envwright.authoring.setup.answers import Answers
from envwright.authoring.text_templates import text_templates
from envwright.declarations.endpoints import ENDPOINTS_FILE
from envwright.declarations.tool_source import REGISTRY_FILE
from envwright.system.installation import distribution_name

TEMPLATES = Path(__file__).parent / "templates"
READS = "0.1"
"""The oldest version of the tool that reads every key of the registry's template."""
NOXFILE = "noxfile.py"
FILES: Mapping[str, str] = {
    REGISTRY_FILE: "registry.yaml",
    ".gitignore": "gitignore",
    "README.md": "README.md",
    "AGENTS.md": "AGENTS.md",
    "CLAUDE.md": "CLAUDE.md",
    ".agents/skills/envwright/SKILL.md": "SKILL.md",
    ENDPOINTS_FILE: "endpoints.toml",
    ".pre-commit-config.yaml": "pre-commit-config.yaml",
    NOXFILE: "noxfile.py",
    ".github/dependabot.yml": "dependabot.yml",
    ".github/workflows/validate.yml": "validate.yml",
    ".github/workflows/comment.yml": "comment.yml",
    ".github/workflows/release.yml": "release.yml",
    ".github/workflows/pages.yml": "pages.yml",
    ".github/workflows/evaluate.yml": "evaluate.yml",
    ".github/workflows/nightly.yml": "nightly.yml",
}
"""Path → template. CODEOWNERS is not among them: it is generated from the registry."""
LARGEST = 5_000_000
"""Bytes of a file; a larger one is not compared."""


def files_of(answers: Answers) -> dict[str, str]:
    """Every file by its path; they depend on the answers and on the version of the tool alone."""
    templates = text_templates(TEMPLATES)
    chosen = {path: name for path, name in FILES.items() if answers.noxfile or path != NOXFILE}
    address = answers.tool.partition(" ")[0]
    repository, _, ref = address.partition("@")
    context = {
        **vars(answers),
        "repository": repository,
        "called": answers.tool.partition("@")[2],
        "requirement": f"{distribution_name()} @ git+https://github.com/{repository}@{ref}#subdirectory=tools",
        "raw": f"https://raw.githubusercontent.com/{repository}/{ref}",
        "pages": f"https://github.com/{repository}/blob/{ref}/docs",
        "reads": READS,
    }
    return {path: templates.get_template(f"{name}.j2").render(context) for path, name in chosen.items()}


def difference(name: str, before: bytes, after: bytes) -> str:
    """The unified diff of a file, empty if the texts are equal; bytes that are not text are shown as escapes."""
    old, new = (content.decode("utf-8", "backslashreplace").splitlines() for content in (before, after))
    return "".join(f"{line}\n" for line in unified_diff(old, new, f"a/{name}", f"b/{name}", lineterm=""))


class Occupied(Exception):
    """Something other than a file is at a path, or in the place of one of its folders."""


def content_at(root: Path, name: str) -> bytes | None:
    """The content of a file below the root; `None` if nothing is there.

    Raises `Occupied` for a link, a folder, a device, a file that is too large or cannot be read, and for a link or a
    file in the place of a folder.
    """
    for parent in reversed(PurePosixPath(name).parents[:-1]):
        mode = _mode(root / parent)
        if mode is None:
            return None
        if not stat.S_ISDIR(mode):
            raise Occupied(f"{parent} is {'a symbolic link' if stat.S_ISLNK(mode) else 'not a folder'}")
    path = root / name
    mode = _mode(path)
    if mode is None:
        return None
    if not stat.S_ISREG(mode):
        raise Occupied(f"{name} is {'a symbolic link' if stat.S_ISLNK(mode) else 'not a file'}")
    try:
        if path.stat().st_size > LARGEST:
            raise Occupied(f"{name} is larger than {LARGEST:,} bytes")
        return path.read_bytes()
    except OSError as error:
        raise Occupied(f"{name} cannot be read: {error.strerror or error}") from None


def _mode(path: Path) -> int | None:
    try:
        return path.lstat().st_mode
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Occupied(f"{path.name} cannot be read: {error.strerror or error}") from None
