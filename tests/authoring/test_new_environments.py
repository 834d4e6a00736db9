"""New environments of `envwright new` pass all gates unchanged and without remarks, with real workers."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from envwright.authoring.new.gather import sample
from envwright.cli.main import main
from envwright.cli.new import ANSWERS, KINDS
from envwright.facts import stages

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.worker, pytest.mark.usefixtures("shared_templates")]
Made = tuple[str, str, str]
"""Generation, kind, answer."""
ALL = [made for made in product(("v1", "v0"), KINDS, ANSWERS) if made[:2] != ("v0", "multi-agent")]


ANY = ("error", "warning", "advice")
ABOUT_TIME = ("RWD084", "RWD095")
"""Mutants that were not decided, and stages that were not finished, in the available time."""
FEW = 4
"""Tasks of each environment where all of them are made: what a gate looks at, it looks at in each."""
SMALL_GATES = f"""\
defaults:
  gates:
    smoke: {{tasks: 1, rollouts: 1}}
    distribution: {{tasks: {FEW}, group_size: 2, min_rollouts: 1, min_live_groups: 0, min_std: 0, min_mean: 0,
                   max_mean: 1, min_format: 0, max_truncated: 1, max_timeouts: 1, max_errors: 1}}
"""


def is_excused(finding: dict[str, Any]) -> bool:
    """Whether a finding is ignored with a reason, or only reports that the machine was too busy."""
    return finding["ignored"] or finding["rule"] in ABOUT_TIME or "OutOfTime" in finding["message"]


def validated(
    root: Path, made: Sequence[Made], capsys: pytest.CaptureFixture[str], severities: Sequence[str] = ("error",)
) -> dict[str, str]:
    """Verdict of each environment, all made and then validated in one run; with its findings of these severities."""
    names = {f"{kind}-{answer}-{generation}": (generation, kind, answer) for generation, kind, answer in made}
    for name, (generation, kind, answer) in names.items():
        options = ["--kind", kind, "--answer", answer, *(["--v0"] if generation == "v0" else [])]
        assert main(["new", name, *options, "--root", str(root)]) == 0
    main(["validate", *names, "--root", str(root), "--quiet"])
    capsys.readouterr()
    report = json.loads((root / "reports" / "validate.json").read_text("utf-8"))
    verdicts = {}
    for one in report["environments"]:
        found = [
            finding for finding in one["findings"] if finding["severity"] in severities and not is_excused(finding)
        ]
        verdicts[one["name"]] = "; ".join([one["verdict"], *(f"{each['rule']}: {each['message']}" for each in found)])
    return verdicts


@pytest.mark.slow
def test_new_every_kind_and_format_passes_on_few_tasks(
    repository: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    stage_cost: Callable[[str, float], None],
):
    """All 99 in one repository and one run, without mutants and with a short search; the test below has them."""
    with (repository / "registry.yaml").open("a") as registry:
        registry.write(SMALL_GATES)
    monkeypatch.setattr("envwright.authoring.new.gather.sample", lambda answer: sample(answer)[:FEW])
    stage_cost("search", 0.3)
    monkeypatch.setattr(stages, "STAGES", tuple(each for each in stages.STAGES if each.name != "mutation"))
    verdicts = validated(repository, ALL, capsys)
    assert verdicts == dict.fromkeys(verdicts, "pass")
    assert len(verdicts) == len(ALL) == 11 * len(ANSWERS)


@pytest.mark.slow
@pytest.mark.parametrize(("generation", "kind"), dict.fromkeys(made[:2] for made in ALL))
def test_new_every_kind_and_format_passes(
    generation: str, kind: str, repository: Path, capsys: pytest.CaptureFixture[str]
):
    made = [one for one in ALL if one[:2] == (generation, kind)]
    verdicts = validated(repository, made, capsys, ANY)
    assert verdicts == dict.fromkeys(verdicts, "pass")
    assert len(verdicts) == len(ANSWERS)


@pytest.mark.slow
def test_new_from_a_file_passes_validate(repository: Path, capsys: pytest.CaptureFixture[str]):
    """The way of a newcomer: an unknown file, two commands, a pass."""
    data = ROOT / "tests" / "dataset" / "datasets" / "choice_columns.csv"
    assert main(["new", "capitals", "--data", str(data), "--root", str(repository)]) == 0
    assert main(["validate", "capitals", "--root", str(repository), "--quiet"]) == 0, capsys.readouterr().out
