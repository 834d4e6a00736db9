"""Every kind and every format of an answer, in both generations: what is generated is whole and well formed."""

from __future__ import annotations

import ast
import json
import re
import tomllib
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
import yaml
from envwright.authoring.dataset.layout import CodeTest, Example
from envwright.authoring.new.cases import framed
from envwright.authoring.new.gather import sample, words_of
from envwright.authoring.new.plan import DataOrigin, EnvironmentPlan
from envwright.authoring.new.render import files_of
from envwright.authoring.new.wording import instruction_of, is_python
from envwright.cli.new import ANSWERS, KINDS
from envwright.rules.schema.metadata import missing_sections, names, text_about_rewards

COMBINATIONS = [
    (generation, kind, answer)
    for generation, kind, answer in product(("v1", "v0"), KINDS, ANSWERS)
    if (generation, kind) != ("v0", "multi-agent")
]


def plan_of(generation: str, kind: str, answer: str, *, splits: int = 1) -> EnvironmentPlan:
    examples = sample(answer)
    divided = {"train": examples} if splits == 1 else {"train": examples[:10], "test": examples[10:]}
    words = words_of(answer, examples)
    return EnvironmentPlan("my-task", kind, answer, generation, divided, DataOrigin("q.jsonl", made_up=True), words)


@pytest.mark.slow
@pytest.mark.parametrize(("generation", "kind", "answer"), COMBINATIONS)
def test_files_of_have_all_parts_and_are_short(generation: str, kind: str, answer: str):
    plan = plan_of(generation, kind, answer, splits=1 + (generation == "v0"))
    files = files_of(plan)
    for path, text in files.items():
        assert text.endswith("\n"), path
        assert not text.endswith("\n\n"), path
        if path.endswith(".py"):
            ast.parse(text)
            assert max(map(len, text.splitlines())) <= 120, path
            assert not re.search(r"\{%|%\}|\n{4}", text), path
    assert tomllib.loads(files["pyproject.toml"])["project"]["name"] == "my-task"
    assert missing_sections(files["README.md"]) == ()
    assert names(text_about_rewards(files["README.md"]), plan.reward_name)
    cases = yaml.safe_load(files["tests/cases.yaml"])
    assert len({case["name"] for case in cases}) == len(cases) >= 10
    for split in plan.splits:
        rows = [json.loads(line) for line in files[f"my_task/data/{split}.jsonl"].splitlines()]
        assert len(rows) == len(plan.splits[split])
    lines = {path: len(text.splitlines()) for path, text in files.items() if path.endswith(".py")}
    assert max(lines.values()) <= 140
    assert sum(count for path, count in lines.items() if "jail" not in path and "tests/" not in path) <= 220


def test_labels_with_quotes_and_braces_stay_data():
    examples = [
        type(one)(f"Which? {{x}} {n}", label)
        for n, one in enumerate(sample("label"))
        for label in ['say "x"', "it's {y}", "back\\slash"]
    ]
    plan = EnvironmentPlan(
        "odd", "single-turn", "label", "v1", {"train": examples}, DataOrigin("q"), words_of("label", examples)
    )
    namespace: dict[str, object] = {}
    exec(files_of(plan)["odd/answers.py"], namespace)
    assert set(namespace["LABELS"]) == {'say "x"', "it's {y}", "back\\slash"}  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("answer", "functions"),
    [
        ("number", ["NUMBER:loosen-regex", "final_answer:swap-method", "is_right:drop-condition"]),
        ("text", ["as_words:change-text", "is_right:drop-condition"]),
        ("json", ["final_answer:drop-normalisation", "final_answer:swap-method", "is_right:drop-condition"]),
        ("list", ["as_elements:change-text", "final_answer:drop-normalisation", "is_right:drop-condition"]),
        (
            "latex",
            ["FRACTION:loosen-regex"] * 2
            + ["as_formula:fix-return"]
            + ["final_answer:fix-return"] * 2
            + ["is_right:drop-condition"],
        ),
    ],
)
def test_generated_marks_are_each_of_one_mutant_that_no_reply_detects(answer: str, functions: list[str]):
    settings = tomllib.loads(files_of(plan_of("v1", "single-turn", answer))["pyproject.toml"])["tool"]["envwright"]
    marks = settings["mutation"]["equivalent"]
    assert all(mark["reason"] for mark in marks)
    assert [mark["mutant"].removeprefix("my_task.answers.").rpartition(":")[0] for mark in marks] == functions


