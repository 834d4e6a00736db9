"""What an environment of the first generation is made of: members of a group, rubrics, parsers."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

import verifiers as vf

WRAPPED = ("_call_individual_reward_func", "_is_group_func")
"""What the adapter puts something of its own around, in every rubric."""


def member_of(environment: Any, row: Mapping[str, Any]) -> Any:
    """The environment of a group that a row belongs to; any other environment itself."""
    members = getattr(environment, "env_map", None)
    if not members:
        return environment
    info = row.get("info") or {}
    info = json.loads(info) if isinstance(info, str) else info
    route = info.get("env_id", row.get("task"))
    name = route[0] if isinstance(route, list) and route else route
    return members.get(name, environment)


def draft_reader(parser: Any) -> str | None:
    """The name of a parser of verifiers itself that takes an answer inside the reasoning for the answer."""
    if parser is None or not type(parser).__module__.startswith("verifiers."):
        return None
    with contextlib.suppress(Exception):
        field = parser.answer_field
        draft = f"<think>\n<{field}>q</{field}>\n</think>"
        if parser.parse_answer([{"role": "assistant", "content": draft}]) == "q":
            return type(parser).__name__
    return None


def leaf_rubrics(rubric: Any) -> Iterator[Any]:
    """The rubrics that hold functions, below any nesting of groups."""
    inner = getattr(rubric, "rubrics", None)
    mapped = getattr(rubric, "env_map", None)
    if inner:
        for one in inner:
            yield from leaf_rubrics(one)
    elif mapped:
        for environment in mapped.values():
            yield from leaf_rubrics(environment.rubric)
    else:
        yield rubric


def scores_alone(rubric: Any) -> bool:
    """Whether a reply without siblings earns the same by `score_rollout` as in a group of one, which costs half more.

    verifiers' own rubrics say so, where each holds a function: `Environment.generate` scores rollouts that way too.
    """
    if isinstance(rubric, vf.RubricGroup):
        own: Any = vf.RubricGroup
        parts = all(scores_alone(one) for one in rubric.rubrics)
    else:
        own, parts = vf.Rubric, bool(rubric.funcs)
    return parts and all(
        getattr(type(rubric), name, None) is getattr(own, name, None) and (name not in vars(rubric) or name in WRAPPED)
        for name in (*WRAPPED, "score_rollout", "score_group", "score_objects", "task_for_state", "task_score_fields")
    )


def prepares_plainly(environment: Any) -> bool:
    """Whether verifiers alone makes the state of a rollout, and what reward functions are given."""
    if getattr(environment, "env_map", None):  # each of its members makes its own
        return False
    makers = (getattr(type(environment), name) for name in ("init_state", "setup_state"))
    given = [
        one for rubric in leaf_rubrics(environment.rubric) for one in getattr(rubric, "score_object_providers", ())
    ]
    return not given and all(maker.__module__.startswith("verifiers.") for maker in makers)


def is_conversational(environment: Any) -> bool:
    inner = getattr(environment, "envs", None)
    if inner:
        return any(is_conversational(one) for one in inner)
    return not isinstance(environment, vf.SingleTurnEnv)


def dataset_of(environment: Any, split: str) -> Any:
    """The rows of a split, `None` where the environment has none."""
    evaluation = _own_eval_dataset(environment)
    try:
        training = environment.get_dataset()
    except (ValueError, AssertionError):  # evaluation only
        return evaluation if split == "train" else None
    return training if split == "train" else evaluation


def _own_eval_dataset(environment: Any) -> Any:
    """The evaluation split, `None` where the library would fall back to the training split."""
    with contextlib.suppress(Exception):
        environment.build_eval_dataset()
    return getattr(environment, "eval_dataset", None)
