"""One search from the panel to explained finds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

from ..answers import find_payload, near_misses
from ..policies import generator
from . import breeding, properties, seeds, wrong
from .coverage import Coverage
from .explaining import LONG, Known, explained
from .form import FILLER, Form, form_of
from .grading import Graded, Grader, Spent, Trial
from .panel import Entrant
from .shrinking import shortest
from .source import Constants, constants_of

WRONG_TASKS = 4
TRACED_EVERY = 4
QUIET = 40
"""Replies without a new step after which only every fourth is still watched."""
SHARES = {"wrong": 0.2, "seeds": 0.6, "properties": 0.75, "evolution": 1.0}
"""What part of all scorings is used up when a phase ends."""
SHRINKING = (150, 1.0)
"""Scorings and seconds that a find may use to become shorter."""
EXAMPLES = 120
"""Drawing an example from hypothesis takes longer than scoring it."""
ELITE = 16
RANKED_EVERY = 16
PARTIAL = 0.5
"""Share of gold's gain on every task of the panel from which on a constant reply is worth a word."""


@dataclass(frozen=True)
class Ground:
    """What a hunt starts from."""

    panel: Sequence[Entrant]
    prompts: Sequence[str]
    answer_type: str | None
    tolerance: float
    seed: int
    patterns_allowed: bool = True
    """Whether hypothesis can be imported."""


