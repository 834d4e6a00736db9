"""Lines of verifiers' own result files as normalised rows.

Sources: `verifiers.legacy.utils.save_utils` (results.jsonl of 0.1.8 to 0.3.1) and
`verifiers.v1.episode.Episode.to_record` (traces.jsonl; 0.2.1 writes one trace per line).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from envops_worker.adapters.rollout_errors import kind_of_error

from envops.facts.observed import Facts, FunctionScore, Message, RewardFunction
from envops.facts.results import CLASS_OF_KIND, EvaluationRow, RowError, task_key
from envops.facts.spending import Tokens

GENERATED = 1_000_000
"""The first number for tasks without a number of their own."""


class UnreadableRow(ValueError):
    """The line could not be read; the message has the reason."""


@dataclass
class KnownEnvironment:
    """The environment that the results must be of."""

    environment: str
    functions: Mapping[str, RewardFunction]
    tasks: dict[str, int]
    """Fingerprint → index."""
    is_complete: bool
    """Whether all tasks of all splits are known."""

    @classmethod
    def of(cls, environment: str, facts: Facts) -> KnownEnvironment:
        described = facts.description
        tasks = {task_key(task.prompt, task.data): task.index for task in facts.tasks}
        datasets = described.datasets if described else ()
        complete = len(datasets) == 1 and datasets[0].size == len(facts.tasks)
        functions = {one.name: one for one in described.functions} if described else {}
        return cls(environment, functions, tasks, complete)

    def index_of(self, key: str, given: Any) -> int:
        """The task's index in the environment, or else its number in the file, or else a new one."""
        if key not in self.tasks and self.is_complete:  # it stays unknown
            return given if type(given) is int and given >= 0 else GENERATED
        if key not in self.tasks:
            taken = set(self.tasks.values())
            free = type(given) is int and given >= 0 and given not in taken
            self.tasks[key] = given if free else max(GENERATED, max(taken, default=0) + 1)
        return self.tasks[key]


def row_of_v0(raw: Mapping[str, Any], metadata: Mapping[str, Any], known: KnownEnvironment) -> EvaluationRow:
    """A line of results.jsonl. Raises `UnreadableRow`."""
    prompt = _messages(raw.get("prompt"))
    key = task_key(prompt, raw)
    stop = raw.get("stop_condition")
    error = _error_v0(raw.get("error"))
    timed_out = stop == "timeout_reached"
    if timed_out and error is None:
        error = RowError("timeout", "Timeout", "ran out of time; verifiers writes a plain 0 for it")
    metrics = raw.get("metrics")
    if not isinstance(metrics, Mapping):  # up to 0.1.9 each function is a column of its own
        metrics = {name: raw[name] for name in known.functions if name in raw}
    usage = raw.get("token_usage")
    return EvaluationRow(
        environment=str(metadata.get("env_id") or known.environment),
        digest=None,
        generation="v0",
        task=known.index_of(key, raw.get("example_id")),
        task_key=key,
        group=key,
        rollout=0,
        reward=None if error else finite(raw.get("reward")),
        functions={name: _function(name, value, known) for name, value in metrics.items()},
        model=str(metadata["model"]) if metadata.get("model") else None,
        endpoint=metadata.get("base_url"),
        sampling=metadata.get("sampling_args") or {},
        error=error,
        stop=stop,
        truncated=bool(raw.get("is_truncated")),
        timed_out=timed_out,
        tokens=_tokens(usage, "input_tokens", "output_tokens"),
        seconds=_seconds(raw.get("timing")),
        completion=tuple(_messages(raw.get("completion"))),
    )


def row_of_episode(raw: Mapping[str, Any], known: KnownEnvironment) -> EvaluationRow:
    """A line of traces.jsonl: an episode, or (0.2.1) a trace. Raises `UnreadableRow`."""
    traces = [_mapping(one, "a trace") for one in raw["traces"]] if "traces" in raw else [raw]
    mine = [one for one in traces if (one.get("agent") or {}).get("trainable", True)]
    data = _mapping((raw.get("task") or (traces[0].get("task") if traces else None) or {}).get("data"), "task.data")
    key = task_key(_prompt_v1(data), data)
    first = mine[0] if mine else {}
    error, timed_out = _error_v1(raw, traces)
    functions = _functions_v1(mine, known)
    calls = [call.get("usage") or {} for one in mine for call in one.get("calls") or []]
    agent = (first.get("agent") or {}).get("config") or {}
    stops = [one.get("stop_condition") for one in mine]
    return EvaluationRow(
        environment=str((raw.get("env") or {}).get("id") or known.environment),
        digest=None,
        generation="v1",
        task=known.index_of(key, data.get("idx")),
        task_key=key,
        group=str((raw.get("group") or {}).get("id") or key),
        rollout=0,
        reward=None if error else _reward_v1(mine),
        functions=functions,
        model=agent.get("model"),
        endpoint=(agent.get("client") or {}).get("base_url"),
        sampling={name: value for name, value in (agent.get("sampling") or {}).items() if value is not None},
        error=error,
        stop=stops[0] if stops else None,
        truncated=any(_is_truncated(one) for one in mine),
        timed_out=timed_out,
        tokens=_sum_of(calls),
        seconds=_seconds_v1(first.get("timing")),
        completion=_completion_v1(first),
    )