@pytest.mark.parametrize("call", ["add(1", "adding().add(1, 2)", "3"])
def test_tests_that_call_no_function_by_name_have_no_cases_of_their_own(call: str):
    plan = plan_of("v1", "code", "code")
    first, *others = plan.examples
    changed = replace(plan, splits={"train": [replace(first, tests=(CodeTest(call=call, expected="3"),)), *others]})
    names = {case["name"] for case in yaml.safe_load(files_of(plan)["tests/cases.yaml"])}
    left = {case["name"] for case in yaml.safe_load(files_of(changed)["tests/cases.yaml"])}
    assert names - left == {
        "a program gets no input",
        "a program that prints too much earns nothing",
        "another value is wrong",
        "one passed test is not enough",
    }


def plan_of_json(*answers: object) -> EnvironmentPlan:
    examples = [Example(f"Question {number}", json.dumps(answer)) for number, answer in enumerate(answers)]
    return EnvironmentPlan("my-task", "single-turn", "json", "v1", {"train": examples}, DataOrigin("q.jsonl"))


@pytest.mark.parametrize(("expected", "is_there"), [("3.0", False), ("3", False), ("4", True), ("add", True)])
def test_case_of_one_passed_test_needs_tests_of_different_values(expected: str, is_there: bool):
    plan = plan_of("v1", "code", "code")
    first, *others = plan.examples
    tests = (CodeTest(call="add(1, 2)", expected="3"), CodeTest(call="add(2, 1)", expected=expected))
    changed = replace(plan, splits={"train": [replace(first, tests=tests), *others]})
    names = {case["name"] for case in yaml.safe_load(files_of(changed)["tests/cases.yaml"])}
    assert ("one passed test is not enough" in names) == is_there


@pytest.mark.parametrize("small", [{}, {"user": 1}])
@pytest.mark.parametrize("large", [2**53 + 1, 1234567890123456789, -(10**400)], ids=["first", "usual", "huge"])
def test_cases_of_large_whole_numbers_are_those_that_the_reward_accepts(small: dict[str, int], large: int):
    files, answer = files_of(plan_of_json({"id": large, **small}, {"id": 2})), json.dumps({"id": large, **small})
    namespace = dict[str, Any]()
    exec(files["my_task/answers.py"], namespace)
    right = {
        case["name"]: case["reply"] for case in yaml.safe_load(files["tests/cases.yaml"]) if case["expect"]["reward"]
    }
    assert all(namespace["is_right"](reply, answer) for reply in right.values())
    assert ("a whole number may be written with a point" in right) == bool(small)


@pytest.mark.parametrize(
    ("record", "tools"),
    [
        ({"name": "weather", "arguments": {"city": "Rome"}}, "- weather(city)"),
        ({"name": "weather", "parameters": {"city": "Rome"}}, "- weather(city)"),
        ({"name": "Rome", "country": "Italy"}, ""),
        ({"city": "Rome", "country": "Italy"}, ""),
    ],
)
def test_instruction_for_lists_of_records_names_tools_of_calls_only(record: dict[str, object], tools: str):
    instruction = instruction_of(plan_of_json([record], [record]))
    assert [line for line in instruction.splitlines() if line.startswith("- ")] == [tools][: bool(tools)]
    assert f"with the keys {', '.join(map(json.dumps, record))}" in instruction


