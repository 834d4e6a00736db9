"""The author's oracle, and the one that is derived where there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from envops_worker.messages import text_of
from envops_worker.policies.oracle import AuthorsOracle, DerivedOracle, NoOracle, OracleError

if TYPE_CHECKING:
    from pathlib import Path


def derived(prompt: str, answer: object = "4", tags: tuple[str, ...] = ()) -> str:
    return text_of(DerivedOracle(tags).reply({"answer": answer}, [{"role": "user", "content": prompt}]))


def test_the_parsers_tags_come_first():
    reply = derived("Put it in \\boxed{}.", tags=("think", "answer"))
    assert reply.startswith("<think>")
    assert reply.endswith("<answer>4</answer>")


@pytest.mark.parametrize(
    ("prompt", "reply"),
    [
        ("Answer in <answer> tags.", "<answer>4</answer>"),
        ("Answer in \\boxed{}.", "\\boxed{4}"),
        ("End with #### and the number.", "#### 4"),
        ('Answer in JSON: {"answer": ...}', '{"answer": "4"}'),
        ("What is 2 + 2?", "4"),
    ],
)
def test_the_format_is_read_from_the_prompt(prompt: str, reply: str):
    assert derived(prompt) == reply


def test_the_answer_goes_into_the_answers_tag():
    assert derived("Use <answer>, and <reasoning> before it.").endswith("<answer>4</answer>")


def test_a_task_without_an_answer_has_no_oracle():
    with pytest.raises(NoOracle):
        DerivedOracle().reply({"question": "?"}, [])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "oracle.py"


def asked(file: Path, source: str) -> dict[str, object]:
    file.write_text(source)
    return AuthorsOracle(file).reply({"answer": "4"}, [{"role": "user", "content": "?"}])


def test_a_string_becomes_a_message(file: Path):
    assert asked(file, "def reply(task, messages): return task['answer']") == {"role": "assistant", "content": "4"}


def test_a_message_is_passed_on(file: Path):
    source = "def reply(task, messages): return {'tool_calls': [1], 'content': None}"
    assert asked(file, source)["tool_calls"] == [1]


def test_the_oracle_cannot_change_the_task(file: Path):
    file.write_text("def reply(task, messages): task.clear(); messages.clear(); return ''")
    task, messages = {"answer": "4"}, [{"role": "user", "content": "?"}]
    AuthorsOracle(file).reply(task, messages)
    assert (task, len(messages)) == ({"answer": "4"}, 1)


@pytest.mark.parametrize("said", ["None", "42", "['a']", "{}", "{'text': 'a'}", "b'a'"])
def test_anything_else_is_no_reply(file: Path, said: str):
    with pytest.raises(OracleError, match="not a string or an assistant message"):
        asked(file, f"def reply(task, messages): return {said}")


@pytest.mark.parametrize("source", ["", "reply = 'yes'", "def answer(task): ..."])
def test_a_file_without_the_function_is_refused(file: Path, source: str):
    with pytest.raises(OracleError, match="defines no function reply"):
        asked(file, source)


def test_what_the_file_raises_is_raised(file: Path):
    with pytest.raises(ZeroDivisionError):
        asked(file, "1 / 0")
