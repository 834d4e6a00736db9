"""The text of every file, from the answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import jinja2

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


def files_of(answers: Answers) -> dict[str, str]:
    """Every file by its path; they depend on the answers and on the version of the tool alone."""
    chosen = {path: name for path, name in FILES.items() if answers.noxfile or path != NOXFILE}
    context = _context(answers)
    return {path: _templates().get_template(f"{name}.j2").render(context) for path, name in chosen.items()}


@cache
def _templates() -> jinja2.Environment:
    templates = text_templates(TEMPLATES)
    templates.filters["quoted"] = lambda value: json.dumps(value, ensure_ascii=False)
    return templates


def _context(answers: Answers) -> dict[str, Any]:
    address = answers.tool.partition(" ")[0]
    repository, _, ref = address.partition("@")
    return {
        **vars(answers),
        "repository": repository,
        "called": answers.tool.partition("@")[2],
        "requirement": f"{distribution_name()} @ git+https://github.com/{repository}@{ref}#subdirectory=tools",
        "raw": f"https://raw.githubusercontent.com/{repository}/{ref}",
        "pages": f"https://github.com/{repository}/blob/{ref}/docs",
        "reads": READS,
    }
