"""A search for replies that are paid although they do not carry the answer."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from envops_worker.adapters.adapter import Job, TaskView
from envops_worker.channel import Request
from envops_worker.direct_scoring import DirectScoring
from envops_worker.effort import Budget
from envops_worker.failures import OutOfTime
from envops_worker.messages import Message, says, text_of
from envops_worker.policies.answers import answer_of, find_payload
from envops_worker.policies.policies import SCRIPT_PREFIX
from envops_worker.search import properties
from envops_worker.search.coverage import Coverage
from envops_worker.search.exploit_search import Ground, Hunt
from envops_worker.search.grading import Grader
from envops_worker.search.probe_tasks import PANEL, Entrant, chance_of, panel_of
from envops_worker.session import Session

TASKS_LOOKED_AT = 60
SCRIPT_TURNS = 40
LEAST_SECONDS = 0.1
"""What a reply is given once others hung."""


def answer(session: Session, request: Request) -> None:
    """Search, and where the environment is multi-turn play what was found."""
    entrants = _entrants(session, request)
    settings = session.policies.answer
    panel = panel_of(entrants, settings.type, settings.tolerance, PANEL + 3)
    skipped = _why_not(entrants, panel, settings.type)
    if skipped:
        session.channel.item("search", {"seed": request["seed"], "ended": "skipped", "skipped": skipped})
        return
    chance = chance_of([entrant.answer for entrant in entrants])
    facts = _Work(session, request, panel).facts()
    if session.adapter.conversational:
        facts = _confirmed(session, facts, panel, request)
    session.channel.item("search", {**facts, "chance": chance})


def _entrants(session: Session, request: Request) -> list[Entrant]:
    tasks = list(session.kept.values())
    if session.adapter.conversational:
        return _played(session, tasks[: request["conversations"]], request)
    entrants = []
    for task in tasks[:TASKS_LOOKED_AT]:
        gold = session.asked_oracle(task, request["seconds_per_reply"])
        if gold is not None and not gold.get("tool_calls") and text_of(gold).strip():
            entrants.append(_entrant(task, [gold]))
    return entrants


def _entrant(task: TaskView, conversation: Sequence[Message]) -> Entrant:
    gold = text_of(conversation[-1])
    known = answer_of(task.data)
    said = find_payload(gold, known).answer
    return Entrant(task, known if known is not None else said, gold, tuple(conversation))


def _played(session: Session, tasks: Sequence[TaskView], request: Request) -> list[Entrant]:
    """Gold's conversations, where the environment answers back: played where that was not done before."""
    perfect = [task for task in tasks if session.asked_oracle(task, request["seconds_per_reply"]) is not None]
    jobs = [Job("oracle", task.index) for task in perfect if task.index not in session.golden]
    for row in session.rollouts(jobs, len(jobs), request["seconds_per_play"]) if jobs else ():
        if row["failure"] is None:
            session.golden[row["task"]] = row["completion"]
    return [
        _entrant(task, said)
        for task in perfect
        if (said := session.golden.get(task.index)) and said[-1]["role"] == "assistant" and text_of(said[-1]).strip()
    ]


def _why_not(entrants: Sequence[Entrant], panel: Sequence[Entrant], type: str | None) -> str:
    if type == "none":
        return "the environment declares that its tasks have no answer: what does not carry it cannot be told"
    if not entrants:
        return "no oracle says what a right reply is"
    if len(panel) < 2:
        return f"no two of {len(entrants)} tasks have answers that exclude each other"
    return ""


