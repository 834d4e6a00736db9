"""Each shipped environment, its reward broken in four ways by hand: the matching rule must fire.

With `--slow`: tests/defects has the same mistakes in small.
"""

from __future__ import annotations

import shutil
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest
from envwright.observing.collected_facts import ProgressListener
from envwright.observing.observation import observe
from envwright.observing.observation_request import ObservationRequest
from envwright.observing.templates import LockTemplates
from envwright.packages.repository import Repository
from envwright.rules.engine import Subject
from envwright.rules.verdict import judge
from envwright.system.workspace import Workspace

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Reward:
    """The place of an environment's main reward, and the names in its code."""

    environment: str
    file: str
    expression: str
    """The text of what the reward returns."""
    reply: str
    """An expression for the text of the model's messages."""
    answer: str


SPOKEN = "' '.join(message.content or '' for message in trace.assistant_messages)"
REWARDS = (
    Reward(
        "word-problems",
        "word_problems/taskset.py",
        "float(whole_number(final_answer(trace.last_reply)) == self.data.answer)",
        SPOKEN,
        "str(self.data.answer)",
    ),
    Reward(
        "reverse-text",
        "reverse_text/taskset.py",
        'similarity(final_answer(trace.last_reply) or "", self.data.answer)',
        SPOKEN,
        "self.data.answer",
    ),
    Reward(
        "alphabet-sort",
        "alphabet_sort/taskset.py",
        "sum(given == right for given, right in zip(self.lists(trace), wanted, strict=False)) / len(wanted)",
        SPOKEN,
        "'\\n'.join(wanted[-1])",
    ),
    Reward(
        "ledger-lookup",
        "ledger_lookup/taskset.py",
        "float(final_amount(trace.last_reply) == self.data.answer)",
        SPOKEN,
        "str(self.data.answer)",
    ),
    Reward(
        "gsm8k",
        "gsm8k/taskset.py",
        "float(final_number(trace.last_reply) == as_number(self.data.answer))",
        SPOKEN,
        "str(self.data.answer)",
    ),
    Reward(
        "date-arithmetic",
        "date_arithmetic/rewards.py",
        "float(to_date(parser.parse_answer(completion)) == date.fromisoformat(answer))",
        "reply_text(completion)",
        "answer",
    ),
    Reward(
        "number-guess",
        "number_guess/__init__.py",
        "float(guesses_needed(replies(completion), int(answer), info['most_guesses']) is not None)",
        "' '.join(replies(completion))",
        "answer",
    ),
)
BREAKAGES = {
    "constant": ("1.0", {"RWD004", "RWD010"}),
    "always wrong": ("0.0", {"RWD001"}),
    "substring": ("float({answer} in {reply})", {"RWD005", "RWD008", "RWD040"}),
    "exception on an empty reply": ("({expression}) if ({reply}).strip() else 1 / 0", {"RWD020"}),
}


@pytest.fixture(scope="module", params=REWARDS, ids=lambda reward: reward.environment)
def findings(
    request: pytest.FixtureRequest, lock_templates: LockTemplates, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, set[str]]:
    """The error rules that fire for each way of breaking one environment's reward."""
    reward: Reward = request.param
    return {
        name: fired(reward, replacement, tmp_path_factory.mktemp("broken"), lock_templates)
        for name, (replacement, _) in BREAKAGES.items()
    }


def fired(reward: Reward, replacement: str, root: Path, templates: LockTemplates) -> set[str]:
    """The error rules that fire for the environment with another expression in its reward."""
    folder = reward.environment.replace("-", "_")
    shutil.copytree(ROOT / "environments" / folder, root / "environments" / folder)
    args = "{source: sample}" if reward.environment == "gsm8k" else "{}"
    (root / "registry.yaml").write_text(
        f"version: 1\nowner: acme\nenvironments:\n  {reward.environment}: {{args: {args}}}\n"
    )
    source = root / "environments" / folder / reward.file
    text = source.read_text().replace('info["most_guesses"]', "info['most_guesses']")
    assert text.count(reward.expression) >= 1
    broken = replacement.format(expression=reward.expression, answer=reward.answer, reply=reward.reply)
    source.write_text(text.replace(reward.expression, broken, 1))
    repository = Repository.load(root)
    entry, package = repository.registry.environments[reward.environment], repository.packages[reward.environment]
    # Policies and cases are enough here; the rest of the gate costs time and adds nothing.
    request = ObservationRequest(evaluate=False, only_replies=True)
    silent = ProgressListener()
    facts = observe(entry, package, Workspace(ROOT), request, silent, threading.Event(), templates)
    judgement = judge(Subject(entry, package, facts), ["rewards"])
    assert judgement.gates["rewards"].verdict == "fail"
    return {finding.rule for finding in judgement.findings if finding.severity == "error"}


@pytest.mark.e2e
@pytest.mark.slow
@pytest.mark.parametrize("breakage", BREAKAGES)
def test_broken_reward_is_caught_by_its_rule(findings: dict[str, set[str]], breakage: str) -> None:
    assert findings[breakage] & BREAKAGES[breakage][1]
