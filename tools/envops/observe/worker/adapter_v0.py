"""Environments of the first generation: `load_environment() -> vf.Environment`.

Written for verifiers 0.1.14 to 0.3.1; the differences of 0.1.8 and 0.1.9 are handled where
they arise.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import importlib
import inspect
import json
import time
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

import verifiers as vf

from .adapter import Job, Settings, TaskView, Trap, finite_or_none
from .failures import Sources, causes, said_as_exception
from .policies import Message

try:
    from verifiers.utils.message_utils import normalize_messages
except ImportError:  # 0.1.8 and 0.1.9 speak plain dictionaries
    normalize_messages = None

UNREACHABLE = "http://127.0.0.1:9/v1"
"""Nothing listens there; scoring needs a client but must not use it."""


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
        asks = inspect.signature(self._environment.rubric.score_group).parameters
        self._scoring_options = {"score_sem": _Unlimited()} if "score_sem" in asks else {}
        self.conversational = _is_conversational(self._environment)
        self.grouped = any(function["group"] for function in self._table.values())

    def describe(self) -> dict[str, Any]:
        return {
            "generation": "v0",
            "environment": type(self._environment).__name__,
            "conversational": self.conversational,
            "functions": list(self._table.values()),
            "tools": [getattr(tool, "__name__", str(tool)) for tool in getattr(self._environment, "tools", None) or []],
        }

    def parser_tags(self) -> list[str]:
        """The XML fields that the environment's parser reads, the answer's last."""
        parser: Any = getattr(self._environment, "parser", None)
        with contextlib.suppress(Exception):
            fields = list(parser.get_fields())
            answer = getattr(parser, "answer_field", "answer")
            return [*(field for field in fields if field != answer), *([answer] if answer in fields else [])]
        return []

    def tasks(self, split: str, limit: int | None) -> Iterator[TaskView]:
        dataset = self._dataset(split)
        if dataset is None:
            return
        for index, row in enumerate(dataset):
            if limit is not None and index >= limit:
                return
            yield TaskView(index, prompt_of(row), dict(row), dict(row))

    def _dataset(self, split: str) -> Any:
        evaluation = _own_eval_dataset(self._environment)
        try:
            training = self._environment.get_dataset()
        except (ValueError, AssertionError):  # evaluation only
            return evaluation if split == "train" else None
        return training if split == "train" else evaluation

    def _trapped_functions(self) -> dict[str, dict[str, Any]]:
        """Put a trap around every reward function of every rubric, and list them."""
        table = {}
        for rubric in leaf_rubrics(self._environment.rubric):
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

    def _trapped(self, name: str, function: Callable[..., Any], *, group: bool) -> Callable[..., Any]:
        def check(value: Any) -> Any:
            trap = self._trap.get()
            if trap is not None:
                for item in value if group and isinstance(value, list) else [value]:
                    trap.checked(name, item)
            return value

        async def awaited(value: Any) -> Any:
            try:
                return check(await value)
            except (Exception, SystemExit) as error:
                raise self._filed(name, error) from error.__cause__

        @functools.wraps(function)
        def trapped(*args: Any, **kwargs: Any) -> Any:
            try:
                value = function(*args, **kwargs)
            except (Exception, SystemExit) as error:
                raise self._filed(name, error) from error.__cause__
            return awaited(value) if inspect.isawaitable(value) else check(value)

        # Read once: verifiers asks for it with every reply.
        trapped.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
        return trapped

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
        states = [await self._state(task, completion) for completion in completions]
        trap = Trap(self._sources)
        token = self._trap.set(trap)
        started = time.perf_counter()
        failure = None
        try:
            await self._environment.rubric.score_group(states, **self._scoring_options)
        except Exception as error:
            failure = self._sources.failure(error)
        finally:
            self._trap.reset(token)
        seconds = (time.perf_counter() - started) / len(states)
        filed = trap.taken()
        return [
            {
                **self._rewards_of(state.get("reward"), state.get("metrics") or {}, filed),
                "failures": filed,
                "failure": None if filed else failure,
                "seconds": seconds,
            }
            for state in states
        ]

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
        return {"reward": None if unsaid else finite_or_none(reward), "functions": functions}

    async def _state(self, task: TaskView, completion: Sequence[Message]) -> Any:
        environment = self._environment
        state = await environment.init_state(dict(task.native), self._scoring_client(), "scripted", {})
        prepared = await environment.setup_state(state)
        state = state if prepared is None else prepared
        messages = list(completion)
        native = normalize_messages(messages) if normalize_messages else messages
        state["completion"] = native
        before = list(state["prompt"]) if isinstance(state["prompt"], list) else []
        for raw, message in zip(messages, native, strict=True):
            if raw["role"] == "assistant":
                state["trajectory"].append(_trajectory_step(before, message, state))
            before.append(message)
        state["is_completed"] = True
        state["stop_condition"] = "scripted"
        return state

    @functools.cache  # noqa: B019 - one client for the process: each one builds a TLS context
    def _scoring_client(self) -> Any:
        return resolved_client(UNREACHABLE, 1.0)

    async def validate(self, _task: TaskView) -> bool | None:
        return None

    async def close(self) -> None:
        return None

    async def roll_out(
        self, jobs: Sequence[Job], tasks: Mapping[int, TaskView], base_url: str, max_concurrent: int, seconds: float
    ) -> AsyncGenerator[dict[str, Any], None]:
        """Every policy in turn through `Environment.generate`, which `evaluate` is a front of."""
        by_policy: dict[str, list[Job]] = defaultdict(list)
        for job in jobs:
            by_policy[job.policy].append(job)
        for policy, same in by_policy.items():
            rows = {task.native["example_id"]: task.index for task in (tasks[job.task] for job in same)}
            inputs = [dict(tasks[job.task].native) for job in same for _ in range(job.rollouts)]
            numbers: Counter[int] = Counter()
            async for output in self._generate(inputs, policy, base_url, max_concurrent, seconds):
                index = rows[output["example_id"]]
                yield self._rollout(index, policy, numbers[index], output)
                numbers[index] += 1

    async def _generate(
        self, inputs: list[dict[str, Any]], policy: str, base_url: str, max_concurrent: int, seconds: float
    ) -> AsyncGenerator[dict[str, Any], None]:
        generate = self._environment.generate
        accepted = inspect.signature(generate).parameters
        client = resolved_client(base_url, seconds)
        arguments: dict[str, Any] = {"client": client, "model": policy, "sampling_args": {"temperature": 1.0}}
        if "on_progress" not in accepted:  # 0.1.8 and 0.1.9: columns at the end
            results = await generate(inputs, **arguments, max_concurrent=max_concurrent, use_tqdm=False)
            for output in _rows_of_columns(results):
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
        with self._filing_per_rollout():
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
    def _filing_per_rollout(self) -> Iterator[None]:
        """File what reward functions raise with the very rollout (or group) that they judged."""
        environment = self._environment

        def filing(original: Callable[..., Any]) -> Callable[..., Any]:
            async def run(*args: Any, **kwargs: Any) -> Any:
                trap = Trap(self._sources)
                self._trap.set(trap)
                outputs = await original(*args, **kwargs)
                filed = trap.taken()
                for output in outputs if isinstance(outputs, list) else [outputs]:
                    output["envops_failures"] = filed
                return outputs

            return run

        for name in ("run_rollout", "run_group"):
            setattr(environment, name, filing(getattr(environment, name)))
        try:
            yield
        finally:
            for name in ("run_rollout", "run_group"):
                delattr(environment, name)

    def _rollout(self, index: int, policy: str, number: int, output: Mapping[str, Any]) -> dict[str, Any]:
        filed = output.get("envops_failures") or []
        metrics = output.get("metrics") or {name: output[name] for name in self._table if name in output}
        failure = self._failure_of(output.get("error"))
        if failure is None and filed:
            failure = {**filed[0]["failure"], "message": f"{filed[0]['function']}: {filed[0]['failure']['message']}"}
        rewards = self._rewards_of(None if output.get("error") else output.get("reward"), metrics, filed)
        stop = output.get("stop_condition")
        timing = output.get("timing") or {}
        return {
            "task": index,
            "policy": policy,
            "rollout": number,
            "completion": [openai_form(message) for message in output.get("completion") or []],
            **rewards,
            "failures": filed,
            "failure": failure,
            "stop": stop,
            "timed_out": stop == "timeout_reached",
            "seconds": float(timing.get("total_ms", 0.0) or 0.0) / 1000 if isinstance(timing, Mapping) else 0.0,
        }

    def _failure_of(self, error: Any) -> dict[str, Any] | None:
        if not error:
            return None
        if isinstance(error, BaseException):
            return self._sources.failure(list(causes(error))[-1])
        if isinstance(error, Mapping):
            kind = str(error.get("error") or error.get("type") or "Error")
            text = str(error.get("error_chain_repr") or error.get("message") or error)
            return {"kind": "raised", "type": kind, "message": text[:2000], "traceback": ""}
        return {"kind": "raised", "type": "Error", "message": str(error)[:2000], "traceback": ""}


class _Unlimited:
    """A semaphore that never waits, for the releases that ask for one."""

    async def __aenter__(self) -> None:
        return None

    async def __aexit__(self, *_: object) -> None:
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


def _is_conversational(environment: Any) -> bool:
    inner = getattr(environment, "envs", None)
    if inner:
        return any(_is_conversational(one) for one in inner)
    return not isinstance(environment, vf.SingleTurnEnv)


def _own_eval_dataset(environment: Any) -> Any:
    """The evaluation split, `None` where the library would fall back to the training split."""
    with contextlib.suppress(Exception):
        environment.build_eval_dataset()
    return getattr(environment, "eval_dataset", None)


def _trajectory_step(before: Sequence[Any], message: Any, state: Any) -> dict[str, Any]:
    return {
        "prompt": list(before),
        "completion": [message],
        "response": None,
        "tokens": None,
        "reward": None,
        "advantage": None,
        "is_truncated": False,
        "trajectory_id": state.get("trajectory_id"),
        "extras": {},
    }


def resolved_client(base_url: str, seconds: float) -> Any:
    """A client of the release at hand that talks to one endpoint and never retries."""
    try:
        from verifiers.clients import resolve_client
        from verifiers.types import ClientConfig
    except ImportError:
        from openai import AsyncOpenAI

        return AsyncOpenAI(base_url=base_url, api_key="scripted", max_retries=0, timeout=seconds)
    config = ClientConfig(api_base_url=base_url, api_key_var="ENVOPS_ENDPOINT_KEY", max_retries=0, timeout=seconds)
    return resolve_client(config)


def prompt_of(row: Mapping[str, Any]) -> list[Message]:
    """What the model is shown first, in OpenAI form."""
    prompt = row.get("prompt")
    if isinstance(prompt, str):
        return [{"role": "user", "content": prompt}]
    return [openai_form(message) for message in prompt or []]


def openai_form(message: Any) -> Message:
    """A message of any v0 release as OpenAI writes it, empty fields left out."""
    raw = message.model_dump() if hasattr(message, "model_dump") else dict(message)
    known = {"role": raw.get("role"), "content": raw.get("content") or ""}
    calls = [_openai_call(call) for call in raw.get("tool_calls") or []]
    if calls:
        known["tool_calls"] = calls
    if raw.get("tool_call_id"):
        known["tool_call_id"] = raw["tool_call_id"]
    return known


def _openai_call(call: Any) -> dict[str, Any]:
    if isinstance(call, str):
        call = json.loads(call)
    raw = call.model_dump() if hasattr(call, "model_dump") else dict(call)
    if "function" in raw:
        return raw
    function = {"name": raw.get("name"), "arguments": raw.get("arguments")}
    return {"id": raw.get("id"), "type": "function", "function": function}


def _rows_of_columns(results: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The rows of a result that 0.1.8 and 0.1.9 return as columns."""
    for position, example in enumerate(results["example_id"]):
        state = results["state"][position]
        yield {
            "example_id": example,
            "reward": results["reward"][position],
            "completion": results["completion"][position],
            "metrics": {name: column[position] for name, column in results["metrics"].items()},
            "error": state.get("error"),
            "stop_condition": state.get("stop_condition"),
        }
