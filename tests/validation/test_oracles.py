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


def test_derived_reply_prefers_tags_of_parser():
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
def test_derived_reply_uses_format_of_prompt(prompt: str, reply: str):
    assert derived(prompt) == reply


def test_derived_reply_puts_answer_into_answer_tag():
    assert derived("Use <answer>, and <reasoning> before it.").endswith("<answer>4</answer>")


def test_task_without_answer_raises_no_oracle():
    with pytest.raises(NoOracle):
        DerivedOracle().reply({"question": "?"}, [])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "oracle.py"


def asked(file: Path, source: str) -> dict[str, object]:
    file.write_text(source)
    return AuthorsOracle(file).reply({"answer": "4"}, [{"role": "user", "content": "?"}])


def test_oracle_string_becomes_message(file: Path):
    assert asked(file, "def reply(task, messages): return task['answer']") == {"role": "assistant", "content": "4"}


def test_oracle_message_is_passed_on(file: Path):
    source = "def reply(task, messages): return {'tool_calls': [1], 'content': None}"
    assert asked(file, source)["tool_calls"] == [1]


def test_oracle_cannot_change_task(file: Path):
    file.write_text("def reply(task, messages): task.clear(); messages.clear(); return ''")
    task, messages = {"answer": "4"}, [{"role": "user", "content": "?"}]
    AuthorsOracle(file).reply(task, messages)
    assert (task, len(messages)) == ({"answer": "4"}, 1)


@pytest.mark.parametrize("said", ["None", "42", "['a']", "{}", "{'text': 'a'}", "b'a'"])
def test_oracle_other_return_value_raises(file: Path, said: str):
    with pytest.raises(OracleError, match="not a string or an assistant message"):
        asked(file, f"def reply(task, messages): return {said}")


@pytest.mark.parametrize("source", ["", "reply = 'yes'", "def answer(task): ..."])
def test_oracle_file_without_reply_raises(file: Path, source: str):
    with pytest.raises(OracleError, match="has no function reply"):
        asked(file, source)


def test_oracle_exception_is_raised(file: Path):
    with pytest.raises(ZeroDivisionError):
        asked(file, "1 / 0")
