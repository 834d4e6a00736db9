"""Mutants of the reward code, each asked about the same conversations as the code itself.

Everything happens in a fork of the worker: mutants hang, eat memory and leave state behind,
and what is asked of the worker afterwards must not notice.
"""

from __future__ import annotations

import math
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from ..answers import answer_of
from ..apart import Apart
from ..channel import Request
from ..failures import OutOfTime
from ..forked import ChildDied, items_from_fork
from ..mutant import Mutator, NotApplicable, mutator_of
from ..policies import text_of
from ..reached import Reached
from ..reply_variations import variations
from ..session import Session

DIFFERENCE = 1e-9
"""Below this, two scores of the same conversation are equal."""
GRACE_SECONDS = 1.0
SLOWEST_SECONDS = 0.5
"""A mutant that takes longer for one conversation hangs; conversations that take the code itself
a tenth of that are left out."""
SHARE_TO_SETTLE = 0.4
"""Of the time allowed, how much may go into asking the code itself."""
MOST_VARIATIONS = 600

Values = dict[str, float | None]
"""`reward` and every function by name."""
Probe = dict[str, Any]


def answer(session: Session, request: Request) -> None:
    """`reach`: which lines run. `try`: try the mutants beside other requests. `collect`: what became of them."""
    mutator_of(session.settings.overlay)  # looked up once, before any fork
    if request["step"] == "reach":
        limit = request["seconds"] + GRACE_SECONDS
        for kind, value in items_from_fork(session, lambda fork: _reach(fork, request), limit):
            session.channel.item(kind, value)
    elif request["step"] == "try":
        session.mutation = Apart(lambda: {"said": list(_tried(session, request))})
    elif session.mutation is not None:
        for kind, value in session.mutation.result(request["seconds"])["said"]:
            session.channel.item(kind, value)


Said = tuple[str, Any]
"""An item for the host: its kind and its value."""


def _tried(session: Session, request: Request) -> Iterator[Said]:
    deadline = time.monotonic() + request["seconds"]
    waiting = {mutant["id"]: mutant for mutant in request["mutants"]}
    survivors: list[Any] = []
    while waiting:
        goes_on = yield from _tried_in_fork(session, request, waiting, survivors, deadline)
        if not goes_on:
            return


def _tried_in_fork(
    session: Session, request: Request, waiting: dict[str, Any], survivors: list[Any], deadline: float
) -> Generator[Said, None, bool]:
    """Try what is waiting in one fork; whether another one can go on where this one died."""
    trying: str | None = None
    left = deadline - time.monotonic()
    settings = request | {"seconds": left, "mutants": list(waiting.values()), "survivors": list(survivors)}
    try:
        for kind, value in items_from_fork(session, lambda fork: _try_all(fork, settings), left + GRACE_SECONDS):
            if kind == "trying":
                trying = value
                continue
            if kind == "mutant":
                tried = waiting.pop(value["id"], None)
                if tried is not None and value["outcome"] == "survived" and value["apart"] is None:
                    survivors.append(tried)
                trying = None
            yield kind, value
    except (ChildDied, OutOfTime) as error:
        if trying is not None:
            waiting.pop(trying)
            outcome = "timeout" if isinstance(error, OutOfTime) else "killed"
            yield "mutant", {"id": trying, "outcome": outcome, "by": str(error)}
        if waiting and (trying is None or isinstance(error, OutOfTime)):
            yield "ended", "time"
        return trying is not None and isinstance(error, ChildDied)
    return False


def _reach(session: Session, request: Request) -> None:
    deadline = time.monotonic() + request["seconds"]
    reached = Reached(session.sources)
    bench = Bench(session, request["probes"])
    mutator_of(session.settings.overlay).forget()  # what a cache answers would not run
    with reached.watching():
        for probe in bench.probes:
            if time.monotonic() < deadline:
                bench.attempted(probe)
    session.channel.item("reached", reached.facts())