@pytest.mark.parametrize("letters", ["AK", "AY"])
def test_choice_of_many_options_offers_and_reads_every_letter(letters: str):
    options = tuple(f"option {number}" for number in range(ord(letters[1]) - ord("A") + 1))
    examples = [Example(f"Question {letter}", letter, options) for letter in letters]
    plan = EnvironmentPlan("my-task", "single-turn", "choice", "v1", {"train": examples}, DataOrigin("q.jsonl"))
    files, namespace = files_of(plan), dict[str, Any]()
    exec(files["my_task/answers.py"], namespace)
    assert f"\n{letters[1]}. {options[-1]}" in json.loads(files["my_task/data/train.jsonl"].splitlines()[1])["question"]
    assert namespace["is_right"](f"<answer>{letters[1]}</answer>", letters[1])
    assert namespace["read_answer"]("<answer>Z</answer>") is None


@pytest.mark.parametrize(
    ("answer", "first", "equal", "other"),
    [
        ("text", "Paris", "Paris.", "Rome"),
        ("latex", "\\frac{1}{2}", "0.5", "x^2"),
        ("json", '{"a": 1, "b": 2}', '{"b": 2, "a": 1.0}', '{"a": 2, "b": 2}'),
    ],
)
def test_cases_of_another_answer_skip_those_that_are_equal(answer: Any, first: str, equal: str, other: str):
    examples = [Example(f"Question {text}", text) for text in (first, equal, other)]
    plan = EnvironmentPlan("my-task", "single-turn", answer, "v1", {"train": examples}, DataOrigin("q.jsonl"))
    cases = yaml.safe_load(files_of(plan)["tests/cases.yaml"])
    (wrong,) = [case["reply"] for case in cases if case["name"] == "another answer is wrong"]
    assert wrong == framed(plan, other)


def test_cases_of_texts_with_control_characters_are_read_back():
    answers = ["it\x92s \x7f", "no \x85 \u2028 lines"]
    examples = [Example(f"don\x92t \x00 {number}?", answer) for number, answer in enumerate(answers)]
    plan = EnvironmentPlan("my-task", "single-turn", "text", "v1", {"train": examples}, DataOrigin("q.jsonl"))
    replies = "\n".join(case["reply"] for case in yaml.safe_load(files_of(plan)["tests/cases.yaml"]))
    assert all(framed(plan, answer) in replies for answer in answers)


TEXTS = ("a", "b", "c", "d", "e")


@pytest.mark.parametrize(
    ("train", "test"),
    [
        (Example("Which?", "B", TEXTS[:4]), Example("Which now?", "E", TEXTS)),
        (Example("Which? A) a B) b", "B"), Example("Which now? A) a B) b C) c D) d E) e", "A")),
        (Example("Which of those?", "B"), Example("Which of these?", "E")),
    ],
)
def test_choice_reads_letters_of_all_splits(train: Example, test: Example):
    splits = {"train": [train], "test": [test]}
    namespace: dict[str, Any] = {}
    plan = EnvironmentPlan("my-task", "single-turn", "choice", "v1", splits, DataOrigin("q.jsonl"))
    exec(files_of(plan)["my_task/answers.py"], namespace)
    assert [namespace["read_answer"](f"<answer>{letter}</answer>") for letter in "BEF"] == ["B", "E", None]


def test_plan_decides_on_tests_documents_and_programs_of_all_splits():
    called, fed = CodeTest(call="f(1)", expected="2"), CodeTest(input="1", expected="2")
    train = Example("Write f.", "def f(x):\n    return x + 1", document="Facts", tests=(called,))
    splits = {"train": [train], "test": [replace(train, answer="SELECT x FROM f", document="", tests=(fed,))]}
    plan = EnvironmentPlan("my-task", "code", "code", "v1", splits, DataOrigin("q.jsonl"))
    assert plan.calls_functions
    assert plan.feeds_input
    assert not is_python(plan)
    assert replace(plan, kind="tool").hides_question
    assert not replace(plan, splits={**splits, "test": [replace(train, tests=())]}).runs_tests
