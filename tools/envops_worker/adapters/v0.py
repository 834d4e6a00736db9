"""Environments of the first generation: `load_environment() -> vf.Environment`.

Written for verifiers 0.1.8 to 0.3.1; what differs between them is in `releases_v0`.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import importlib
import inspect
import math
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

from envops_worker.adapters.adapter import Job, Manner, Settings, TaskView, Trap, calls_rewards, finite_or_none
from envops_worker.adapters.environments_v0 import (
    dataset_of,
    draft_reader,
    is_conversational,
    leaf_rubrics,
    prepares_plainly,
    scores_alone,
)
from envops_worker.adapters.releases_v0 import (
    Unlimited,
    heard_in,
    openai_form,
    prompt_of,
    resolved_client,
    rows_of_columns,
)
from envops_worker.adapters.rollout_errors import failure_raised, failure_said, out_of_time
from envops_worker.adapters.rollouts_v0 import Ledger, count_retries, seconds_of, tokens_of
from envops_worker.adapters.states_v0 import scored_alone, state_of
from envops_worker.failures import Sources, said_as_exception
from envops_worker.messages import Message
from envops_worker.policies.judges import being_scored
from envops_worker.waiting import Waits, at_once


class AdapterV0:
    """The surface of `adapter.Adapter` over a v0 environment."""

    infinite = False

    def __init__(self, settings: Settings, sources: Sources) -> None:
        self._sources = sources
        self._environment = importlib.import_module(settings.module).load_environment(**settings.args)
        self._environment.env_id = getattr(self._environment, "env_id", None) or settings.module
        self._trap: ContextVar[Trap | None] = ContextVar("trap", default=None)
        self._table = self._trapped_functions()
        self._has_group_functions = any(function["group"] for function in self._table.values())
        rubric = self._environment.rubric
        self._scores_alone = not self._has_group_functions and scores_alone(rubric)
        self._scores_directly = (
            self._scores_alone and prepares_plainly(self._environment) and hasattr(rubric, "score_objects")
        )
        asks = inspect.signature(rubric.score_group).parameters
        self._scoring_options = {"score_sem": Unlimited()} if "score_sem" in asks else {}
        self.conversational = is_conversational(self._environment)
        self.grouped = any(function["group"] for function in self._table.values())
        self.compares_siblings = False

    def describe(self) -> dict[str, Any]:
        return {
            "generation": "v0",
            "environment": type(self._environment).__name__,
            "conversational": self.conversational,
            "functions": list(self._table.values()),
            "tools": [getattr(tool, "__name__", str(tool)) for tool in getattr(self._environment, "tools", None) or []],
            "drafts_read_by": next(filter(None, map(draft_reader, self._parsers())), None),
        }

    def _parsers(self) -> Iterator[Any]:
        yield getattr(self._environment, "parser", None)
        for rubric in leaf_rubrics(self._environment.rubric):
            yield getattr(rubric, "parser", None)

    @property
    def environment(self) -> Any:
        """The environment itself, for what only this generation has: its parsers."""
        return self._environment

    def parser_tags(self) -> list[str]:
        """The XML fields that the environment's parser reads, the answer's last."""
        parser: Any = getattr(self._environment, "parser", None)
        with contextlib.suppress(Exception):
            fields = list(parser.get_fields())
            answer = getattr(parser, "answer_field", "answer")
            return [*(field for field in fields if field != answer), *([answer] if answer in fields else [])]
        return []

    def tasks(self, split: str, limit: int | None) -> Iterator[TaskView]:
        dataset = dataset_of(self._environment, split)
        if dataset is None:
            return
        for index, row in enumerate(dataset):
            if limit is not None and index >= limit:
                return
            yield TaskView(index, prompt_of(row), dict(row), dict(row))

    def _trapped_functions(self) -> dict[str, dict[str, Any]]:
        """Put a trap around every reward function of every rubric, and list them."""
        table = {}
        for rubric in leaf_rubrics(self._environment.rubric):
            rubric._call_individual_reward_func = self._filed_apart(rubric._call_individual_reward_func)
            # Asked of every function with every reply, by reading its signature twice.
            rubric._is_group_func = functools.cache(rubric._is_group_func)
            for position, (function, weight) in enumerate(zip(rubric.funcs, rubric.weights, strict=True)):
                name = getattr(function, "__name__", repr(function))
                group = bool(rubric._is_group_func(function))
                table[name] = {
                    "name": name,
                    "weight": float(weight),
                    "kind": "reward" if weight else "metric",
                    "group": group,
                    "place": self._sources.place_of_code(getattr(inspect.unwrap(function), "__code__", None)),
                }
                rubric.funcs[position] = self._trapped(name, function, group=group)
        return table

    def _filed_apart(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """What a function raises on one conversation of a group is filed with that one."""

        async def apart(*args: Any, **kwargs: Any) -> Any:
            trap = self._trap.get()
            state = kwargs["state"] if "state" in kwargs else args[1]
            token = self._trap.set(trap and trap.part(id(state)))
            try:
                with being_scored(functools.partial(heard_in, state)):
                    return await call(*args, **kwargs)
            finally:
                self._trap.reset(token)

        return apart

    def _trapped(self, name: str, function: Callable[..., Any], *, group: bool) -> Callable[..., Any]:
        def check(value: Any) -> Any:
            trap = self._trap.get()
            if trap is not None and not (type(value) is float and math.isfinite(value)):
                for item in value if group and isinstance(value, list) else [value]:
                    trap.checked(name, item)
            return value

        @calls_rewards
        async def awaited(value: Any) -> Any:
            try:
                value = await value
            except (Exception, SystemExit) as error:
                raise self._filed(name, error) from error.__cause__
            return check(value)

        @functools.wraps(function)
        @calls_rewards
        def trapped(*args: Any, **kwargs: Any) -> Any:
            try:
                value = function(*args, **kwargs)
            except (Exception, SystemExit) as error:
                raise self._filed(name, error) from error.__cause__
            return awaited(value) if type(value) is not float and inspect.isawaitable(value) else check(value)

        # Read once: verifiers asks for it with every reply.
        trapped.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
        # Releases of verifiers want a name; what has none must not get one here.
        return trapped if hasattr(function, "__name__") else functools.partial(trapped)

    def _filed(self, name: str, error: BaseException) -> BaseException:
        """The error as an exception that verifiers can catch, filed before it does."""
        said = said_as_exception(error)
        trap = self._trap.get()
        if trap is not None:
            trap.filed(name, said)
        return said

    async def score(self, task: TaskView, completions: Sequence[Sequence[Message]]) -> list[dict[str, Any]]:
        if not self._has_group_functions:
            return [(await self._score_group(task, [completion]))[0] for completion in completions]
        return await self._score_group(task, completions)

    async def _score_group(self, task: TaskView, completions: Sequence[Sequence[Message]]) -> list[dict[str, Any]]:
        states = [await state_of(self._environment, task, completion) for completion in completions]
        trap = Trap(self._sources)
        token = self._trap.set(trap)
        started = time.perf_counter()
        failure = None
        try:
            await self._scored(states)
        except Exception as error:
            failure = self._sources.failure(error)
        finally:
            self._trap.reset(token)
        seconds = (time.perf_counter() - started) / len(states)
        rows = []
        for state in states:
            filed = trap.taken_for(id(state))
            rewards = self._rewards_of(state.get("reward"), state.get("metrics") or {}, filed)
            rows.append({**rewards, "failure": None if filed else failure, "seconds": seconds})
        return rows

    def score_directly(self, task: TaskView, completion: Sequence[Message]) -> dict[str, Any] | None:
        if not self._scores_directly:
            return None
        started = time.perf_counter()
        trap = Trap(self._sources)
        token = self._trap.set(trap)
        try:
            state = at_once(state_of(self._environment, task, completion))
            with being_scored(functools.partial(heard_in, state)):
                reward, metrics = scored_alone(self._environment.rubric, state)
        except Waits:
            return None
        finally:
            self._trap.reset(token)
        rewards = self._rewards_of(reward, metrics, list(trap.failures.values()))
        return {**rewards, "failure": None, "seconds": time.perf_counter() - started}

    async def _scored(self, states: Sequence[Any]) -> None:
        rubric = self._environment.rubric
        if self._scores_alone and len(states) == 1:
            await rubric.score_rollout(states[0], **self._scoring_options)
        else:
            await rubric.score_group(states, **self._scoring_options)

    def _rewards_of(
        self, reward: Any, metrics: Mapping[str, Any], filed: Sequence[Mapping[str, Any]]
    ) -> dict[str, Any]:
        failed = {entry["function"] for entry in filed}
        functions = {}
        for name in {**self._table, **metrics}:
            known = self._table.get(name, {"weight": 0.0, "kind": "metric"})
            score = None if name in failed else finite_or_none(metrics.get(name))
            functions[name] = {"score": score, "weight": known["weight"], "kind": known["kind"]}
        unsaid = any(functions[name]["weight"] for name in failed if name in functions)
        return {"reward": None if unsaid else finite_or_none(reward), "functions": functions, "failures": filed}

    async def validate(self, _task: TaskView) -> bool | None:
        return None

    async def close(self) -> None: ...

    async def roll_out(
        self,
        jobs: Sequence[Job],
        tasks: Mapping[int, TaskView],
        base_url: str,
        max_concurrent: int,
        seconds: float,
        manner: Manner = Manner(),  # noqa: B008
    ) -> AsyncGenerator[dict[str, Any], None]:
        """Every policy in turn through `Environment.generate`, which `evaluate` is a front of."""
        by_policy: dict[str, list[Job]] = defaultdict(list)
        for job in jobs:
            by_policy[job.policy].append(job)
        for policy, same in by_policy.items():
            ledger = Ledger(
                [(dict(tasks[job.task].native), job.task, number) for job in same for number in job.numbers()]
            )
            async for output in self._generate(ledger, policy, base_url, max_concurrent, seconds, manner):
                task, number = ledger.settled(output)
                yield self._rollout(task, policy, number, output)

    async def _generate(
        self, ledger: Ledger, policy: str, base_url: str, max_concurrent: int, seconds: float, manner: Manner
    ) -> AsyncGenerator[dict[str, Any], None]:
        inputs = ledger.rows
        generate = self._environment.generate
        accepted = inspect.signature(generate).parameters
        client = resolved_client(base_url, seconds, manner.retries)
        count_retries(client)
        arguments: dict[str, Any] = {"client": client, "model": policy, "sampling_args": dict(manner.sampling)}
        if "on_progress" not in accepted:  # 0.1.8 and 0.1.9: columns at the end
            with self._filing_per_rollout(ledger, manner.limit(seconds)):
                results = await generate(inputs, **arguments, max_concurrent=max_concurrent, use_tqdm=False)
            for output in rows_of_columns(results):
                yield output
            return
        arrived: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

        def progress(_all: Any, new: list[dict[str, Any]], _metadata: Any) -> None:
            for output in new:
                arrived.put_nowait(output)

        group = self._has_group_functions
        arguments |= {
            "independent_scoring": not group,
            "max_concurrent": max_concurrent,  # bounds rollouts when scoring is independent, else groups
            "on_start": lambda *_: None,
            "on_progress": progress,
            "on_log": lambda *_: None,
        }
        with self._filing_per_rollout(ledger, manner.limit(seconds)):
            generation = asyncio.ensure_future(generate(inputs, **arguments))
            generation.add_done_callback(lambda _: arrived.put_nowait({}))
            try:
                while output := await arrived.get():
                    yield output
                await generation
            finally:
                generation.cancel()
                with contextlib.suppress(asyncio.CancelledError, Exception):
                    await generation
                with contextlib.suppress(Exception):
                    await client.close()

    @contextlib.contextmanager
    def _filing_per_rollout(self, ledger: Ledger, limit: float) -> Iterator[None]:
        """File what reward functions raise with the very rollout (or group) that they judged.

        What a rollout itself raises is its own failure, not the end of all others.
        """
        environment = self._environment

        def filing(original: Callable[..., Any]) -> Callable[..., Any]:
            async def run(*args: Any, **kwargs: Any) -> Any:
                trap = Trap(self._sources)
                self._trap.set(trap)
                given = [*args, *kwargs.values()]
                outputs = await ledger.outcome(original(*args, **kwargs), given, limit)
                ledger.filed(trap, given, outputs)
                return outputs

            return run

        for name in ("run_rollout", "run_group"):
            setattr(environment, name, filing(getattr(environment, name)))
        environment.rollout = ledger.watching(environment.rollout)
        try:
            yield
        finally:
            for name in ("run_rollout", "run_group", "rollout"):
                delattr(environment, name)

    def _rollout(self, index: int, policy: str, number: int, output: Mapping[str, Any]) -> dict[str, Any]:
        filed = output.get("envops_failures") or []
        failure = output.get("envops_failure") or self._failure_of(output.get("error"))
        stop = output.get("stop_condition")
        if failure is None and stop == "timeout_reached":
            failure = out_of_time(seconds_of(output.get("timing")))
        metrics = output.get("metrics") or {name: output[name] for name in self._table if name in output}
        if failure is not None:
            metrics = {}  # 0.1.9 scores what was never said
        said = failure is None
        if failure is None and filed:
            failure = {**filed[0]["failure"], "message": f"{filed[0]['function']}: {filed[0]['failure']['message']}"}
        rewards = self._rewards_of(output.get("reward") if said else None, metrics, filed)
        return {
            "task": index,
            "policy": policy,
            "rollout": number,
            "completion": [openai_form(message) for message in output.get("completion") or []],
            **rewards,
            "failure": failure,
            "stop": stop,
            "timed_out": failure is not None and failure["kind"] == "timeout" and not filed,
            "seconds": seconds_of(output.get("timing")),
            "truncated": bool(output.get("is_truncated")),
            "retries": output.get("envops_retries", 0),
            "tokens": tokens_of(output.get("token_usage")),
        }

    def _failure_of(self, error: Any) -> dict[str, Any] | None:
        if not error:
            return None
        if isinstance(error, BaseException):
            return failure_raised(error, self._sources)
        if isinstance(error, Mapping):
            kind = str(error.get("error") or error.get("type") or "Error")
            text = str(error.get("error_chain_repr") or error.get("message") or error)
            return failure_said(kind, text)
        return failure_said(str(error).partition("(")[0], str(error))