def _try_all(session: Session, request: Request) -> None:
    deadline = time.monotonic() + request["seconds"]
    bench = Bench(session, request["probes"])
    mutator = mutator_of(session.settings.overlay)
    bench.settle(time.monotonic() + request["seconds"] * SHARE_TO_SETTLE)
    session.channel.item("left_out", bench.left_out)
    survivors = list(request["survivors"])
    for mutant in request["mutants"]:
        if time.monotonic() > deadline:
            session.channel.item("ended", "time")
            break
        session.channel.item("trying", mutant["id"])
        found = bench.tried(mutator, mutant, deadline)
        if found is None:
            session.channel.item("ended", "time")
            break
        session.channel.item("mutant", found)
        if found["outcome"] == "survived" and found["apart"] is None:
            survivors.append(mutant)
    for position, mutant in enumerate(survivors):
        now = time.monotonic()
        share = (deadline - now) / (len(survivors) - position)
        apart = bench.told_apart(mutator, mutant, request["fragments"], now + share) if share > 0 else None
        if apart is not None:
            session.channel.item("mutant", {"id": mutant["id"], "outcome": "survived", "by": "", "apart": apart})


class Bench:
    """The conversations that every mutant is asked about, and what the code itself says of them."""

    def __init__(self, session: Session, probes: Sequence[Probe]) -> None:
        self._session = session
        self.probes = [probe for probe in probes if probe["task"] in session.kept]
        self.left_out: dict[str, str] = {}
        """Name of a conversation → why it is of no use."""
        self._known: dict[int, Values] = {}
        self._variations: list[tuple[Probe, Values | None]] | None = None
        """With what the code itself says of each, asked once."""

    def values(self, probe: Probe) -> Values:
        """Reward and functions of a conversation, by whatever code is in place."""
        session = self._session
        task = session.kept[probe["task"]]
        score = session.run(session.adapter.score(task, [probe["completion"]]), SLOWEST_SECONDS)[0]
        values: Values = {name: said["score"] for name, said in score["functions"].items()}
        return values | {"reward": score["reward"]}

    def settle(self, deadline: float) -> None:
        """Ask the code itself, twice, and leave out what it cannot be held to."""
        for number, probe in enumerate(self.probes):
            started = time.monotonic()
            if started > deadline:
                self.left_out[probe["name"]] = "there was no time left for it"
                continue
            try:
                values, again = self.values(probe), self.values(probe)
            except BaseException as error:  # SystemExit and the like are of no use either
                self.left_out[probe["name"]] = f"{type(error).__name__}: {error}"
                continue
            reason = _unusable(probe, values, again, (time.monotonic() - started) / 2)
            if reason:
                self.left_out[probe["name"]] = reason
            else:
                self._known[number] = values

    def tried(self, mutator: Mutator, mutant: Mapping[str, Any], deadline: float) -> dict[str, Any] | None:
        """What becomes of a mutant on the conversations whose outcome is laid down; `None` when time is up before."""
        found: dict[str, Any] = {"id": mutant["id"], "outcome": "survived", "by": "", "apart": None}
        try:
            with mutator.applied(mutant):
                for number, known in self._known.items():
                    if time.monotonic() > deadline:
                        return None
                    probe = self.probes[number]
                    outcome, by = self._outcome(probe, known, found)
                    if outcome != "survived":
                        return found | {"outcome": outcome, "by": f"{probe['name']}: {by}", "apart": None}
        except NotApplicable as error:
            return found | {"outcome": "skipped", "by": str(error)}
        except BaseException as error:  # a mutated constant may raise where it is made
            return found | {"outcome": "killed", "by": f"{type(error).__name__}: {error}"}
        return found

    def _outcome(self, probe: Probe, known: Values, found: dict[str, Any]) -> tuple[str, str]:
        try:
            values = self.values(probe)
        except OutOfTime as error:
            return "timeout", str(error)
        except BaseException as error:  # SystemExit and the like are no survivors either
            return "killed", f"{type(error).__name__}: {error}"
        broken = broken_expectation(probe, known, values)
        if broken:
            return "killed", broken
        if found["apart"] is None and differences(known, values):
            found["apart"] = _apart(probe, known, values)
        return "survived", ""

    def told_apart(
        self, mutator: Mutator, mutant: Mapping[str, Any], fragments: Sequence[str], deadline: float
    ) -> dict[str, Any] | None:
        """A reply that the mutant scores otherwise than the code itself, if one is found in time."""
        if self._variations is None:
            self._variations = [(probe, self.attempted(probe)) for probe in self._varied(fragments)]
        with mutator.applied(mutant):
            for probe, known in self._variations:
                if known is None:
                    continue
                if time.monotonic() > deadline:
                    return None
                values = self.attempted(probe)
                if values is not None and differences(known, values):
                    return _apart(probe, known, values)
        return None

    def attempted(self, probe: Probe) -> Values | None:
        """The values of a conversation, `None` where the code in place does not get as far."""
        try:
            return self.values(probe)
        except BaseException:
            return None

    def _varied(self, fragments: Sequence[str]) -> list[Probe]:
        """Variations of gold, all of them, and of the cases as many as there is room for."""
        seeds = [self.probes[number] for number in self._known if self.probes[number]["seed"]]
        gold = [seed for seed in seeds if not seed["case"]]
        varied = [*self._in_turn(gold, fragments), *self._in_turn([one for one in seeds if one["case"]], fragments)]
        seen: set[str] = set()
        fresh = []
        for probe in varied:
            key = f"{probe['task']} {probe['completion']}"
            if key not in seen:
                seen.add(key)
                fresh.append(probe)
        return fresh[:MOST_VARIATIONS]

    def _in_turn(self, seeds: Sequence[Probe], fragments: Sequence[str]) -> Iterator[Probe]:
        """The first variation of each conversation, the second of each, and so on."""
        silent = not self._session.adapter.conversational  # there, silence travels as a blank
        every = [
            [_saying(seed, text) for text in self._variations_of(seed, fragments) if text or silent] for seed in seeds
        ]
        for same in zip_longest(*every):
            yield from (probe for probe in same if probe is not None)

    def _variations_of(self, probe: Probe, fragments: Sequence[str]) -> Iterator[str]:
        data = self._session.kept[probe["task"]].data
        return variations(text_of(_last_reply(probe["completion"])), answer_of(dict(data)), fragments)


