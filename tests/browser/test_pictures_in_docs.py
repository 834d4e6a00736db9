"""Pictures in README and docs: shown somewhere; that of the terminal is not cut off."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "screenshots"
SVG = "{http://www.w3.org/2000/svg}"


def test_every_picture_is_shown_on_a_page() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
    shown = {name for page in pages for name in re.findall(r"screenshots/([\w.-]+)\)", page.read_text("utf-8"))}
    assert shown == {picture.name for picture in FOLDER.iterdir()}


def test_terminal_picture_is_real_output_inside_its_frame() -> None:
    text = (FOLDER / "terminal.svg").read_text("utf-8")
    assert not re.search(r"@import|@font-face|href=|url\((?!#)", text)
    drawn = ElementTree.fromstring(text)
    width = float(drawn.attrib["viewBox"].split()[2])
    parts = list(drawn.iter(f"{SVG}text"))
    ends = [float(part.attrib["x"]) + float(part.get("textLength", "0")) for part in parts]
    assert max(ends) < width
    words = " ".join("".join(part.itertext()) for part in parts).replace("\xa0", " ")
    assert "RWD005 error:" in words
    assert "2 passed" in words