class Hunt:
    """Phases over one grader; what each finds is kept until the end."""

    def __init__(self, ground: Ground, grader: Grader, coverage: Coverage) -> None:
        self._ground = ground
        self._grader = grader
        self._coverage = coverage
        self._quiet = 0
        self._tried: dict[str, Trial] = {}
        self._paid_blindly = False
        """Whether any reply that was tried is a find."""
        self._phases: dict[str, str] = {}
        self._ranked: list[str] = []
        self._finds: list[dict[str, Any]] = []
        self.phase = "seeds"
        answers = [entrant.answer for entrant in ground.panel]
        golds = [(entrant.gold, entrant.answer) for entrant in ground.panel]
        self._forms = list(dict.fromkeys(form_of(gold, answer) for gold, answer in golds))[:2]
        self._constants = Constants({})
        self._answers = answers

    def run(self) -> tuple[str, list[dict[str, Any]]]:
        """How the search ended, and its finds."""
        limit, budget = self._grader.limit, self._grader.budget
        ended = "evaluations"
        best: dict[str, Trial] = {}
        try:
            with self._coverage.watching():
                for place, entrant in enumerate(self._ground.panel):
                    self._grader.grade(place, entrant.gold, False)
            self._constants = constants_of(_read(self._coverage.files))
            self._grader.limit = int(limit * SHARES["wrong"])
            with suppress(_PhaseOver):
                self._within(self._made_wrong())
            for phase, steps in self._phases_in_order():
                self.phase = phase
                self._grader.limit = int(limit * SHARES[phase])
                with suppress(_PhaseOver):
                    self._within(steps())
                if best := self._best():
                    ended = "found"
                    break
        except Spent as spent:
            ended = spent.ending
        self._report(best or self._best())
        evaluated = self._grader.evaluations >= limit
        if ended == "evaluations" and not evaluated and budget.left <= 0:
            ended = "time"
        return ended, self._finds

    def _phases_in_order(self) -> Iterator[tuple[str, Callable[[], Iterator[None]]]]:
        yield "seeds", self._seeds
        yield "properties", self._properties
        yield "evolution", self._evolution

    def _within(self, steps: Iterator[None]) -> None:
        try:
            for _ in steps:
                pass
        except Spent as spent:
            if spent.ending == "time":
                raise
            raise _PhaseOver from None

    # Phases: each yields now and then, and stops where its share of scorings is used up.

    def _made_wrong(self) -> Iterator[None]:
        """Replies that are wrong by how they were made from gold."""
        tried: dict[tuple[str, int], list[tuple[int, wrong.Wrong, bool]]] = {}
        for place, entrant in enumerate(self._ground.panel[:WRONG_TASKS]):
            count: dict[str, int] = {}
            if self._paid(place, form_of(entrant.gold, entrant.answer).saying(FILLER)):
                return  # whatever is said is paid: what is wrong is one form of it
            gold = self._lean_gold(place, entrant)
            misses = self._misses(place, gold, entrant)
            declared = (self._ground.answer_type, self._ground.tolerance)
            for each in wrong.wrong_replies(gold, entrant.answer, misses, *declared):
                number = count[each.family] = count.get(each.family, 0) + 1
                paid = all(self._paid(place, reply) for reply in each.replies)
                tried.setdefault((each.family, number), []).append((place, each, paid))
                yield
        families: set[str] = set()
        for (family, _), outcomes in tried.items():
            hits = [(place, each) for place, each, paid in outcomes if paid]
            if family not in families and len(hits) >= max(min(2, len(self._ground.panel)), (len(outcomes) + 1) // 2):
                families.add(family)
                self._finds.append(self._wrong_find(hits))

    def _paid(self, place: int, reply: str) -> bool:
        return self._grader.like_gold(place, self._grader.grade(place, reply, False))

    def _lean_gold(self, place: int, entrant: Entrant) -> str:
        """Gold without its reasoning where that is paid as well: what is made from it is easier to read."""
        payload = find_payload(entrant.gold, entrant.answer)
        lean = form_of(entrant.gold, entrant.answer).saying(payload.answer)
        return lean if self._paid(place, lean) else entrant.gold

    def _misses(self, place: int, gold: str, entrant: Entrant) -> list[str]:
        payload = find_payload(gold, entrant.answer)
        misses = near_misses(payload.answer, self._ground.answer_type, self._ground.tolerance)
        return [miss for miss in list(misses)[:5] if not self._paid(place, payload.saying(miss))]

    def _seeds(self) -> Iterator[None]:
        golds = [entrant.gold for entrant in self._ground.panel]
        for reply in seeds.replies(self._forms, self._answers, self._ground.prompts, golds, self._constants):
            if reply not in self._tried:
                self._try_out(reply)
                yield

    def _properties(self) -> Iterator[None]:
        if not self._ground.patterns_allowed:
            return
        tokens = [*self._tokens()]
        strategy = properties.replies(self._forms, tokens, self._constants.patterns)
        examples = min(EXAMPLES, max(10, (self._grader.limit - self._grader.evaluations) // 2))
        properties.search(strategy, self._ground.seed, examples, self._try_out)
        yield

    def _evolution(self) -> Iterator[None]:
        rng = generator(self._ground.seed, "evolution")
        tokens = self._tokens()
        if self._ground.patterns_allowed:
            tokens += properties.samples(self._constants.patterns, self._ground.seed)
        breeder = breeding.Breeder(rng, tokens, self._forms)
        while not self._best():
            child = breeder.child(self._parents())
            if child not in self._tried:
                self._try_out(child)
            yield

    def _tokens(self) -> list[str]:
        short = [text for text in seeds.contents(self._answers, (), self._constants) if text and len(text) <= 40]
        marks = [mark for form in self._forms for mark in (form.before, form.after) if mark.strip()]
        words = sorted({word for prompt in self._ground.prompts for word in prompt.split()})[:60]
        return list(dict.fromkeys([*short, *marks, *words]))

    def _parents(self) -> list[str]:
        """The best paid, and those that took the code where none had been; ranked anew now and then."""
        if self._ranked and len(self._tried) % RANKED_EVERY:
            return self._ranked
        ranked = sorted(self._tried.values(), key=attrgetter("rank"))
        best, fresh = ranked[:ELITE], [trial for trial in ranked if trial.new][: ELITE // 2]
        self._ranked = [trial.reply for trial in (*best, *fresh)] or [""]
        return self._ranked

    def _try_out(self, reply: str) -> Trial:
        """A blind candidate; new steps in the code earn it a look on every task."""
        watched = self._quiet < QUIET or len(self._tried) % TRACED_EVERY == 0
        before = self._coverage.steps
        with self._coverage.watching() if watched else nullcontext():
            trial = self._grader.try_out(reply)
        new = self._coverage.steps > before
        self._quiet = 0 if new else self._quiet + 1
        if new:
            whole = trial if trial.whole else self._grader.try_out(reply, whole=True)
            trial = Trial(whole.reply, whole.likes, whole.unearned, whole.shares, whole.whole, new=True)
        self._tried[reply] = trial
        self._paid_blindly = self._paid_blindly or len(trial.likes) > 1
        self._phases.setdefault(reply, self.phase)
        return trial

    # What came of it.

    def _best(self) -> dict[str, Trial]:
        """The best find of each kind that ends a search; of equals the shorter."""
        if not self._paid_blindly:
            return {}
        blind = [trial for trial in self._tried.values() if len(trial.likes) > 1]
        ranked = sorted(blind, key=lambda trial: (-len(trial.likes), len(trial.reply)))
        return {"blind": ranked[0]} if ranked else {}

    def _report(self, best: Mapping[str, Trial]) -> None:
        """Make the finds short, and say what they are; the most telling kind alone."""
        tried = self._tried.values()
        most = max((sum(trial.unearned.values()) for trial in tried), default=0.0)
        least = max((min(trial.shares) for trial in tried if trial.whole), default=0.0)
        if best:
            self._shorten("blind", best["blind"], lambda trial: len(trial.likes) > 1)
        elif most > 0:
            self._shorten_first("unearned", lambda trial: sum(trial.unearned.values()) >= 0.9 * most)
        elif least >= PARTIAL:
            self._shorten_first("partial", lambda trial: trial.whole and min(trial.shares) >= 0.95 * least)

    def _shorten_first(self, kind: str, holds: Callable[[Trial], bool]) -> None:
        """Of all that are as good, what was tried first is the plainest."""
        self._shorten(kind, next(trial for trial in self._tried.values() if holds(trial)), holds)

    def _shorten(self, kind: str, trial: Trial, holds: Callable[[Trial], bool]) -> None:
        tries, seconds = SHRINKING
        self._grader.allow(tries * len(self._ground.panel), seconds)
        found = trial.reply

        def still(reply: str) -> bool:
            good = bool(holds(self._grader.try_out(reply, whole=True)))
            if good:
                kept.append(reply)
            return good

        kept = [found]
        with suppress(Spent):
            idle = next(filter(still, _idle(found, self._forms)), found)
            shortest(idle, still, tries)
        self._grader.allow(50, 1.0)
        with suppress(Spent):
            self._finds.insert(0, self._blind_find(kind, kept[-1], found))

    def _blind_find(self, kind: str, reply: str, found: str) -> dict[str, Any]:
        trial = self._grader.try_out(reply, whole=True)
        known = Known(self._answers, self._ground.prompts, self._forms, self._constants)
        pattern, explanation = explained(reply, known)
        places = trial.likes if kind == "blind" else range(len(self._ground.panel))
        graded = {place: self._grader.grade(place, reply) for place in range(len(self._ground.panel))}
        functions = tuple(trial.unearned) if kind == "unearned" else self._payers(graded, places)
        return {
            "kind": kind,
            "pattern": pattern,
            "explanation": explanation,
            "reply": reply,
            "found_by": self._phases[found],
            "found_length": len(found),
            "functions": functions,
            "earned": [self._earned(place, reply, each) for place, each in graded.items()],
        }

    def _payers(self, graded: Mapping[int, Graded], places: Sequence[int] | range) -> tuple[str, ...]:
        """The functions that pay as they pay gold on all of these tasks."""
        golds = self._grader.golds
        return tuple(
            name
            for name in golds[0].content
            if all(
                0 < golds[place].content.get(name, 0.0) <= graded[place].content.get(name, 0.0) + 1e-6
                for place in places
            )
        )

    def _wrong_find(self, hits: Sequence[tuple[int, wrong.Wrong]]) -> dict[str, Any]:
        graded = {place: self._grader.grade(place, each.replies[-1], False) for place, each in hits}
        first = hits[0][1]
        return {
            "kind": "wrong",
            "pattern": first.family,
            "explanation": first.why,
            "reply": first.replies[-1],
            "found_by": "made wrong",
            "found_length": len(first.replies[-1]),
            "functions": self._payers(graded, list(graded)),
            "earned": [self._earned(place, each.replies[-1], graded[place]) for place, each in hits],
        }

    def _earned(self, place: int, reply: str, graded: Graded) -> dict[str, Any]:
        task = self._ground.panel[place].task.index
        return {"task": task, "reply": reply, "reward": graded.reward or 0.0, "functions": dict(graded.scores)}

    @property
    def replies(self) -> int:
        return len(self._grader.replies)


class _PhaseOver(Exception):
    """A phase has used up its share of the scorings."""


def _idle(reply: str, forms: Sequence[Form]) -> Iterator[str]:
    """Replies of the same length that say nothing: where one is as good, it is length that is paid."""
    if len(reply) >= LONG:
        for filler in (FILLER * len(reply), (FILLER * 4 + " ") * (len(reply) // 5), (FILLER + " ") * (len(reply) // 2)):
            yield filler
            yield from (form.saying(filler) for form in forms if form.explicit)


def _read(files: Mapping[str, str]) -> dict[str, str]:
    """The text of the package's own files that scoring went through."""
    texts = {}
    for path, name in files.items():
        with suppress(OSError, UnicodeDecodeError):
            texts[name] = Path(path).read_text("utf-8")
    return texts