def _unusable(probe: Probe, values: Values, again: Values, seconds: float) -> str:
    if differences(values, again):
        return "the code itself scores it otherwise the second time"
    if seconds > SLOWEST_SECONDS / 10:
        return f"it takes {seconds:.2g} s to score"
    recorded = probe.get("recorded")
    if recorded is not None and differences({"reward": recorded}, {"reward": values["reward"]}):
        return f"scored alone it earns {values['reward']}, in its rollout it earned {recorded}"
    return ""


def broken_expectation(probe: Probe, known: Values, values: Values) -> str:
    """What was laid down of a conversation, and held with the code itself, and does no longer."""
    for name, value in known.items():
        if value is not None and (values.get(name) is None or not math.isfinite(values[name] or 0.0)):
            return f"{name} is no number any more"
    for expected in probe["expect"]:
        before, now = known.get(expected["of"]), values.get(expected["of"])
        if before is not None and now is not None and _holds(expected, before) and not _holds(expected, now):
            return f"{expected['of']} is {now:.6g}, expected {expected['text']}"
    return ""


def _holds(expected: Mapping[str, Any], value: float) -> bool:
    low = -math.inf if expected["low"] is None else expected["low"]
    high = math.inf if expected["high"] is None else expected["high"]
    return bool((low <= value <= high) != expected["outside"])


def differences(first: Values, second: Values) -> list[str]:
    """Names of what two scorings of one conversation disagree on, the reward first."""
    names = sorted({*first, *second}, key=lambda name: (name != "reward", name))
    return [name for name in names if not _same(first.get(name), second.get(name))]


def _same(first: float | None, second: float | None) -> bool:
    if first is None or second is None:
        return first is second
    return math.isclose(first, second, rel_tol=DIFFERENCE, abs_tol=DIFFERENCE) or first == second


def _apart(probe: Probe, known: Values, values: Values) -> dict[str, Any]:
    names = differences(known, values)
    return {
        "task": probe["task"],
        "completion": probe["completion"],
        "original": {name: known.get(name) for name in names},
        "mutant": {name: values.get(name) for name in names},
    }


def _last_reply(completion: Sequence[dict[str, Any]]) -> dict[str, Any]:
    said = [message for message in completion if message["role"] == "assistant"]
    return said[-1] if said else {"role": "assistant", "content": ""}


def _saying(probe: Probe, text: str) -> Probe:
    """The same conversation with other last words."""
    messages = list(probe["completion"])
    last = max((index for index, message in enumerate(messages) if message["role"] == "assistant"), default=-1)
    messages[last] = {**messages[last], "content": text}
    return {**probe, "completion": messages}
