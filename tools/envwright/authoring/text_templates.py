"""Templates of text files: code, settings and pages."""

from __future__ import annotations

from pathlib import Path

import jinja2


def text_templates(folder: Path) -> jinja2.Environment:
    """The templates of a folder; a variable that is missing is an error."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # Python, TOML, YAML and Markdown, not HTML
    )
