"""Environments of the second generation: a `Taskset` exported by the package.

Written for verifiers 0.3.1 and 0.4; the differences of 0.2.1 are handled where they arise.
"""

from __future__ import annotations

import asyncio
import copy
import functools
import inspect
import itertools
import re
import sys
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import verifiers.v1 as vf

from envops_worker.adapters import chat_harness
from envops_worker.adapters.adapter import Job, Manner, Settings, TaskView, Trap, calls_rewards
from envops_worker.adapters.harnesses import Harnesses
from envops_worker.adapters.rollout_errors import failure_raised, failure_said, lost_rollout, out_of_time
from envops_worker.adapters.scoring_v1 import (
    let_judges_know,
    needs_runtime,
    provisioned,
    score_at_once,
    score_in_place,
    scores_plainly,
)
from envops_worker.adapters.traces_v1 import completion_of, identity_of, prompt_of, rewards_of, tokens_of, trace_of
from envops_worker.failures import Sources, said_as_exception
from envops_worker.messages import Message
from envops_worker.tool_servers import fork_servers
from envops_worker.waiting import Waits

EVALUATION_SPLITS = ("test", "eval", "evaluation", "validation", "dev")
MOST_KNOWN = 256
"""Tasks that are kept with their functions: those that replies are asked about, not all of a taskset."""
MARGIN_SECONDS = 5.0
"""How long before the host's limit a rollout's own limit runs out, so that it is reported."""


@dataclass(frozen=True)
class _Known:
    """What is the same in all scorings of a task."""

    native: Any
    """The task itself, which keeps its identity while it is held."""
    identity: Mapping[str, str]
    functions: Mapping[str, list[Callable[..., Any]]]
    """Trapped, by their kind."""


