"""What holds of a reward whatever the circumstances: everywhere, always, at any length."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from envops_worker.policies.grader_attacks import canary_colon, canary_thought

from envops.facts.observed import Place
from envops.facts.reward_numbers import is_reward_number, number
from envops.rules.engine import Found, Subject, rule
from envops.rules.evidence import described, merged, of_conversation, of_failure, reply_text, shortened
from envops.rules.gold import best_paid, worst_paid
from envops.statistics.declared_range import speakers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envops.facts.observed import Circumstance, GoldSweep, Growth

FLOOR_SECONDS = 0.25
"""Below this, no growth is worth a word."""
LINEAR = 1.5
"""Growth with a higher power of the length than this is not linear; quadratic is 2."""


@rule("RWD060", gate="rewards")
def gold_misses_the_maximum_further_on(subject: Subject) -> Iterator[Found]:
    """Gold misses the maximum on a task further on.

    What: What a perfect model says earns the declared maximum on every task: the first 100 are RWD001's, the
        others up to 1,000 are this rule's.
    Why: The odd task is where answers are mislabelled and formats differ: ties, empty lists, large numbers.
    Fix: Mend the reward or the task's answer; the first of them is named.
    """
    declared = subject.range
    for sweep in subject.facts.sweeps:
        missed = [
            score
            for score in sweep.lowest
            if score.reward is None or not declared.reaches(score.reward, declared.maximum)
        ]
        count = sum(reward is None or not declared.reaches(reward, declared.maximum) for reward in sweep.rewards)
        if not missed:
            continue
        first = missed[0]
        said = f"gold earns {number(first.reward)} of {number(declared.maximum)} on task {first.task}"
        yield Found(
            f"{said} ({count} of {len(sweep.tasks)} further tasks)",
            of_conversation(first)
            | {"expected": declared.maximum, "count": count, "of": len(sweep.tasks)}
            | {"tasks": [score.task for score in missed]},
            worst_paid(subject, first),
        )


@rule("RWD054", gate="rewards", severity="advice")
def gold_was_tried_on_a_sample(subject: Subject) -> Iterator[Found]:
    """Gold was not tried on every task.

    What: Gold is tried on every task, up to 1,000 and as long as scoring is cheap.
    Why: What was not tried is not proven: a mistake in a task further on goes unseen.
    Fix: Nothing needs to be done. Where tasks come from a generator, a test of the generator covers the rest.
    """
    for sweep in subject.facts.sweeps:
        if sweep.ended_by != "all":
            yield Found(_how_far(sweep), {"tasks": sweep.known, "ended by": sweep.ended_by})


def _how_far(sweep: GoldSweep) -> str:
    why = {"count": "the limit of tasks", "time": "the limit of time"}[sweep.ended_by]
    return f"gold was tried on the first {sweep.known} tasks, where {why} was reached"


@rule("RWD053", gate="rewards", severity="warning")
def penalty_is_never_seen(subject: Subject) -> Iterator[Found]:
    """A penalty is declared that nothing ever got.

    What: Where the declared minimum lies below 0, at least one wrong reply earns less than 0.
    Why: A penalty that never comes is a sign turned the wrong way, a condition that never holds, or a wrong
        declaration.
    Fix: Add a case to tests/cases.yaml that is penalised; mend the function, or correct the minimum.
    """
    scored = subject.rewarded_conversations
    if subject.range.minimum >= 0 or subject.range.maximum <= 0 or not scored:
        return
    lowest = min(scored, key=lambda score: score.reward or 0.0)
    if (lowest.reward or 0.0) >= -subject.range.tolerance:
        yield Found(
            f"the minimum is {number(subject.range.minimum)}, but none of {len(scored)} conversations earned less "
            f"than 0",
            {"minimum": subject.range.minimum, "lowest": lowest.reward, "of": len(scored)},
        )


def _differing(subject: Subject, saying: str, *circumstances: Circumstance) -> Iterator[Found]:
    for repetition in subject.facts.repetitions:
        if repetition.circumstance not in circumstances or not repetition.differences:
            continue
        first = repetition.differences[0]
        others = [
            {"task": each.task, "policy": each.policy, "reward": each.reward, "again": each.again}
            for each in repetition.differences[1:3]
        ]
        yield Found(
            f"the same reply earns {number(first.reward)}, and {number(first.again)} {saying}, on task {first.task} "
            f"({first.policy}; {repetition.difference_count} of {repetition.count} conversations)",
            {
                "task": first.task,
                "policy": first.policy,
                "reply": shortened(reply_text(first.completion)),
                "reward": first.reward,
                "again": first.again,
                "circumstance": repetition.circumstance,
            }
            | ({"more": others} if others else {}),
        )


@rule("RWD070", gate="rewards")
def reward_depends_on_what_was_scored_before(subject: Subject) -> Iterator[Found]:
    """The reward depends on what was scored before.

    What: A conversation earns the same in another order, and in a process that scored nothing before.
    Why: In training the order is chance: what is learned is then the state of a counter or a cache.
    Fix: Keep no state between calls: no module variable, no default argument that is changed, no cache whose
        key lacks the reply.
    """
    yield from _differing(subject, "after others in another order", "order")
    yield from _differing(subject, "in a fresh process", "fresh process")


@rule("RWD071", gate="rewards")
def reward_depends_on_the_hash_seed(subject: Subject) -> Iterator[Found]:
    """The reward depends on the hash seed of the process.

    What: A conversation, a group that is scored together, and a rollout that is made again earn the same in a
        process whose strings hash otherwise. A second process is started only where the package makes a set or
        calls `hash`.
    Why: Each training worker then pays the same reply differently.
    Fix: Sort sets before their order matters, and use hashlib in place of `hash`.
    """
    yield from _differing(subject, "in a process with another hash seed", "hash seed")


@rule("RWD072", gate="rewards")
def reward_depends_on_parallel_scoring(subject: Subject) -> Iterator[Found]:
    """The reward depends on what is scored at the same time.

    What: A conversation earns the same while many others are scored in the same event loop.
    Why: Training scores hundreds at once; state that two of them share gives one the other's reward.
    Fix: Keep what a scoring needs in local variables or in its own `state`, across every `await`.
    """
    yield from _differing(subject, "beside others at the same time", "parallel")


@rule("RWD058", gate="rewards")
def circumstance_could_not_be_made(subject: Subject) -> Iterator[Found]:
    """A circumstance under which rewards are compared could not be made.

    What: The fork for the fresh process, and the second process for the other hash seed, answer.
    Why: What was not compared is not proven; the gate is inconclusive.
    Fix: See what ended the process: memory, a signal, an import that works only once.
    """
    yield from _untried(subject, out_of_time=False)


@rule("RWD059", gate="rewards", severity="warning")
def circumstance_took_too_long(subject: Subject) -> Iterator[Found]:
    """There was no time to score again under some circumstance.

    What: Another order, a fresh process, scoring side by side: each gets half of the invariants' time.
    Why: What was not compared is not proven.
    Fix: Make the reward quicker. Where it cannot be, nothing needs to be done: the report says what is missing.
    """
    yield from _untried(subject, out_of_time=True)


def _untried(subject: Subject, *, out_of_time: bool) -> Iterator[Found]:
    for repetition in subject.facts.repetitions:
        failure = repetition.failure
        if failure is not None and (failure.kind == "timeout") == out_of_time:
            yield Found(
                f"rewards were not compared under this circumstance: {repetition.circumstance}: {described(failure)}",
                of_failure(failure) | {"circumstance": repetition.circumstance},
                failure.place,
                inconclusive=not out_of_time,
            )


@rule("RWD073", gate="rewards")
def scoring_grows_faster_than_the_reply(subject: Subject) -> Iterator[Found]:
    """Scoring takes longer than in proportion to the length of the reply.

    What: When a reply doubles, scoring takes about twice as long: replies of many shapes up to 128,000
        characters, measured as the least of two, and counted only above a quarter of a second.
    Why: One long reply of that shape holds up a whole step; models that ramble write them by themselves.
    Fix: Look for a regular expression with two repetitions side by side (`\\s*.*\\s*$`, `(a+)+`), or for a
        loop inside a loop over the reply. Cut the reply to a sane length first.
    """
    yield from _too_steep(subject, of_libraries=False)


@rule("RWD055", gate="rewards", severity="warning")
def library_grows_faster_than_the_reply(subject: Subject) -> Iterator[Found]:
    """A library that scoring calls takes longer than in proportion to the length of the reply.

    What: As RWD073, where a library's own code was at work: `vf.XMLParser` takes cubic time for an opened tag
        and many spaces.
    Why: It holds up a step as much, but the mistake is not the environment's.
    Fix: Cut the reply to a sane length before the library sees it, or read it yourself.
    """
    yield from _too_steep(subject, of_libraries=True)


def _too_steep(subject: Subject, *, of_libraries: bool) -> Iterator[Found]:
    steep = [growth for growth in subject.facts.growths if _is_too_steep(growth)]
    hits = [
        Found(
            f"a reply of {growth.lengths[-1]} characters ({growth.shape}) takes {_how_long(growth)}"
            f"{f' in {growth.library}' if growth.library else ''}",
            {
                "task": growth.task,
                "shape": growth.shape,
                "reply begins with": growth.beginning,
                "seconds": dict(zip(map(str, growth.lengths), growth.seconds, strict=True)),
            },
            growth.place,
        )
        for growth in steep
        if (growth.library is not None) == of_libraries
    ]
    yield from merged(hits, len(subject.facts.growths), "shapes")


def _is_too_steep(growth: Growth) -> bool:
    if growth.timed_out:
        return True
    if growth.seconds[-1] < FLOOR_SECONDS:
        return False
    earlier = -3 if len(growth.seconds) > 2 else 0
    if len(growth.seconds) == 1:
        return True
    times = growth.seconds[-1] / max(growth.seconds[earlier], 1e-6)
    longer = growth.lengths[-1] / growth.lengths[earlier]
    return math.log(times) > LINEAR * math.log(longer)


def _how_long(growth: Growth) -> str:
    if growth.timed_out:
        return f"more than {growth.seconds[-1]:g} s"
    before = f"; {growth.lengths[-2]} took {growth.seconds[-2]:.2f} s" if len(growth.seconds) > 1 else ""
    return f"{growth.seconds[-1]:.2f} s{before}"


def _acts(subject: Subject, what: str, saying: str) -> Iterator[Found]:
    for act in subject.facts.acts:
        if act.what == what:
            yield Found(
                f"{act.function} {saying} {shortened(act.detail, 120)} while a reward is computed",
                {"what": act.what, "detail": act.detail, "function": act.function, "count": act.count},
                act.place,
            )


@rule("RWD074", gate="rewards")
def scoring_reads_the_clock(subject: Subject) -> Iterator[Found]:
    """Scoring reads the clock.

    What: The package's own code does not ask for date or time of day while a reward is computed. Measuring how
        long something takes (`perf_counter`, `monotonic`) is no concern.
    Why: The same reply then earns something else tomorrow, and no run can be repeated.
    Fix: Put the time into the task when it is made.
    """
    yield from _acts(subject, "clock", "asks for the time with")


@rule("RWD075", gate="rewards")
def scoring_draws_at_random(subject: Subject) -> Iterator[Found]:
    """Scoring draws at random.

    What: The package's own code draws from no shared or unseeded generator while a reward is computed.
    Why: Noise in the reward looks like skill, and other code that draws from the same generator changes it.
    Fix: Use `random.Random(seed)` with a seed from the task, or decide without chance.
    """
    yield from _acts(subject, "randomness", "draws from")


@rule("RWD076", gate="rewards")
def scoring_opens_files_elsewhere(subject: Subject) -> Iterator[Found]:
    """Scoring opens files outside of the package.

    What: The package's own code opens no file while a reward is computed but its own, those that Python and
        libraries brought along, and temporary ones.
    Why: On the next machine the file is missing or another; the reward is then a different one, or 0.
    Fix: Ship the file in the package and read it with importlib.resources when the environment loads.
    """
    yield from _acts(subject, "file", "opens")


@rule("RWD077", gate="rewards")
def scoring_reads_undeclared_variables(subject: Subject) -> Iterator[Found]:
    """Scoring reads environment variables that nobody declared.

    What: The package's own code reads no environment variable while a reward is computed but those that the
        registry declares as `secrets`.
    Why: The reward follows from a setting of the machine that stands in no configuration and no record.
    Fix: Make it an argument of the environment (`args` in registry.yaml), or declare it under `secrets`.
    """
    yield from _acts(subject, "environment variable", "reads the environment variable")


@rule("RWD057", gate="rewards")
def scoring_executes_the_reply(subject: Subject) -> Iterator[Found]:
    """Scoring executes the reply.

    What: Nothing of a reply reaches `exec` or `eval` in the process that scores: replies that are code with a
        name of their own in it are scored under watch. RWD052 is the same by the source alone.
    Why: What a model writes then runs where the reward runs, with its files and keys, and can pay itself.
    Fix: Parse it (`ast.literal_eval`, a real parser), or run it in a sandbox or a process without rights.
    """
    yield from _acts(subject, "execution", "runs what the reply says with")


@rule("RWD078", gate="rewards")
def function_is_silent_at_times(subject: Subject) -> Iterator[Found]:
    """A declared function scores some conversations and leaves others out.

    What: Every reward function and metric that scores anything scores every conversation that has a reward.
    Why: An average over what happens to be there is another quantity; v1 takes a missing reward as nothing.
    Fix: Return a number on every path, 0 where there is nothing to measure.
    """
    scored = [score for score in subject.conversations if score.reward is not None and not score.failures]
    description = subject.facts.description
    declared = {function.name for function in description.functions} if description else set()
    for function in subject.functions:
        if function.name not in declared:
            continue
        silent = [score for score in scored if function.name not in speakers(score.functions)]
        if silent and len(silent) < len(scored):
            first = silent[0]
            yield Found(
                f"{function.name} gave nothing on task {first.task} ({first.policy}; {len(silent)} of {len(scored)} "
                "conversations)",
                of_conversation(first) | {"function": function.name, "count": len(silent), "of": len(scored)},
                function.place,
            )


@rule("RWD079", gate="rewards")
def judge_is_talked_over(subject: Subject) -> Iterator[Found]:
    """A judge is talked over, or pays for nothing.

    What: Replies without content (":" and "Thought process:", arXiv 2507.08794), and text that tells the judge
        to give full marks, earn no more than form alone may, be the judge as obedient as it likes: a scripted
        judge obeys whatever stands in its prompt outside of quotation marks, fences or tags. Neither does junk
        when the judge says what nobody can read as a verdict. Where the environment answers back, all of this
        is played.
    Why: Real judges paid such replies in full; training finds them within hours.
    Fix: Quote the reply as data: between tags or fences that the reply itself cannot close. Let code refuse
        replies without any letter or digit, check by code what code can check, and pay nothing for a verdict
        that cannot be read.
    """
    declared = subject.range
    canaries = [score for score in subject.facts.scores if score.policy in (canary_colon.name, canary_thought.name)]
    judged = [(each.score, f"to a judge that is {each.judge}") for each in subject.facts.judged if each.calls]
    hits = [
        Found(
            f"{shortened(reply_text(score.completion), 60)!r} earns {number(score.reward)} on task {score.task}"
            f"{f' {to_whom}' if to_whom else ''}, more than {number(declared.form_alone)}",
            of_conversation(score) | {"expected": f"<= {number(declared.form_alone)}"},
            best_paid(subject, score) or Place("pyproject.toml"),
        )
        for score, to_whom in [*((score, "") for score in canaries), *judged]
        if is_reward_number(score.reward) and score.reward > declared.form_alone + declared.tolerance
    ]
    yield from merged(hits, len(canaries) + len(judged), "replies")
