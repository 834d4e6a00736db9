"""Tasks of two versions are paired by what they hold."""

from __future__ import annotations

from typing import Any

from envwright.facts.observed import Task
from envwright.statistics.task_matching import Matching, match_tasks


def task(index: int, prompt: str, answer: Any = None, system: str = "", **data: Any) -> Task:
    messages = ({"role": "system", "content": system},) if system else ()
    return Task(index, (*messages, {"role": "user", "content": prompt}), answer, {"answer": answer, **data})


def pairs(matching: Matching) -> set[tuple[int, int]]:
    return {(match.tasks.before.index, match.tasks.after.index) for match in matching.matches}


def test_equal_tasks_at_other_positions_match() -> None:
    base = [task(0, "1+1?", "2"), task(1, "2+2?", "4")]
    head = [task(0, "2+2?", "4"), task(1, "1+1?", "2")]
    matching = match_tasks(base, head)
    assert pairs(matching) == {(0, 1), (1, 0)}
    assert {match.by for match in matching.matches} == {"prompt and data"}
    assert not any(match.prompts_differ for match in matching.matches)


def test_tasks_without_counterpart_are_listed() -> None:
    matching = match_tasks([task(0, "1+1?", "2"), task(1, "gone?", "9")], [task(0, "1+1?", "2"), task(1, "new?", "7")])
    assert pairs(matching) == {(0, 0)}
    assert matching.unmatched.before == (1,)
    assert matching.unmatched.after == (1,)


def test_task_with_other_answer_matches_by_prompt() -> None:
    (match,) = match_tasks([task(0, "1+1?", "3")], [task(0, "1+1?", "2")]).matches
    assert match.by == "prompt"


def test_task_with_other_white_space_or_system_prompt_matches() -> None:
    (match,) = match_tasks([task(3, "What is\n1+1?", "2")], [task(0, "What is 1+1?", "2", system="Be brief.")]).matches
    assert match.prompts_differ


def test_task_that_names_its_package_folder_matches_another_version() -> None:
    base, head = (task(0, f"Read /wheels/a/{digest}/site/sums/1.txt", "2") for digest in ("3f", "9c"))
    (match,) = match_tasks([base], [head]).matches
    assert (match.by, match.prompts_differ) == ("prompt and data", False)


def test_reworded_prompt_is_matched_by_data() -> None:
    base = [task(0, "Add 1 and 1.", "2", left=1), task(1, "Add 2 and 0.", "2", left=2)]
    head = [task(0, "What is 2 plus 0?", "2", left=2), task(1, "What is 1 plus 1?", "2", left=1)]
    assert pairs(match_tasks(base, head)) == {(0, 1), (1, 0)}


def test_tasks_with_other_fields_match_by_position_and_answer() -> None:
    base = [task(0, "Add 1 and 1.", "2", info={}), task(1, "Add 2 and 2.", "4", info={})]
    head = [task(0, "What is 1 plus 1?", 2, kind="sum"), task(1, "What is 2 plus 3?", 5, kind="sum")]
    matching = match_tasks(base, head)
    assert pairs(matching) == {(0, 0)}
    assert matching.unmatched.before == (1,)


def test_answers_as_text_or_number_match() -> None:
    (match,) = match_tasks([task(4, "1+1?", "2", example_id=4, info={})], [task(0, "1+1?", 2, idx=0)]).matches
    assert match.by == "prompt and answer"


def test_games_with_same_opening_match_by_hidden_data() -> None:
    base = [task(index, "Guess.", None, secret=secret) for index, secret in enumerate((5, 7, 9))]
    head = [task(index, "Guess.", None, secret=secret) for index, secret in enumerate((9, 5, 8))]
    assert {(0, 1), (2, 0)} <= pairs(match_tasks(base, head))


def test_repeated_tasks_are_paired_one_by_one() -> None:
    same = [task(index, "1+1?", "2") for index in range(3)]
    assert pairs(match_tasks(same, same[:2])) == {(0, 0), (1, 1)}


def test_tasks_without_prompt_answer_or_data_do_not_match() -> None:
    matching = match_tasks([Task(0, ())], [Task(0, ())])
    assert matching.matches == ()
