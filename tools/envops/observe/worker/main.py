"""The worker's loop: one environment, loaded once, asked by the host in JSON lines."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import platform
import signal
import sys
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from functools import cached_property
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from .adapter import Adapter, Job, Settings, TaskView
from .author_tests import run_tests
from .channel import Channel, Request
from .confinement import NetworkGuard, die_with_host, prefer_to_be_killed
from .failures import OutOfTime, Sources
from .inspection import MAXIMUM_TASKS, DatasetReader, overlap
from .oracle import AuthorsOracle, DerivedOracle, NoOracle
from .policies import SCRIPT_PREFIX, AnswerSettings, Message, Policies, says, text_of

if TYPE_CHECKING:
    from .endpoint import Endpoint

SEARCHED_FOR_CASES = 5_000


def serve() -> None:
    """Answer requests until the host closes the channel or dies."""
    lifeline = int(os.environ.pop("ENVOPS_LIFELINE"))
    os.set_inheritable(lifeline, False)
    die_with_host(lifeline)
    prefer_to_be_killed()
    logging.disable(logging.CRITICAL)
    channel = Channel.over_standard_streams()
    Worker(channel).answer_all()
    sys.stderr.flush()
    os._exit(0)  # threads and event loops of the environment's have no say in this


class Worker:
    """Holds the loaded environment between requests."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self._loop)
        self._operations: dict[str, Callable[[Request], None]] = {
            "load": self._load,
            "tasks": self._tasks,
            "rewards": self._rewards,
            "cases": self._cases,
            "validation": self._validation,
            "tests": self._tests,
            "evaluate": self._evaluate,
        }
        self._adapter: Adapter
        self._settings: Settings
        self._sources = Sources()
        self._policies: Policies
        self._guard: NetworkGuard
        self._kept: dict[int, TaskView] = {}
        self._played: dict[tuple[int, str], float | None] = {}
        self._asked: dict[int, Message | None] = {}

    def answer_all(self) -> None:
        for request in self._channel.requests():
            try:
                self._operations[request["operation"]](request)
            except (Exception, OutOfTime) as error:
                self._channel.failed(self._sources.failure(error))
            except SystemExit as error:  # an environment that leaves must not take the answer with it
                wrapped = RuntimeError(f"the environment called exit({error.code!r})")
                wrapped.__cause__ = error
                self._channel.failed(self._sources.failure(wrapped))
            else:
                self._channel.done()
            finally:
                self._report_network()
        with time_limit(5):
            self._loop.run_until_complete(self._adapter.close())

    def _report_network(self) -> None:
        if hasattr(self, "_guard"):
            for attempt in self._guard.attempts:
                self._channel.item("network", attempt)
            self._guard.attempts.clear()

    def _run(self, work: Coroutine[Any, Any, Any], seconds: float) -> Any:
        """Run one piece of the environment's code, stopped when it takes too long.

        Raises `OutOfTime`; a function that blocks the interpreter itself is left to the
        host's own limit.
        """
        task = self._loop.create_task(work)
        try:
            with time_limit(seconds):
                return self._loop.run_until_complete(task)
        except OutOfTime:
            task.cancel()
            self._loop.run_until_complete(asyncio.wait([task], timeout=1))
            raise

    # Each operation answers with facts in the shape of `observe.facts`.

    def _load(self, request: Request) -> None:
        settings = self._settings = Settings.parse(request["settings"])
        self._sources = Sources(settings.overlay, settings.package)
        self._guard = NetworkGuard(self._sources, settings.allow_network)
        self._guard.install()
        started = time.perf_counter()
        if settings.generation == "v1":
            import verifiers.v1

            imported = time.perf_counter()
            from .adapter_v1 import AdapterV1

            self._adapter = AdapterV1(settings, self._sources)
        else:
            import verifiers

            verifiers.Environment  # noqa: B018 - 0.3 loads its first generation when it is touched
            imported = time.perf_counter()
            from .adapter_v0 import AdapterV0

            self._adapter = AdapterV0(settings, self._sources)
        loaded = time.perf_counter()
        self._policies = self._make_policies(settings)
        self._channel.item(
            "description",
            {
                **self._adapter.describe(),
                "verifiers": version("verifiers"),
                "python": platform.python_version(),
                "import_seconds": imported - started,
                "load_seconds": loaded - imported,
                "datasets": [],
            },
        )

    def _make_policies(self, settings: Settings) -> Policies:
        path = settings.package / "tests" / "oracle.py"
        oracle = AuthorsOracle(path) if path.is_file() else DerivedOracle(self._adapter.parser_tags())
        return Policies(oracle, AnswerSettings(settings.answer_type, settings.tolerance))

    def _tasks(self, request: Request) -> None:
        limit = request["keep"]
        readers = {split: DatasetReader(split, self._adapter.conversational) for split in ("train", "eval")}

        def keep(task: TaskView) -> None:
            if len(self._kept) < limit:
                self._kept[task.index] = task
                self._channel.item("task", task_facts(task))

        for split, reader in readers.items():
            reader.watch(self._adapter.tasks(split, MAXIMUM_TASKS), keep if split == "train" else lambda _: None)
            facts = reader.facts(None if self._adapter.infinite else len(reader))
            if split == "train" or len(reader):
                self._channel.item("dataset", facts)
        pairs = list(overlap(readers["train"], readers["eval"]))
        self._channel.item("overlap", {"pairs": pairs[:20], "count": len(pairs)})

    def _rewards(self, request: Request) -> None:
        """Every policy on every kept task, scored twice."""
        if self._adapter.conversational:
            self._play_policies(request)
            return
        for task in self._kept.values():
            for policy in request["policies"]:
                for completion in self._completions(policy, task):
                    self._score(task, policy, completion, request["seconds"])

    def _completions(self, policy: str, task: TaskView) -> Iterator[list[Message]]:
        perfect = self._asked_oracle(task)
        if perfect is None or policy == "oracle":
            if policy == "nop":
                yield [says("")]
            elif perfect is not None:
                yield [perfect]
            return
        if policy in ("near-miss", "format-only", "hedge"):
            for text in self._policies.distorted(policy, text_of(perfect), task.data):
                yield [says(text)]
        else:
            yield [self._policies.reply(policy, task.index, task.data, task.prompt)]

    def _asked_oracle(self, task: TaskView) -> Message | None:
        """The oracle's first message; what it raises becomes a score of its own, once per task."""
        if task.index not in self._asked:
            try:
                self._asked[task.index] = self._policies.oracle.reply(task.data, task.prompt)
            except NoOracle:
                self._asked[task.index] = None
            except Exception as error:
                self._asked[task.index] = None
                self._channel.item("score", self._unscored(task, "oracle", [], error))
        return self._asked[task.index]

    def _unscored(
        self, task: TaskView, policy: str, completion: Sequence[Message], error: BaseException
    ) -> dict[str, Any]:
        return {
            "task": task.index,
            "policy": policy,
            "completion": completion,
            "reward": None,
            "functions": {},
            "failure": self._sources.failure(error),
            "derived": self._policies.oracle.derived,
        }

    def _score(self, task: TaskView, policy: str, completion: Sequence[Message], seconds: float) -> None:
        self._channel.item("now", {"task": task.index, "policy": policy, "completion": shortened_messages(completion)})
        self._channel.item("score", self._scored(task, policy, completion, seconds))

    def _scored(self, task: TaskView, policy: str, completion: Sequence[Message], seconds: float) -> dict[str, Any]:
        try:
            first, again = (self._run(self._adapter.score(task, [completion]), seconds)[0] for _ in range(2))
        except OutOfTime as error:
            return self._unscored(task, policy, completion, error)
        return {
            "task": task.index,
            "policy": policy,
            "completion": completion,
            "derived": self._policies.oracle.derived,
            "again": [again["reward"]],
            **first,
        }

    def _play_policies(self, request: Request) -> None:
        """The same for environments that answer back: real rollouts instead of single replies."""
        tasks = list(self._kept.values())[: request["conversations"]]
        names = [name for name in request["policies"] if name == "nop" or self._has_form(name, tasks)]
        jobs = [Job(policy, task.index, 2 if policy == "oracle" else 1) for policy in names for task in tasks]
        pairs: dict[tuple[int, str], list[dict[str, Any]]] = {}
        for row in self._rollouts(jobs, request["max_concurrent"], request["seconds"] * max(4, len(jobs) ** 0.5)):
            pairs.setdefault((row["task"], row["policy"]), []).append(row)
        for (index, policy), rows in pairs.items():
            self._played[index, policy] = rows[0]["reward"]
            again = [row["reward"] for row in rows[1:]] or [rows[0]["reward"]]
            self._channel.item("score", played_score(rows[0], again, self._policies.oracle.derived))

    def _has_form(self, policy: str, tasks: Sequence[TaskView]) -> bool:
        if not tasks or self._asked_oracle(tasks[0]) is None:
            return False
        return policy not in ("near-miss", "hedge") or self._policies.answer.type != "none"

    def _rollouts(self, jobs: Sequence[Job], max_concurrent: int, seconds: float) -> Iterator[dict[str, Any]]:
        """Rollouts against the scripted endpoint, one by one as they finish."""
        tasks = {job.task: self._kept[job.task] for job in jobs}
        self._endpoint.speak_about(list(tasks.values()))
        rows = self._adapter.roll_out(jobs, tasks, self._endpoint.base_url, max_concurrent, seconds)
        try:
            while (row := self._run(anext(rows, None), seconds)) is not None:
                yield row
        finally:
            self._loop.run_until_complete(rows.aclose())

    @cached_property
    def _endpoint(self) -> Endpoint:
        from .endpoint import Endpoint

        return Endpoint(self._policies)

    def _cases(self, request: Request) -> None:
        for number, case in enumerate(request["cases"]):
            facts: dict[str, Any] = {
                "name": case["name"],
                "line": case["line"],
                "expect": case["expect"],
                "score": None,
            }
            try:
                task = self._task_of_case(case["task"])
                facts["score"] = self._case_score(number, task, case["reply"], request)
            except (Exception, OutOfTime) as error:
                facts["failure"] = self._sources.failure(error)
            self._channel.item("case", facts)

    def _task_of_case(self, wanted: Any) -> TaskView:
        limit = wanted + 1 if isinstance(wanted, int) else SEARCHED_FOR_CASES
        if isinstance(wanted, int) and wanted in self._kept:
            return self._kept[wanted]
        for task in self._adapter.tasks("train", limit):
            if task.index == wanted or (isinstance(wanted, dict) and wanted.items() <= task.data.items()):
                self._kept.setdefault(task.index, task)
                return task
        raise LookupError(
            f"no task is {wanted!r}; there are {task.index + 1 if limit else 0} up to where it was searched"
        )

    def _case_score(self, number: int, task: TaskView, reply: Any, request: Request) -> dict[str, Any]:
        turns = [reply] if isinstance(reply, str) else reply
        script = [
            says(turn) if isinstance(turn, str) else {"role": "assistant", "content": "", **turn} for turn in turns
        ]
        if not self._adapter.conversational:
            return self._scored(task, "case", script, request["seconds"])
        name = f"{SCRIPT_PREFIX}{number}"
        self._policies.scripts[name] = script
        rows = list(self._rollouts([Job(name, task.index)], 1, request["seconds"] * 4))
        return played_score(rows[0], [], derived=False) | {"policy": "case"}

    def _validation(self, request: Request) -> None:
        for task in list(self._kept.values())[: request["limit"]]:
            answer: dict[str, Any] = {"task": task.index, "valid": None}
            try:
                answer["valid"] = self._run(self._adapter.validate(task), request["seconds"])
            except (Exception, OutOfTime) as error:
                answer["failure"] = self._sources.failure(error)
            if answer["valid"] is None and "failure" not in answer:
                return
            self._channel.item("validation", answer)

    def _tests(self, request: Request) -> None:
        folder = self._settings.package
        for outcome in run_tests(folder, request["files"], request["toolbox"], self._sources, request["seconds"]):
            self._channel.item("test", outcome)

    def _evaluate(self, request: Request) -> None:
        self._guard.stage = request["stage"]
        indices = list(self._kept)[: request["tasks"]]
        jobs = [Job(policy, index, request["rollouts"]) for policy in request["policies"] for index in indices]
        for row in self._rollouts(jobs, request["max_concurrent"], request["seconds"]):
            row["predicted"] = self._predicted(row, request["seconds"])
            self._channel.item("rollout", row)

    def _predicted(self, row: dict[str, Any], seconds: float) -> float | None:
        """What in-process scoring gives the conversation of a rollout."""
        if self._adapter.conversational:
            return self._played.get((row["task"], row["policy"])) if row["policy"] != "blend" else None
        if row["failure"] is not None:
            return None
        score = self._run(self._adapter.score(self._kept[row["task"]], [row["completion"]]), seconds)[0]
        reward: float | None = score["reward"]
        return reward


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise `OutOfTime` in the main thread when the block takes longer."""

    def expired(_number: int, _frame: Any) -> None:
        raise OutOfTime(f"took longer than {seconds:g} s")

    previous = signal.signal(signal.SIGALRM, expired)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


def task_facts(task: TaskView) -> dict[str, Any]:
    from .answers import answer_of

    return {"index": task.index, "prompt": task.prompt, "answer": answer_of(task.data), "data": task.data}


def played_score(row: dict[str, Any], again: list[float | None], derived: bool) -> dict[str, Any]:
    """A rollout as a score: the conversation that it became, and what it earned."""
    kept = ("task", "policy", "completion", "reward", "functions", "failure", "seconds")
    return {key: row[key] for key in kept} | {"again": again, "derived": derived}


def shortened_messages(messages: Sequence[Message]) -> list[Message]:
    return [{"role": message["role"], "content": text_of(message)[:2000]} for message in messages]
