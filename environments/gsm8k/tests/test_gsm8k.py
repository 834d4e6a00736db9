"""What the sample and the reading of numbers promise. The whole data set is on the Hub and not needed here."""

import re
from decimal import Decimal

import pytest
import verifiers.v1 as vf
from gsm8k.answers import as_number, final_number
from gsm8k.taskset import GSM8K, REVISION, GSM8KTaskset


def taskset(split: str) -> GSM8KTaskset:
    config = {"id": "gsm8k", "source": "sample", "split": split}
    return vf.load_taskset(vf.taskset_config_type("gsm8k").model_validate(config))


def sample(split: str) -> list[GSM8K]:
    return list(taskset(split))


SAMPLE = [*sample("train"), *sample("test")]


def test_the_sample_has_both_splits():
    assert len(sample("train")) == 26
    assert len(sample("test")) == 14


def test_no_question_is_in_the_sample_twice():
    assert len({task.data.prompt for task in SAMPLE}) == len(SAMPLE)


@pytest.mark.parametrize("task", SAMPLE, ids=lambda task: task.data.prompt[:30])
def test_the_worked_solutions_are_right(task: GSM8K):
    notes = re.findall(r"<<([-+*/().\d]+)=([-.\d]+)>>", task.data.solution)
    assert len(notes) == task.data.solution.count("<<") > 0
    assert [eval(expression) for expression, _ in notes] == pytest.approx([float(value) for _, value in notes])
    assert Decimal(notes[-1][1]) == as_number(task.data.answer)


@pytest.mark.parametrize("task", SAMPLE, ids=lambda task: task.data.prompt[:30])
def test_the_question_does_not_show_the_answer(task: GSM8K):
    assert task.data.answer not in re.findall(r"-?\d[\d,.]*\d|\d", task.data.prompt)


@pytest.mark.parametrize("task", SAMPLE, ids=lambda task: task.data.prompt[:30])
def test_the_worked_solution_reads_as_the_answer(task: GSM8K):
    assert final_number(task.data.solution) == as_number(task.data.answer)


def test_a_solution_without_a_number_is_refused():
    with pytest.raises(ValueError, match="not a number"):
        taskset("train").task("How many?", "Nobody knows.\n#### many")


def test_the_data_set_is_pinned_to_a_commit():
    assert re.fullmatch(r"[0-9a-f]{40}", REVISION)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("42", "42"),
        (" 1,234 ", "1234"),
        ("-7", "-7"),
        ("−7", "-7"),
        ("+7", "7"),
        ("$12.50", "12.5"),
        ("-$3", "-3"),
        ("42.", "42"),
        ("0.125", "0.125"),
    ],
)
def test_ways_to_write_a_number(text: str, value: str):
    assert as_number(text) == Decimal(value)


@pytest.mark.parametrize(
    "text", ["", "many", "1 or 2", "1,23", "4 apples", "1e5", "NaN", "inf", "４２", "9" * 5000, "1/2"]
)
def test_what_is_no_number(text: str):
    assert as_number(text) is None


@pytest.mark.parametrize(
    "reply", ["#### 42", "So:\n####42\n\n", "#### First\nx\n#### 42.0", "<think>#### 41</think>\n#### 42"]
)
def test_replies_that_end_in_a_number(reply: str):
    assert final_number(reply) == 42


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "42",
        "#### 42\nI think.",
        "#### 41\n#### 42",
        "#### 41 or 42",
        "##### 42",
        "It is #### 42",
        "<think>\n#### 42\n</think>",
        "<think>\n#### 42",
        "#### 42\n#### and so on",
    ],
)
def test_replies_that_do_not(reply: str):
    assert final_number(reply) is None
