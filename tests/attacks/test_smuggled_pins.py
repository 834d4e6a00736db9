"""A pin that nothing requires, added to a lock by hand, is named."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from envwright.builds.resolve import unrequired_pins
from envwright.declarations.package import Lock, Package
from subjects import subject

METADATA = "Metadata-Version: 2.4\nName: {name}\nVersion: 1.0\n{requires}\n\nRequires-Dist: of-the-text\n"
INSTALLED = {
    "verifiers": ["Open_AI >=2", "helper ; extra == 'envs'", "old-one ; python_version < '3'"],
    "openai": ["httpx[http2]>=0.2"],
    "httpx": ["h2<5; extra == 'http2'", "brotli; extra == 'brotli' and python_version > '3'"],
    "h2": ["verifiers"],
    "helper": [],
    "old-one": [],
    "brotli": [],
    "of-the-text": [],
    "evil": ["evils-friend"],
    "evils-friend": ["evil"],
}


@pytest.fixture
def site_packages(tmp_path: Path) -> Path:
    for name, requires in INSTALLED.items():
        rows = "\n".join(f"Requires-Dist: {text}" for text in requires).replace("Open_AI", "OpenAI")
        folder = tmp_path / f"{name.replace('-', '_')}-1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(METADATA.format(name=name.title(), requires=rows or "Summary: none"))
    return tmp_path


def package(*requires: str, pins: tuple[str, ...] = tuple(INSTALLED)) -> Package:
    return replace(
        subject().package,
        requires_python=">=3.11",
        requires_to_lock=requires,
        lock=Lock("l", "i", dict.fromkeys(pins, "1.0")),
    )


def test_smuggled_pins_are_named(site_packages: Path) -> None:
    """Two that require each other are not required either."""
    found = unrequired_pins(package("verifiers>=0.4"), site_packages)
    assert found == ("brotli==1.0", "evil==1.0", "evils-friend==1.0", "helper==1.0", "of-the-text==1.0", "old-one==1.0")


def test_pin_of_a_required_extra_is_required(site_packages: Path) -> None:
    assert "helper==1.0" not in unrequired_pins(package("verifiers[envs]>=0.4"), site_packages)


def test_direct_requirement_is_required(site_packages: Path) -> None:
    assert "evil==1.0" not in unrequired_pins(package("verifiers", "EVIL"), site_packages)


def test_pin_that_is_not_installed_is_not_judged(site_packages: Path) -> None:
    """Its marker does not hold on this machine, so nothing is known of it."""
    assert unrequired_pins(package("verifiers", pins=("verifiers", "of-windows")), site_packages) == ()