class AdapterV1:
    """The surface of `adapter.Adapter` over a v1 package."""

    grouped = False

    def __init__(self, settings: Settings, sources: Sources) -> None:
        sys.modules[chat_harness.HARNESS_ID.replace("-", "_")] = chat_harness
        self._settings = settings
        self._sources = sources
        self._trap = Trap(sources)
        self._config = vf.taskset_config_type(settings.module).model_validate({"id": settings.module, **settings.args})
        self._taskset = vf.load_taskset(self._config)
        self._environment_class = vf.environment_class(settings.module)
        self._task_class = type(self._taskset).task_type()
        self._toolsets = [
            *self._taskset.toolsets(self._config),
            *self._task_class.toolsets(self._config.task),
        ]
        let_judges_know()
        self._signatures: dict[str, inspect.Signature] = {}
        self._declared: dict[str, dict[str, Any]] | None = None
        self._runtime_needed: bool | None = None
        self._known: dict[int, _Known] = {}
        """Tasks that were scored directly, by the identity of the object."""
        self.harnesses = Harnesses()
        self._environments: dict[str | None, tuple[Any, asyncio.Future[None]]] = {}
        """One for each harness, with what is done when its servers are up."""
        self._serving: list[asyncio.Future[None]] = []
        self._closing = asyncio.Event()
        self.conversational = bool(self._toolsets) or self._environment_class is not vf.SingleAgentEnv
        self.compares_siblings = self._environment_class.finalize is not vf.Env.finalize
        if self.conversational:
            fork_servers()

    def describe(self) -> dict[str, Any]:
        first = next(iter(self.tasks("train", 1)), None)
        return {
            "generation": "v1",
            "environment": type(self._taskset).__name__,
            "conversational": self.conversational,
            "functions": [] if first is None else self._functions(first.native),
            "tools": [type(toolset).__name__ for toolset in self._toolsets],
        }

    def _functions(self, task: Any) -> list[dict[str, Any]]:
        functions = [
            {
                "name": function.__name__,
                "weight": float(getattr(function, "_vf_weight", 1.0)) if kind == "reward" else 0.0,
                "kind": kind,
                "place": self._sources.place_of_code(getattr(inspect.unwrap(function), "__code__", None)),
            }
            for kind in ("reward", "metric")
            for function in task.hooks(kind)
        ]
        for judge in task.plugged_judges():
            weight = float(judge.config.weight)
            functions.append({"name": judge.reward_name, "weight": weight, "kind": "reward", "place": None})
        return functions

    def tasks(self, split: str, limit: int | None) -> Iterator[TaskView]:
        taskset = self._taskset if split == "train" else self._evaluation_taskset()
        if taskset is None:
            return
        for index, task in enumerate(itertools.islice(iter(taskset), limit)):
            data = task.data.model_dump(mode="json", exclude_none=True)
            yield TaskView(index, prompt_of(task.data), data, task)

    def _evaluation_taskset(self) -> Any:
        """The taskset with its field `split` turned to what is evaluated on; `None` without such a field."""
        field = type(self._config).model_fields.get("split")
        values = get_args(field.annotation) if field is not None else ()
        current = getattr(self._config, "split", None)
        other = next((name for name in EVALUATION_SPLITS if name in values and name != current), None)
        if other is None:
            return None
        return vf.load_taskset(self._config.model_copy(update={"split": other}))

    def parser_tags(self) -> list[str]:
        return []

    @property
    def infinite(self) -> bool:
        return bool(getattr(self._taskset, "INFINITE", False))

    async def score(self, task: TaskView, completions: Sequence[Sequence[Message]]) -> list[dict[str, Any]]:
        return [await self._score_one(task, completion) for completion in completions]

    def score_directly(self, view: TaskView, completion: Sequence[Message]) -> dict[str, Any] | None:
        native = view.native
        if id(native) not in self._known:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            if not scores_plainly(native):
                return None
            functions = {kind: self._trapped_hooks(native, kind) for kind in ("reward", "metric")}
            self._known[id(native)] = _Known(native, identity_of(native), functions)
        known = self._known[id(native)]
        trace = trace_of(view, completion, known.identity)
        task = copy.copy(native)
        task.hooks = known.functions.__getitem__
        self._trap.taken()  # what hung before may have left something
        started = time.perf_counter()
        failure = None
        try:
            score_at_once(task, trace)
        except Waits:
            return None
        except Exception as error:
            failure = self._sources.failure(error)
        return self._row(view, trace, failure, started)

    async def _score_one(self, view: TaskView, completion: Sequence[Message]) -> dict[str, Any]:
        trace = trace_of(view, completion)
        task = copy.copy(view.native)
        task.hooks = functools.partial(self._trapped_hooks, view.native)
        self._trap.taken()
        started = time.perf_counter()
        failure = None
        try:
            await score_in_place(task, trace, in_runtime=self._needs_runtime(view.native))
        except Exception as error:
            failure = self._sources.failure(error)
        return self._row(view, trace, failure, started)

    def _row(self, view: TaskView, trace: Any, failure: dict[str, Any] | None, started: float) -> dict[str, Any]:
        """What a scored trace comes to; a function's own failure says it better."""
        filed = self._trap.taken()
        return {
            **rewards_of([trace], self._weights(view.native)),
            "failures": filed,
            "failure": None if filed else failure,
            "seconds": time.perf_counter() - started,
        }

    def _weights(self, task: Any) -> dict[str, dict[str, Any]]:
        """What is declared of each function: the same for all tasks, as they share class and settings."""
        if self._declared is None:
            self._declared = {function["name"]: function for function in self._functions(task)}
        return self._declared

    def _needs_runtime(self, task: Any) -> bool:
        if self._runtime_needed is None:
            self._runtime_needed = needs_runtime(task)
        return self._runtime_needed

    def _trapped_hooks(self, task: Any, kind: str) -> list[Callable[..., Any]]:
        hooks = task.hooks(kind)
        return [self._trapped(function) for function in hooks] if kind in ("reward", "metric") else hooks

    def _trapped(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        @calls_rewards
        async def trapped(*args: Any, **kwargs: Any) -> Any:
            try:
                value = await function(*args, **kwargs)  # as the library does: a plain function is an error
            except (Exception, SystemExit) as error:
                said = said_as_exception(error)
                self._trap.filed(function.__name__, said)
                raise said from said.__cause__
            return self._trap.checked(function.__name__, value)

        trapped.__signature__ = self._signature(function)  # type: ignore[attr-defined]
        return trapped

    def _signature(self, function: Callable[..., Any]) -> inspect.Signature:
        """Read once for each function: verifiers asks for it with every reply."""
        if function.__name__ not in self._signatures:
            self._signatures[function.__name__] = inspect.signature(function)
        return self._signatures[function.__name__]

    async def validate(self, view: TaskView) -> bool | None:
        if self._task_class.validate is vf.Task.validate:
            return None
        async with provisioned(view) as runtime:
            valid = await view.native.validate(runtime)
        return None if valid is None else bool(valid)

    async def roll_out(
        self,
        jobs: Sequence[Job],
        tasks: Mapping[int, TaskView],
        base_url: str,
        max_concurrent: int,
        seconds: float,
        manner: Manner = Manner(),  # noqa: B008
    ) -> AsyncGenerator[dict[str, Any], None]:
        """Every job through the environment's own `run_slot`, all policies side by side."""
        environment = await self._served(seconds, manner.harness)
        gate = asyncio.Semaphore(max_concurrent)
        client = vf.EvalClientConfig(base_url=base_url, api_key_var="ENVOPS_ENDPOINT_KEY")

        sampling = vf.SamplingConfig(**manner.sampling)
        chat_harness.ChatHarness.retries = manner.retries
        limit = manner.limit(seconds) + manner.margin / 2  # the library's own limit runs out first, and says more

        async def play(job: Job, number: int, slot: Any) -> dict[str, Any]:
            context = vf.ModelContext(model=job.policy, client=client, sampling=sampling)
            async with gate:
                started = time.perf_counter()
                try:
                    async with asyncio.timeout(limit) as clock:
                        episode = await environment.run_slot(slot, context, None)
                    return self._rollout(job, number, episode, time.perf_counter() - started)
                except Exception as error:
                    failure = out_of_time(limit) if clock.expired() else failure_raised(error, self._sources)
                    spent = time.perf_counter() - started
                    return lost_rollout(job.task, job.policy, number, failure, seconds=spent)

        running = [
            asyncio.ensure_future(play(job, number, slot))
            for job in jobs
            for number, slot in zip(job.numbers(), environment.slots(tasks[job.task].native, job.rollouts), strict=True)
        ]
        try:
            for done in asyncio.as_completed(running):
                yield await done
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def _served(self, seconds: float, harness: str | None) -> Any:
        """The environment with its tool servers and its interception up, once for all rollouts of a harness."""
        environment, up = self._serve(seconds, harness)
        try:
            await asyncio.shield(up)
        except BaseException:
            if up.done():
                self._environments.pop(harness, None)  # the next rollouts try anew
            raise
        return environment

    def _serve(self, seconds: float, harness: str | None) -> tuple[Any, asyncio.Future[None]]:
        """The environment on its way up."""
        if harness not in self._environments:
            environment = vf.load_environment(self._environment_config(seconds, harness))
            up: asyncio.Future[None] = asyncio.get_running_loop().create_future()

            async def serve() -> None:  # entered and left by one task, as its cancel scopes want
                try:
                    async with environment.serving():
                        up.set_result(None)
                        await self._closing.wait()
                except BaseException as error:
                    if up.done():
                        raise
                    up.set_exception(error)

            self._serving.append(asyncio.ensure_future(serve()))
            self._environments[harness] = environment, up
        return self._environments[harness]

    async def close(self) -> None:
        self._closing.set()
        if self._serving:
            await asyncio.wait(self._serving, timeout=4)

    def _environment_config(self, seconds: float, harness: str | None) -> Any:
        config_class = vf.env_config_type(self._settings.module)
        seat = {
            "harness": {"id": chat_harness.HARNESS_ID} if harness is None else self.harnesses.config(harness),
            "runtime": {"type": "subprocess"},
            "timeout": {"rollout": max(1.0, seconds - MARGIN_SECONDS)},
        }
        seats = [name for name, info in config_class.model_fields.items() if isinstance(info.default, vf.AgentConfig)]
        taskset = {"id": self._settings.module, **self._settings.args}
        return vf.resolve_env_config({"taskset": taskset} | {name: dict(seat) for name in seats})

    def _failed_functions(self, traces: Sequence[Any], failure: Mapping[str, Any] | None) -> list[dict[str, Any]]:
        """The reward functions that a failed rollout's own traceback goes through."""
        if failure is None:
            return []
        unscored = {name for trace in traces for name, reward in trace.rewards.items() if reward is None}
        frames = re.findall(r'File "(.+?)", line (\d+), in (\w+)', failure["traceback"])
        places = [place for file, line, _ in frames if (place := self._sources.place(file, int(line)))]
        failed = {**failure, "kind": "raised", "place": places[-1] if places else None}
        return [{"function": name, "failure": failed} for name in unscored if name in {frame[2] for frame in frames}]

    def _rollout(self, job: Job, number: int, episode: Any, seconds: float) -> dict[str, Any]:
        traces = [trace for trace in episode.traces if getattr(trace.agent, "trainable", True)]
        errors = [*episode.errors, *(error for trace in episode.traces for error in trace.errors)]
        failure = None
        if errors or not episode.ok:
            error = errors[0] if errors else None
            said = error.message if error else "the episode is not ok, and says no reason"
            failure = failure_said(error.type if error else "NotOk", said, (error.traceback or "") if error else "")
        if failure is not None and failure["kind"] == "harness":
            failure["message"] += self.harnesses.unmet
        if any(getattr(one, "is_timeout", False) for one in (episode, *episode.traces)):
            failure = out_of_time(seconds)
        first = traces[0] if traces else None
        weights = self._weights(self._task_class(episode.task.data, self._config.task))
        rewards = rewards_of(traces, weights)
        if failure is not None:
            rewards["reward"] = None
        siblings = [{"completion": completion_of(one), **rewards_of([one], weights)} for one in traces]
        return {
            "task": job.task,
            "policy": job.policy,
            "rollout": number,
            "completion": [] if first is None else completion_of(first),
            **rewards,
            "failures": self._failed_functions(traces, failure),
            "failure": failure,
            "stop": None if first is None else first.stop_condition,
            "timed_out": failure is not None and failure["kind"] == "timeout",
            "seconds": seconds,
            "truncated": any(getattr(trace, "is_truncated", False) for trace in traces),
            "retries": sum(chat_harness.ChatHarness.asked_again.pop(trace.id, 0) for trace in episode.traces),
            "tokens": tokens_of(traces),
            "siblings": siblings if len(traces) > 1 and failure is None else [],
        }
