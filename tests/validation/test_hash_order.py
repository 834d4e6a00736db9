"""Whether a package's source makes a set, or a hash, that could matter to its rewards."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from envwright.observing.stages.invariants import follows_hash_order

FOLLOWS = (
    *("list(set(w))", "{a for a in w}", "defaultdict(set)", "map(set, w)", "map(hash, w)", "sorted(w, key=hash)[0]"),
    *("'a'.__hash__()", "list(a.keys() & b.keys())", "a.items() - b", "field(default_factory=set)", "hash(a) == b"),
)
SOUND = (
    *("def f(a: set[str], *b: dict[str, set]) -> set | None: ...", "x: set = y", "isinstance(a, (set, list))"),
    *("async def f() -> set: ...", "len(a.keys() & b.keys())", "sorted(set(w) - set(v))", "a in {1}", "a - b"),
    " | ".join(["{1}"] * 1_500) + " == a",
)


@pytest.mark.parametrize(
    ("source", "follows"), [*((each, True) for each in FOLLOWS), *((each, False) for each in SOUND)]
)
def test_follows_hash_order_of_a_source_returns_whether_it_could_matter(tmp_path: Path, source: str, follows: bool):
    (tmp_path / "rewards.py").write_text(source)
    assert follows_hash_order(SimpleNamespace(folder=tmp_path, files={"rewards.py": b""})) == follows
