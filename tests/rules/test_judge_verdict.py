"""From findings and failures to verdicts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from envwright.facts import stages
from envwright.facts.stages import Stage, stage_named
from envwright.rules import engine
from envwright.rules.engine import Found, Subject
from envwright.rules.verdict import judge, worst
from subjects import STAGES, failure, rollouts, score, scores, subject, unloaded

BROKEN = ["timeout", "crash", "memory", "protocol", "infrastructure"]
OWN = ["raised", "missing-secret", "network"]


def verdicts(each: Subject) -> dict[str, str]:
    return {gate: verdict.verdict for gate, verdict in judge(each).gates.items()}


def test_error_finding_fails_its_gate_alone() -> None:
    assert verdicts(subject(package={"version": ""})) == {
        "schema": "fail",
        "rewards": "pass",
        "smoke": "pass",
        "distribution": "pass",
    }


def test_gate_with_warning_and_advice_passes() -> None:
    judgement = judge(subject(package={"cases": ()}, entry={"ignore": {"RWD005": "paraphrases"}}))
    assert {finding.severity for finding in judgement.findings} == {"warning", "advice"}
    assert judgement.verdict == "pass"


def test_ignored_finding_stays_visible_without_effect() -> None:
    judgement = judge(subject(package={"tags": ()}, entry={"ignore": {"SCH005": "no tags yet"}}))
    assert [(finding.rule, finding.reason) for finding in judgement.findings] == [("SCH005", "no tags yet")]
    assert judgement.verdict == "pass"


@pytest.mark.parametrize("kind", BROKEN)
@pytest.mark.parametrize("stage", STAGES)
def test_broken_infrastructure_is_an_error_of_dependent_gates(stage: engine.Any, kind: str) -> None:
    judged = verdicts(unloaded(stage, kind))
    for gate in stage_named(stage).gates:
        assert judged[gate] == "error"


@pytest.mark.parametrize("kind", OWN)
@pytest.mark.parametrize("stage", STAGES)
def test_own_failure_of_any_stage_is_reported(stage: engine.Any, kind: str) -> None:
    """Each stage's own failure is a finding of the first gate that needs it; without a network it proves nothing."""
    judgement = judge(unloaded(stage, kind))
    verdict = judgement.gates[stage_named(stage).gates[0]].verdict
    is_offline = kind == "network" and stage not in ("venv", "wheel")  # which are made with one
    assert verdict == ("inconclusive" if is_offline else "fail")
    assert judgement.findings


def test_gate_is_inconclusive_without_a_new_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "STAGES", (*stages.STAGES, Stage("spelling", "", gates=("smoke",))))
    smoke = judge(subject()).gates["smoke"]
    assert (smoke.verdict, smoke.reason) == ("inconclusive", "not observed: spelling")


def test_ignored_failure_is_inconclusive() -> None:
    each = unloaded("load", entry={"ignore": {"SCH041": "known"}})
    assert judge(each).gates["schema"].verdict == "inconclusive"


def test_gate_failure_outranks_infrastructure_error() -> None:
    assert verdicts(unloaded("smoke", "crash", package={"version": ""}))["schema"] == "fail"
    each = subject(scores=scores(nop={"reward": 1.0}), failures={"tests": failure("timeout")})
    assert verdicts(each)["rewards"] == "fail"


def test_too_little_evidence_is_inconclusive() -> None:
    judgement = judge(subject(rollouts=rollouts([0.0] * 5), rollouts_asked={"blend": 5}))
    assert judgement.gates["distribution"].verdict == "inconclusive"
    assert judgement.verdict == "inconclusive"


def test_gate_verdict_has_reason() -> None:
    gates = judge(unloaded("load", message="No module named 'numpy'\nmore")).gates
    assert gates["schema"].reason == "SCH041"
    assert "load failed (raised, ValueError: No module named 'numpy')" in gates["smoke"].reason
    assert judge(subject(completed=STAGES[:4])).gates["smoke"].reason == "not observed: smoke"
    assert judge(unloaded("smoke", "crash")).gates["smoke"].reason == "smoke: crash, ValueError: no such thing"


def test_judge_considers_only_chosen_gates() -> None:
    judgement = judge(subject(package={"tags": ()}), ["smoke", "rewards"])
    assert list(judgement.gates) == ["rewards", "smoke"]
    assert judgement.verdict == "pass"


def test_verdict_of_environment_is_worst_gate() -> None:
    assert worst(["pass", "inconclusive", "error", "fail"]) == "fail"
    assert worst(["pass", "inconclusive", "error"]) == "error"
    assert worst(["pass", "inconclusive"]) == "inconclusive"
    assert worst([]) == "pass"


def test_rule_that_raises_leaves_other_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: Subject) -> Iterator[Found]:
        yield Found("seen before it broke", inconclusive=True)
        raise ZeroDivisionError("division by zero")

    known = engine.all_rules()["SCH005"]
    monkeypatch.setitem(engine.all_rules(), "SCH005", engine.replace(known, check=broken))
    judgement = judge(subject(package={"version": "x"}))
    assert [finding.rule for finding in judgement.findings] == ["SCH003", "SCH005", "SCH005"]
    bug = judgement.findings[-1]
    assert bug.bug
    assert "ZeroDivisionError: division by zero" in bug.message
    assert "bug in envwright" in bug.message
    assert "in broken" in bug.evidence.failure.traceback
    assert judgement.verdict == "fail"

    alone = judge(subject())
    assert alone.verdict == "error"
    assert alone.gates["schema"].reason == "bug in envwright: SCH005"
    assert judge(subject(entry={"ignore": {"SCH005": "bug is known"}})).verdict == "pass"


def test_score_lost_to_infrastructure_is_inconclusive() -> None:
    lost = score("nop", 3, reward=None, functions={}, failure=failure("infrastructure"), again=())
    gold = score("oracle", 3)
    assert judge(subject(scores=(*scores(), gold, lost))).gates["rewards"].verdict == "inconclusive"