class _Work:
    """The search itself."""

    def __init__(self, session: Session, request: Request, panel: Sequence[Entrant]) -> None:
        self._session = session
        self._request = request
        self._panel = list(panel)
        self._seconds_per_reply: float = request["seconds_per_reply"]
        self._scoring = DirectScoring(session)

    def facts(self) -> dict[str, Any]:
        started = time.monotonic()
        request = self._request
        limits = (request["evaluations"], Budget(request["seconds"]), request["minimum"])
        grader = self._grader = Grader(self._score, request["formats"], *limits)
        self._meet_gold(grader)
        common = {"seed": request["seed"], "limit": request["evaluations"]}
        if len(self._panel) < 2:
            reason = "gold earns nothing to speak of on all but one of the tasks tried"
            return common | {"ended": "skipped", "skipped": reason}
        coverage = Coverage(self._session.sources.relative)
        ground = Ground(
            self._panel,
            ["\n".join(text_of(message) for message in each.task.prompt) for each in self._panel],
            self._session.policies.answer.type,
            self._session.policies.answer.tolerance,
            request["seed"],
            self._with_hypothesis(),
        )
        ended, finds = Hunt(ground, grader, coverage).run()
        return common | {
            "ended": ended,
            "exploits": finds,
            "evaluations": grader.evaluations,
            "replies": len(grader.replies),
            "seconds": time.monotonic() - started,
            "lines_reached": coverage.lines_reached,
            "lines_known": coverage.lines_known,
            "steps_reached": coverage.steps,
            "broken": [{**each, "task": self._panel[each["task"]].task.index} for each in grader.broken],
            "panel": [self._panel_fact(place, grader) for place in range(len(self._panel))],
        }

    def _with_hypothesis(self) -> bool:
        sys.path.append(self._request["toolbox"])
        try:
            properties.prepare(self._request["unicode"])
        except ImportError:
            return False
        return True

    def _meet_gold(self, grader: Grader) -> None:
        """Keep the tasks on which gold is worth more than nothing."""
        kept: list[Entrant] = []
        for entrant in self._panel:
            self._panel = [*kept, entrant]
            place = len(kept)
            gold = grader.graded(self._score(place, entrant.gold, False), place, entrant.gold)
            nothing = grader.graded(self._score(place, "", True), place, "")
            if grader.meet(gold, nothing):
                kept.append(entrant)
            if len(kept) == PANEL:
                break
        self._panel = kept

    def _score(self, place: int, reply: str, blind: bool) -> Mapping[str, Any]:
        entrant, session = self._panel[place], self._session
        completion = said_instead(entrant, reply, everywhere=blind)
        try:
            return self._scoring.scored(entrant.task, completion, self._seconds_per_reply)
        except OutOfTime as error:
            self._waited()
            return {"reward": None, "functions": {}, "failure": session.sources.failure(error)}

    def _waited(self) -> None:
        """The first replies that hang do not cost the search its time, and later ones are given less."""
        if self._seconds_per_reply > LEAST_SECONDS:
            self._grader.budget.extend(self._seconds_per_reply)
            self._seconds_per_reply = max(LEAST_SECONDS, self._seconds_per_reply / 4)

    def _panel_fact(self, place: int, grader: Grader) -> dict[str, Any]:
        gold = grader.golds[place]
        return {
            "task": self._panel[place].task.index,
            "answer": self._panel[place].answer[:200],
            "gold": gold.reward,
            "nothing": grader.nothings[place].reward,
            "functions": dict(gold.scores),
        }


def said_instead(entrant: Entrant, reply: str, *, everywhere: bool) -> list[Message]:
    """Gold's conversation with its last turn, or all of its turns, said otherwise."""
    if not everywhere:
        return [*entrant.conversation[:-1], says(reply)]
    spoken = [message for message in entrant.conversation if message["role"] in ("assistant", "user")]
    return [says(reply) if message["role"] == "assistant" else message for message in spoken]


def _confirmed(
    session: Session, facts: Mapping[str, Any], panel: Sequence[Entrant], request: Request
) -> dict[str, Any]:
    """Only those finds that a real rollout pays as well: static scoring sees no state that a game keeps."""
    entrants = {entrant.task.index: entrant for entrant in panel}
    kept = [find for find in facts.get("exploits", ()) if _holds_when_played(session, find, entrants, request)]
    return {**facts, "exploits": kept}


def _holds_when_played(
    session: Session, find: Mapping[str, Any], entrants: Mapping[int, Entrant], request: Request
) -> bool:
    jobs = []
    for earned in find["earned"]:
        script = [says(earned["reply"])] * SCRIPT_TURNS
        if find["kind"] == "wrong":
            gold = [message for message in entrants[earned["task"]].conversation if message["role"] == "assistant"]
            script = [*gold[:-1], *script]
        name = f"{SCRIPT_PREFIX}search-{len(session.policies.scripts)}"
        session.policies.scripts[name] = script
        jobs.append(Job(name, earned["task"]))
    rows = {row["task"]: row for row in session.rollouts(jobs, len(jobs), request["seconds_per_play"])}
    for earned in find["earned"]:
        reward = rows[earned["task"]]["reward"]
        if reward is None or reward < earned["reward"] - 1e-6:
            return False
    return True
