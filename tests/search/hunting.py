"""A whole search in this process, over a reward given as source text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from envops_worker.effort import Budget
from envops_worker.search.coverage import Coverage
from envops_worker.search.exploit_search import Ground, Hunt
from envops_worker.search.grading import Grader
from envops_worker.search.probe_tasks import PANEL, Entrant, panel_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rewards_to_search import Planted


@dataclass(frozen=True)
class Hunted:
    """What came of it."""

    ended: str
    finds: list[dict[str, Any]]
    grader: Grader
    coverage: Coverage

    def kinds(self) -> set[str]:
        return {find["kind"] for find in self.finds}

    def find(self, kind: str) -> dict[str, Any]:
        return next(find for find in self.finds if find["kind"] == kind)


@dataclass(frozen=True)
class _Numbered:
    index: int


def panel_for(planted: Planted) -> list[Entrant]:
    """The panel that a planted reward is searched on."""
    entrants = [
        Entrant(_Numbered(number), answer, planted.gold(number)) for number, answer in enumerate(planted.answers)
    ]
    return panel_of(entrants, planted.type, planted.tolerance, PANEL)


def hunted(
    planted: Planted, folder: Path, *, evaluations: int = 3000, seed: int = 0, hypothesis: bool = False
) -> Hunted:
    path = folder / "rewards.py"
    path.write_text(planted.source)
    code: dict[str, Any] = {}
    exec(compile(planted.source, str(path), "exec"), code)
    panel = panel_for(planted)

    def score(place: int, reply: str, _blind: bool) -> Mapping[str, Any]:
        said = code["reward"](reply, panel[place].answer)
        functions = {
            name: {"score": value, "weight": code["WEIGHTS"][name], "kind": "reward"} for name, value in said.items()
        }
        reward = sum(each["score"] * each["weight"] for each in functions.values())
        return {"reward": reward, "functions": functions}

    grader = Grader(score, planted.formats, evaluations, Budget(30.0, 60.0))
    for place, entrant in enumerate(panel):
        gold = grader.graded(score(place, entrant.gold, True), place, entrant.gold)
        assert grader.meet(gold, grader.graded(score(place, "", True), place, ""))
    coverage = Coverage(lambda name: "rewards.py" if name == str(path) else None)
    prompts = [planted.prompt(entrant.task.index) for entrant in panel]
    ground = Ground(panel, prompts, planted.type, planted.tolerance, seed, hypothesis)
    ended, finds = Hunt(ground, grader, coverage).run()
    return Hunted(ended, finds, grader, coverage)