def finite(value: Any) -> float | None:
    """The number, or `None` where there is none."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if number and math.isfinite(value) else None


def _mapping(value: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise UnreadableRow(f"{what} is {type(value).__name__}, not an object")
    return value


def _messages(value: Any) -> list[Message]:
    if isinstance(value, str):
        return [{"role": "user", "content": value}]
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise UnreadableRow("its messages are not a list of objects")
    return value


def _function(name: str, value: Any, known: KnownEnvironment) -> FunctionScore:
    declared = known.functions.get(name)
    kind: Literal["reward", "metric"] = declared.kind if declared else "metric"
    return FunctionScore(finite(value), declared.weight if declared else 0.0, kind)


def _row_error(name: str, message: str) -> RowError:
    return RowError(CLASS_OF_KIND.get(kind_of_error(name, message), "environment"), name, message[:2000])


def _error_v0(error: Any) -> RowError | None:
    if not error:
        return None
    if isinstance(error, Mapping):
        text = str(error.get("error_chain_repr") or error.get("message") or error)
        return _row_error(str(error.get("error") or error.get("type") or "Error"), text)
    return _row_error(str(error).partition("(")[0], str(error))


def _error_v1(raw: Mapping[str, Any], traces: Iterable[Mapping[str, Any]]) -> tuple[RowError | None, bool]:
    """Why the episode does not count. A timeout is `ok` for verifiers, and an error here."""
    traces = list(traces)
    if raw.get("is_timeout") or any(one.get("is_timeout") for one in traces):
        return RowError("timeout", "Timeout", "ran out of time; verifiers calls such an episode ok"), True
    errors = [*(raw.get("errors") or []), *(one for trace in traces for one in trace.get("errors") or [])]
    if raw.get("ok", not errors) and traces:
        return None, False
    last = errors[-1] if errors else {"type": "NotOk", "message": "the episode is not ok, without a reason"}
    error = _row_error(str(last.get("type")), str(last.get("message")))
    return error, error.kind == "timeout"


def _functions_v1(traces: Iterable[Mapping[str, Any]], known: KnownEnvironment) -> dict[str, FunctionScore]:
    functions: dict[str, FunctionScore] = {}
    for trace in traces:
        for name, said in (trace.get("rewards") or {}).items():
            weight = known.functions[name].weight if name in known.functions else 1.0
            if isinstance(said, Mapping):
                functions[name] = FunctionScore(finite(said.get("score")), float(said.get("weight", weight)), "reward")
            else:  # 0.2.1 writes the weighted value
                value = finite(said)
                score = value / weight if value is not None and weight else value
                functions[name] = FunctionScore(score, weight, "reward")
        for name, value in (trace.get("metrics") or {}).items():
            functions.setdefault(name, FunctionScore(finite(value), 0.0, "metric"))
    return functions


def _reward_v1(traces: list[Mapping[str, Any]]) -> float | None:
    values: list[float | None] = []
    for trace in traces:
        for said in (trace.get("rewards") or {None: None}).values():
            if isinstance(said, Mapping):
                score, weight = finite(said.get("score")), finite(said.get("weight", 1.0))
                values.append(None if score is None or weight is None else score * weight)
            else:
                values.append(finite(said))
    found = [value for value in values if value is not None]
    return math.fsum(found) if found and len(found) == len(values) else None


def _prompt_v1(data: Mapping[str, Any]) -> list[Message]:
    system = data.get("system_prompt")
    return [*([{"role": "system", "content": system}] if system else []), *_messages(data.get("prompt"))]


def _completion_v1(trace: Mapping[str, Any]) -> tuple[Message, ...]:
    nodes = trace.get("nodes") or []
    first = next((position for position, node in enumerate(nodes) if node.get("sampled")), len(nodes))
    return tuple(node["message"] for node in nodes[first:] if isinstance(node.get("message"), dict))


def _is_truncated(trace: Mapping[str, Any]) -> bool:
    return any(call.get("finish_reason") == "length" for call in trace.get("calls") or [])


def _tokens(usage: Any, fed: str, said: str) -> Tokens | None:
    if not isinstance(usage, Mapping) or finite(usage.get(fed)) is None:
        return None
    return Tokens(int(usage[fed]), int(usage.get(said) or 0))


def _sum_of(usages: Iterable[Mapping[str, Any]]) -> Tokens | None:
    found = [one for usage in usages if (one := _tokens(usage, "prompt_tokens", "completion_tokens")) is not None]
    return Tokens(sum(one.prompt for one in found), sum(one.completion for one in found)) if found else None


def _seconds(timing: Any) -> float:
    if not isinstance(timing, Mapping):
        return 0.0
    return finite(timing.get("total")) or (finite(timing.get("total_ms")) or 0.0) / 1000


def _seconds_v1(timing: Any) -> float:
    if not isinstance(timing, Mapping):
        return 0.0
    start = finite(timing.get("start")) or 0.0
    ends = [finite((timing.get(name) or {}).get("end")) or 0.0 for name in ("agent", "finalize", "scoring")]
    return max(0.0, max(ends) - start)
