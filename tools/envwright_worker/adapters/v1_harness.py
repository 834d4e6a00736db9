"""A package of the second generation that exports a harness and no taskset: it can be loaded, but has no tasks."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from typing import Any, NoReturn

import verifiers.v1 as vf

from envwright_worker.adapters.adapter import RolloutOptions, RolloutRequest, RolloutTurn, Settings, TaskView, ToolUse
from envwright_worker.messages import Message


class HarnessAdapter:
    """The surface of `adapter.Adapter` over a harness."""

    conversational = False
    grouped = False
    compares_siblings = False
    infinite = False
    limits_turns = True

    def __init__(self, settings: Settings) -> None:
        config = vf.harness_config_type(settings.module).model_validate({"id": settings.module, **settings.args})
        self._harness = vf.load_harness(config)

    def describe(self) -> dict[str, Any]:
        return {
            "generation": "v1",
            "environment": type(self._harness).__name__,
            "conversational": False,
            "functions": [],
            "tools": [],
        }

    def place_of_turns(self) -> Mapping[str, Any] | None:
        return None

    def parser_tags(self) -> list[str]:
        return []

    def tasks(self, split: str, limit: int | None) -> Iterator[TaskView]:  # noqa: ARG002 (the surface's)
        return iter(())

    def with_data(self, task: TaskView, data: dict[str, Any], /) -> TaskView:  # noqa: ARG002
        _no_tasks()

    async def score(self, task: TaskView, completions: Sequence[Sequence[Message]]) -> list[dict[str, Any]]:  # noqa: ARG002
        _no_tasks()

    def score_directly(self, task: TaskView, completion: Sequence[Message], /) -> dict[str, Any] | None:  # noqa: ARG002
        _no_tasks()

    def roll_out(
        self,
        jobs: Sequence[RolloutRequest],  # noqa: ARG002
        tasks: Mapping[int, TaskView],  # noqa: ARG002
        base_url: str,  # noqa: ARG002
        max_concurrent: int,  # noqa: ARG002
        seconds: float,  # noqa: ARG002
        options: RolloutOptions = RolloutOptions(),  # noqa: ARG002, B008
    ) -> AsyncGenerator[dict[str, Any], None]:
        _no_tasks()

    async def tools_of(self, task: TaskView) -> list[dict[str, Any]]:  # noqa: ARG002
        return []

    def recorded_rewards(self) -> list[dict[str, Any]]:
        return []

    def taken_tool_calls(self) -> list[ToolUse]:
        return []

    def request_by(self, conversation: str, messages: Sequence[Message]) -> RolloutTurn | None:  # noqa: ARG002
        return None

    async def validate(self, task: TaskView, /) -> bool | None:  # noqa: ARG002
        _no_tasks()

    async def close(self) -> None:
        """Do nothing: no servers were started."""


def _no_tasks() -> NoReturn:
    raise TypeError("a harness has no tasks of its own")
