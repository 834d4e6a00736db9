"""Facts written and read again, and files that are not facts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest
from envwright.facts.observed import Facts
from envwright.observing.facts_cache import SIGNED_AS, read_facts, write_facts
from envwright.system.signature import signed
from pydantic import ValidationError
from subjects import failure, score, subject

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "facts" / "sums" / "key.json"


def again(facts: Facts, path: Path) -> Facts:
    write_facts(facts, path)
    return read_facts(path)


def test_facts_round_trip(path: Path):
    """`tests/rules/test_rule_cases.py` does the same with all kinds of facts."""
    text = failure(message="ça ne va pas: 北京 🎉", traceback="Traceback…\n")
    full = subject(scores=(score("oracle", reward=None, failure=text, again=(None, 0.5)),), failures={"smoke": text})
    assert again(full.facts, path) == full.facts


@pytest.mark.parametrize("number", [math.inf, -math.inf, 5e-324, 1.7976931348623157e308, -0.0, 0.1])
def test_facts_round_trip_extreme_numbers_exactly(number: float, path: Path):
    found = again(subject(scores=(score("oracle", reward=number),)).facts, path).scores[0].reward
    assert repr(found) == repr(number)


@pytest.mark.parametrize(
    "content",
    [
        b"null",
        b"[]",
        b"{}",
        b'"facts"',
        b"\x00\x01\x02",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"environment": "sums", "key": "k"}',
        b'{"environment": "sums", "key": "k", "digest": "d", "scores": [{"task": "zero"}]}',
        b'{"environment": "sums", "key": "k", "digest": "d", "failures": {"lunch": null}}',
    ],
    ids=lambda content: content[:20].decode("latin-1"),
)
def test_foreign_file_is_refused(content: bytes, path: Path):
    path.parent.mkdir(parents=True)
    path.write_bytes(signed(content, SIGNED_AS))
    with pytest.raises(ValidationError):
        read_facts(path)


@pytest.mark.parametrize(
    ("kind", "is_broken"),
    [
        *((kind, False) for kind in ("raised", "missing-secret", "network")),
        *((kind, True) for kind in ("timeout", "crash", "memory", "protocol", "infrastructure")),
    ],
)
def test_failures_that_the_environment_did_not_cause_are_broken_infrastructure(kind: str, is_broken: bool):
    assert ("load" in subject(failures={"load": failure(kind)}).facts.broken_infrastructure()) == is_broken
