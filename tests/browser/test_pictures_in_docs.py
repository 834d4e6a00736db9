"""Pictures in README and docs: shown somewhere, of the window's size, and neither blank nor cut off."""

from __future__ import annotations

import re
import struct
import zlib
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "screenshots"
PHONE, WINDOW = (390, 844), (1280, 860)
SVG = "{http://www.w3.org/2000/svg}"


def lines_of(picture: Path) -> tuple[tuple[int, int], list[bytes]]:
    """The size of a PNG, and its lines as they are packed: as differences to a neighbour, 0 where nothing changes."""
    data, at, packed = picture.read_bytes(), 8, b""
    width, height = struct.unpack(">II", data[16:24])
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        packed += data[at + 8 : at + 8 + length] if data[at + 4 : at + 8] == b"IDAT" else b""
        at += length + 12
    raw = zlib.decompress(packed)
    size = len(raw) // height
    return (width, height), [raw[line * size + 1 : (line + 1) * size] for line in range(height)]


@pytest.mark.parametrize("picture", sorted(FOLDER.glob("*.png")), ids=lambda one: one.stem)
def test_picture_fills_its_window(picture: Path) -> None:
    size, lines = lines_of(picture)
    assert size == (PHONE if picture.stem == "phone" else WINDOW)
    changing = [any(line) for line in lines]
    assert sum(changing) > size[1] / 3, "most of it is blank"
    third = size[1] // 3
    assert all(any(changing[start : start + third]) for start in range(0, 3 * third, third)), "a third of it is blank"


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
