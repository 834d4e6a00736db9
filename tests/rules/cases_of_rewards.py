"""Cases of the rules of the rewards gate, legal oddities of rewards among the silent ones."""

from __future__ import annotations

import math
from dataclasses import replace

from envwright.declarations.package import AnswerDeclaration, RewardDeclaration, SourceNote
from envwright.facts.observed import Agent, FunctionScore, Place, Task, TestOutcome, ToolTrial, Validation
from rule_cases import RuleCases
from subjects import (
    CORRECT,
    DESCRIPTION,
    FORMAT,
    REPLIES,
    attempt,
    broken_function,
    case,
    failure,
    function,
    functions,
    one_function,
    score,
    scores,
    subject,
    unloaded,
)

GUIDED_TO_GOLD = (
    {"role": "assistant", "content": "<answer>41</answer>"},
    {"role": "user", "content": "Lower."},
    {"role": "assistant", "content": "<answer>40</answer>"},
)
UNSAID = FunctionScore(None, 0.5, "reward")
BY_WEIGHTS = RewardDeclaration()


def earning(policy_rewards, declared=BY_WEIGHTS, weight=1.0, **changes):
    """An environment with one reward function called points."""
    return subject(
        declared=declared,
        scores=one_function(policy_rewards, weight=weight),
        description={"functions": (function("points", weight),)},
        **{"cases": (), "rollouts": (), **changes},
    )


CITIES = ("Rome", "Lima", "Oslo", "Bonn")
PLAIN_CALL = '[{{"name": "get_forecast", "arguments": {{"town": "{city}"}}}}]'
WEATHER_TASK = '{{"place": "{city}", "weather_kind": "sunny"}}'
LEARNED = {"role": "user", "content": "A place and a weather kind are missing."}


def in_json(reply, prompt="Will it be sunny in {city}?", *, system=None, before=(), reward=1.0, **changes):
    """Tasks on cities, and reference replies in which `{city}` stands for the task's own."""
    asked = [[*([("system", system)] if system else []), ("user", prompt.format(city=city))] for city in CITIES]
    return subject(
        tasks=tuple(
            Task(number, tuple({"role": role, "content": text} for role, text in messages), None, {})
            for number, messages in enumerate(asked)
        ),
        scores=tuple(
            replace(scored, completion=(*before, *scored.completion))
            for number, city in enumerate(CITIES)
            for scored in (score("oracle", number, reply.format(city=city), reward=reward),)
        ),
        **changes,
    )


def penalised(**policy_rewards):
    """One point for being right, half a point off for rambling."""
    rewards = {name.replace("_", "-"): reward for name, reward in policy_rewards.items()}
    scored = tuple(
        score(
            policy,
            reward=reward,
            functions={
                "right": FunctionScore(max(reward, 0.0), 1.0, "reward"),
                "rambling": FunctionScore(-2 * min(reward, 0.0), -0.5, "reward"),
            },
        )
        for policy, reward in rewards.items()
    )
    known = (function("right"), function("rambling", -0.5))
    return subject(scores=scored, description={"functions": known}, cases=(), rollouts=())


def broken(of: str = "nop", **changes):
    """One function gave no usable number for one policy."""
    failed = broken_function(**changes)
    return subject(
        scores=(*scores(nop=None), score(of, reward=None, functions=functions(None, 0.0), failures=(failed,)))
    )


def unscored(policy: str = "nop", reply: str | None = None, **changes):
    return subject(
        scores=(
            *scores(**{policy.replace("-", "_"): None}),
            score(policy, reply=reply, reward=None, functions={}, failure=failure(**changes), again=()),
        )
    )


def refused_by_raise(file: str = "sums/__init__.py", **description):
    """An environment of two agents whose own code raises on a reply; or `file` raises for it."""
    traceback = f'''Traceback (most recent call last):
  File "{file}", line 30, in from_trace
    raise ValueError("no contract")
ValueError: no contract

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/venv/site-packages/verifiers/v1/errors.py", line 95, in boundary
    raise error_cls(f"{{what}}: {{e}}") from e
verifiers.v1.errors.EnvError: Env.run(): ValueError: no contract
'''
    place = Place("sums/__init__.py", 30)
    spoken = failure(type="ValueError", message="no contract", traceback=traceback, place=place)
    spoken_score = score("nop", reply=None, reward=None, functions={}, failure=spoken, again=())
    known = {"conversational": True, "agents": ("proposer", "solver"), **description}
    return subject(scores=(*scores(nop=None), spoken_score), description=known)


def oracle_failure(**changes):
    failed = {"reward": None, "functions": {}, "failure": failure(**changes), "again": ()}
    return subject(scores=scores(oracle=failed))


def wordless_oracle(**changes):
    """A failure before the oracle said anything, as the worker files it."""
    failed = score("oracle", reward=None, functions={}, failure=failure(place=None), again=())
    return subject(scores=(*scores(oracle=None), replace(failed, completion=())), **changes)


def declaring(*added):
    return subject(description={"functions": (*DESCRIPTION.functions, *added)})


def mapping(**weights):
    """A v1 function `graded` that returns a mapping: its entries score, its own name never does."""
    entries = {name: FunctionScore(1.0, weight, "reward") for name, weight in weights.items()}
    gold = sum(weights.values())
    scores = (
        score("oracle", reward=gold, functions=entries),
        score("nop", reward=0.0, functions={name: FunctionScore(0.0, 1.0, "reward") for name in weights}),
    )
    return subject(scores=scores, description={"functions": (function("graded"),)}, cases=(), rollouts=())


def answered(declared, *answers):
    """Tasks with these answers, of the declared type."""
    tasks = tuple(Task(index, (), str(answer), {}) for index, answer in enumerate(answers))
    return subject(package={"answer": AnswerDeclaration(type=declared)}, tasks=tasks)


NO_ANSWER = AnswerDeclaration(type="none")
WHOLE_RANGE = RewardDeclaration(min=-1.0, max=1.0)

RAISED = case({"reward": "0", "correct_answer": "1"}, score=score("case", reward=0.2, failures=(broken_function(),)))
SERVED = failure(type="ToolError", message="Error executing tool add: division by zero")


def adder(name="add", **changes):
    """A tool that was tried four times."""
    return ToolTrial(**{"name": name, "calls": 4, "failed": 0, "results": 4, "arguments": {"first": 2}, **changes})


def tooled(*tools: ToolTrial, calls=(), derived=False):
    """An environment with tools, some of which the reference reply calls."""
    asked = {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": name}} for name in calls]}
    gold = replace(score("oracle"), derived=derived)
    spoken = replace(gold, completion=(asked, *gold.completion)) if calls else gold
    return subject(tools=tools, scores=(*scores(oracle=None), spoken))


CASES = {
    "RWD001": RuleCases(
        fires={
            "on one task": subject(scores=(*scores(2), score("oracle", 2, reward=0.9))),
            "always wrong": subject(scores=scores(oracle={"reward": 0.0})),
            "short of a declared maximum": earning({"oracle": 1.0, "nop": 0.0}, RewardDeclaration(max=2.0)),
            "short by little": earning({"oracle": 0.99999, "nop": 0.0}),
        },
        silent={
            "reached to rounding": earning({"oracle": 1.0 - 1e-9, "nop": 0.0}),
            "a maximum of 2.5 by weights": earning({"oracle": 2.5, "nop": 0.0}, weight=2.5),
            "a declared maximum below the weights": earning({"oracle": 0.7, "nop": 0.0}, RewardDeclaration(max=0.7)),
            "a penalty that gold avoids": penalised(oracle=1.0, nop=0.0),
            "entries of a mapping": mapping(exact=1.0, close=1.0),
            "without a reward is another rule's": oracle_failure(),
        },
    ),
    "RWD002": RuleCases(
        fires={
            "none at all": subject(scores=scores(oracle=None), package={"has_oracle": False}),
            "not for every task": subject(scores=(*scores(), score("nop", 7))),
            "nothing was scored": subject(scores=()),
            "the oracle knows none": oracle_failure(type="NoOracle"),
        },
        silent={
            "it raised, which is another rule's": oracle_failure(type="KeyError"),
            "scoring did not end": unloaded("rewards", "timeout"),
        },
    ),
    "RWD003": RuleCases(
        fires={
            "in its file": oracle_failure(place=Place("tests/oracle.py", 3)),
            "of the wrong type": oracle_failure(type="OracleError"),
            "before anything was said": wordless_oracle(),
            "in a function of the package that it calls": oracle_failure(
                place=Place("plain_sums/taskset.py", 3), traceback='  File "/x/tests/oracle.py", line 3, in reply'
            ),
        },
        silent={
            "the network is needed": unscored(kind="network"),
            "the environment raised before any reply": wordless_oracle(description={"conversational": True}),
            "scoring its reply raised": oracle_failure(place=Place("plain_sums/taskset.py", 3)),
            "it has no reply": oracle_failure(type="NoOracle"),
        },
    ),
    "RWD004": RuleCases(
        fires={
            "full marks": subject(scores=scores(nop={"reward": 1.0})),
            "six percent": earning({"oracle": 1.0, "nop": 0.06}),
            "above a declared minimum": earning({"oracle": 2.0, "nop": 1.2}, RewardDeclaration(min=1.0, max=2.0)),
            "zero where all else is a penalty": earning({"oracle": 0.0, "nop": 0.0}, weight=-1.0),
            "half a point where rambling is penalised": penalised(oracle=1.0, nop=0.5),
        },
        silent={
            "a crumb from a format function": earning({"oracle": 1.0, "nop": 0.04}),
            "the minimum is above zero": earning({"oracle": 2.0, "nop": 1.0}, RewardDeclaration(min=1.0, max=2.0)),
            "zero where penalties go below": penalised(oracle=1.0, nop=0.0),
            "zero between minus one and one": earning({"oracle": 1.0, "nop": 0.0}, WHOLE_RANGE),
            "saying nothing is right": subject(scores=(score("oracle", reply=""), score("nop", reward=1.0))),
        },
    ),
    "RWD005": RuleCases(
        fires={
            "as much as gold": subject(scores=scores(near_miss={"reward": 1.0})),
            "as much as a gold that misses the maximum": earning({"oracle": 0.7, "near-miss": 0.7}),
        },
        silent={
            "nearly as much, continuously": earning({"oracle": 1.0, "near-miss": 0.95}),
            "guided to gold over several turns": subject(
                scores=(score("oracle"), replace(score("near-miss", reward=1.0), completion=GUIDED_TO_GOLD))
            ),
            "the same words as gold": subject(scores=scores(near_miss={"reply": "<answer>4{task}</answer>"})),
            "no answer to miss": subject(package={"answer": NO_ANSWER}, scores=scores(near_miss={"reward": 1.0})),
            "a gold paid for its format alone is another rule's": subject(
                scores=scores(oracle={"reward": 0.2}, near_miss={"reward": 0.2})
            ),
            "always wrong is another rule's": earning({"oracle": 0.0, "near-miss": 0.0}),
        },
    ),
    "RWD006": RuleCases(
        fires={
            "more than its weight": subject(scores=scores(format_only={"reward": 0.3})),
            "more than declared": subject(
                declared=RewardDeclaration(format_share=0.1), scores=scores(format_only={"reward": 0.2})
            ),
            "there is no format function": earning({"oracle": 1.0, "format-only": 0.1}),
        },
        silent={
            "as declared": earning({"oracle": 1.0, "format-only": 0.5}, RewardDeclaration(format_share=0.5)),
            "a format function by declaration": earning(
                {"oracle": 1.0, "format-only": 1.0}, RewardDeclaration(format=("points",))
            ),
        },
    ),
    "RWD007": RuleCases(
        fires={"as much as gold": subject(scores=scores(echo={"reward": 1.0}))},
        silent={
            "partly, continuously": earning({"oracle": 1.0, "echo": 0.4}),
            "the prompt is gold": subject(
                scores=(score("oracle", reply="say this"), score("echo", reply="say this", reward=1.0))
            ),
        },
    ),
    "RWD008": RuleCases(
        fires={"substring": subject(scores=scores(hedge={"reward": 1.0}))},
        silent={
            "partly": earning({"oracle": 1.0, "hedge": 0.5}),
            "no answer to list": subject(package={"answer": NO_ANSWER}, scores=scores(hedge={"reward": 1.0})),
        },
    ),
    "RWD009": RuleCases(
        fires={"the judge obeys": subject(scores=scores(override={"reward": 1.0}))},
        silent={"the judge does not": subject()},
    ),
    "RWD010": RuleCases(
        fires={
            "always one": earning(dict.fromkeys(REPLIES, 1.0)),
            "constant on each task": subject(
                scores=tuple(score(policy, task, reward=task / 10) for task in range(5) for policy in REPLIES)
            ),
        },
        silent={
            "gold alone differs": earning({"oracle": 1.0, "nop": 0.0, "near-miss": 0.0}),
            "one policy cannot be compared": earning({"oracle": 1.0}),
            "differs on one task": subject(
                scores=(score("oracle", 0), score("nop", 0, reward=1.0), score("oracle", 1), score("nop", 1))
            ),
        },
    ),
    "RWD020": RuleCases(
        fires={
            "on an empty reply": broken(type="IndexError"),
            "a metric": broken(function="reply_length"),
            "for want of a secret": broken(kind="missing-secret"),
            "in a case": subject(cases=(case({"reward": "1"}, score=score("case", failures=(broken_function(),))),)),
        },
        silent={
            "no number is another rule's": broken(type="NotANumber"),
            "not finite is another rule's": broken(type="NotFinite"),
            "time is another rule's": broken(kind="timeout"),
        },
    ),
    "RWD021": RuleCases(
        fires={
            "filed by the worker": broken(type="NotFinite"),
            "a function": subject(scores=(*scores(), score("nop", functions=functions(math.nan, 0.0)))),
            "a metric": subject(scores=(*scores(), score("nop", functions=functions(0.0, 0.0, math.inf)))),
            "the reward": subject(scores=(*scores(), score("nop", reward=-math.inf))),
        },
        silent={"missing is another rule's": broken()},
    ),
    "RWD022": RuleCases(
        fires={"text": broken(type="NotANumber", message="returned str 'yes' instead of a number")},
        silent={"raised is another rule's": broken()},
    ),
    "RWD023": RuleCases(
        fires={"a function": broken(kind="timeout", type="OutOfTime"), "all of scoring": unscored(kind="timeout")},
        silent={"slow but there": subject(scores=scores(nop={"seconds": 9.0})), "raised": broken()},
    ),
    "RWD024": RuleCases(
        fires={
            "skipped": declaring(function("runs_the_code", 0.5)),
            "named but without a number": subject(
                description={"functions": (*DESCRIPTION.functions, function("runs_the_code", 0.5))},
                scores=(score("oracle", functions=functions(1.0, 1.0) | {"runs_the_code": UNSAID}), score("nop")),
            ),
        },
        silent={
            "raised every time": subject(
                description={"functions": (CORRECT, FORMAT, function("odd", 0.5))},
                scores=(*scores(), score("nop", failures=(broken_function("odd"),))),
            ),
            "it returns a mapping": mapping(exact=1.0, close=1.0),
            "a metric is another rule's": declaring(function("steps", 0.0, "metric")),
            "nothing was scored": subject(scores=()),
        },
    ),
    "RWD025": RuleCases(
        fires={
            "skipped": declaring(function("steps", 1.0, "metric")),
            "v0's weight of zero": declaring(function("n", 0.0)),
        },
        silent={"a reward is another rule's": declaring(function("runs_the_code", 0.5))},
    ),
    "RWD026": RuleCases(
        fires={"scoring": subject(network=(attempt("rewards"),))},
        silent={
            "loading is another rule's": subject(network=(attempt("load"),)),
            "on a library's own account": subject(network=(replace(attempt("rewards"), place=None),)),
            "by the oracle": subject(network=(replace(attempt("rewards"), place=Place("tests/oracle.py", 11)),)),
        },
    ),
    "RWD056": RuleCases(
        fires={"on its own account": subject(network=(replace(attempt("rewards"), place=None),))},
        silent={"for the package": subject(network=(attempt("rewards"),))},
    ),
    "RWD030": RuleCases(
        fires={
            "above": subject(scores=(*scores(), score("echo", reward=1.5))),
            "below": subject(scores=(*scores(), score("echo", reward=-0.1))),
            "in a case": subject(cases=(case({"reward": "2"}, score=score("case", reward=2.0)),)),
            "beyond a declared range": earning({"oracle": 1.0, "nop": -1.0}, RewardDeclaration(min=-0.5)),
        },
        silent={
            "by rounding": subject(scores=(*scores(), score("oracle", reward=1.0 + 1e-9))),
            "a declared minimum": earning({"oracle": 1.0, "nop": -1.0}, WHOLE_RANGE),
            "a penalty by weight": penalised(oracle=1.0, nop=0.0, echo=-0.5),
            "a count as a metric": subject(scores=(*scores(), score("echo", functions=functions(0.0, 0.0, 9000.0)))),
        },
    ),
    "RWD031": RuleCases(
        fires={
            "another number": subject(scores=scores(nop={"again": (0.1,)})),
            "none the second time": subject(scores=scores(nop={"again": (None,)})),
            "on the third time": subject(scores=scores(nop={"again": (0.0, 0.2)})),
        },
        silent={
            "not repeated": subject(scores=scores(nop={"again": ()})),
            "twice nothing": unscored(),
            "twice not finite": subject(scores=scores(nop={"reward": math.nan, "again": (math.nan,)})),
        },
    ),
    "RWD032": RuleCases(
        fires={
            "raised": unscored(),
            "the worker died": unscored(kind="crash"),
            "the environment raised before any reply": wordless_oracle(description={"conversational": True}),
            "without a word": subject(scores=scores(nop={"reward": None, "again": ()})),
            "an agent's reply is refused on purpose": refused_by_raise(),
        },
        silent={
            "time is another rule's": unscored(kind="timeout"),
            "a function's failure is another rule's": broken(),
            "the oracle's failure is another rule's": wordless_oracle(),
        },
    ),
    "RWD033": RuleCases(
        fires={
            "rewards": unloaded("rewards"),
            "tests": unloaded("tests"),
            "the network is needed": unloaded("rewards", "network"),
        },
        silent={
            "a crash is not the environment's": unloaded("rewards", "crash"),
            "loading is another rule's": unloaded("load"),
        },
    ),
    "RWD040": RuleCases(
        fires={
            "reward": subject(cases=(case({"reward": "0.5"}),)),
            "a function": subject(cases=(case({"reward": "1", "format_reward": "< 0.5"}),)),
        },
        silent={
            "a function raised, which is another rule's": subject(cases=(RAISED,)),
            "between": subject(cases=(case({"reward": "between 0.9 and 1"}),)),
            "an unknown function is another rule's": subject(cases=(case({"forma_reward": "1"}),)),
        },
    ),
    "RWD041": RuleCases(
        fires={
            "no such task": subject(cases=(case({"reward": "1"}, score=None, failure=failure(type="LookupError")),)),
            "no such function": subject(cases=(case({"forma_reward": "1"}),)),
            "not scored": subject(cases=(case({"reward": "1"}, score=None),)),
            "scoring failed": subject(
                cases=(case({"reward": "1"}, score=score("case", reward=None, failure=failure())),)
            ),
            "a function without a number": subject(
                cases=(case({"correct_answer": "1"}, score=score("case", functions=functions(None, 1.0))),)
            ),
        },
        silent={
            "a function raised, which is another rule's": subject(cases=(RAISED,)),
            "does not hold, which is another rule's": subject(cases=(case({"reward": "0"}),)),
        },
    ),
    "RWD042": RuleCases(
        fires={
            "invalid": subject(validations=(Validation(0, True), Validation(1, False))),
            "raised": subject(validations=(Validation(0, None, failure()),)),
            "the network is needed": subject(validations=(Validation(0, None, failure("network")),)),
        },
        silent={"unchecked": subject(validations=(Validation(0, None),))},
    ),
    "RWD043": RuleCases(
        fires={
            "failed": subject(tests=(TestOutcome("test_a", "failed", "assert 1 == 2"),)),
            "not collected": subject(tests=(TestOutcome("test_b.py", "error"),)),
        },
        silent={
            "skipped": subject(tests=(TestOutcome("test_c", "skipped"),)),
            "none": subject(tests=()),
        },
    ),
    "RWD044": RuleCases(
        fires={"as labels": answered("label", *range(40, 60))},
        silent={
            "as numbers": answered("number", *range(40, 60)),
            "a few classes": answered("label", *([0, 1, 2] * 9)),
            "words": answered("label", *(f"word {index}" for index in range(20))),
        },
    ),
    "RWD050": RuleCases(
        fires={
            "the wrong way round": subject(declared=RewardDeclaration(min=1.0, max=0.0)),
            "no reward function": subject(
                description={"functions": (function("steps", 0.0, "metric"),)}, scores=(), cases=(), rollouts=()
            ),
            "weights of zero": subject(
                description={"functions": (function("n", 0.0),)}, scores=(), cases=(), rollouts=()
            ),
        },
        silent={
            "penalties only": earning({"oracle": 0.0, "nop": -1.0}, weight=-1.0),
            "declared below zero": subject(declared=RewardDeclaration(min=-2.0, max=-1.0)),
            "not loaded": unloaded(),
        },
    ),
    "RWD051": RuleCases(
        fires={
            "misspelt": subject(declared=RewardDeclaration(format=("formt_reward",))),
            "misspelt check": subject(declared=RewardDeclaration(check=("reply_lenght",))),
            "paid check": subject(declared=RewardDeclaration(check=("format_reward",))),
            "paid check of several entries": subject(
                declared=RewardDeclaration(check=("parts",)),
                description={"functions": (function("parts"),)},
                scores=one_function({"oracle": 1.0}, name="first part"),
            ),
        },
        silent={
            "known": subject(declared=RewardDeclaration(format=("format_reward",))),
            "a metric": subject(declared=RewardDeclaration(format=("reply_length",))),
            "a metric as check": subject(declared=RewardDeclaration(check=("reply_length",))),
            "none": subject(declared=RewardDeclaration(format=())),
        },
    ),
    "RWD052": RuleCases(
        fires={
            "exec": subject(
                package={"notes": (SourceNote("model-output-executed", "exec(reply)", "plain_sums/taskset.py", 9),)}
            )
        },
        silent={
            "other notes": subject(
                package={"notes": (SourceNote("unpinned-dataset", 'load_dataset("a/b")', "plain_sums/taskset.py", 9),)}
            )
        },
    ),
    "RWD098": RuleCases(
        fires={
            "always": tooled(adder(failed=4, results=0, failure=failure(type="ZeroDivisionError"))),
            "behind a server": tooled(adder(failed=4, results=0, failure=SERVED)),
            "now and then": tooled(adder(failed=1, failure=failure(type="NameError"))),
        },
        silent={
            "works": tooled(adder()),
            "refuses the arguments": tooled(adder(failed=4, results=0, failure=failure(type="KeyError"))),
        },
    ),
    "RWD099": RuleCases(
        fires={
            "never called": tooled(adder()),
            "one of two": tooled(adder(), adder("look_up"), calls=["add"]),
            "a derived reply, and one result": tooled(adder(results=1), derived=True),
        },
        silent={"called": tooled(adder(), calls=["add"])},
    ),
    "RWD097": RuleCases(
        fires={
            "keys": in_json(WEATHER_TASK),
            "keys in a tag": in_json(f"<think>I see.</think><answer>{WEATHER_TASK}</answer>"),
            "keys in a block": in_json(f"Here it is:\n```json\n{WEATHER_TASK}\n```"),
            "keys and a tool": in_json(PLAIN_CALL),
            "a tool, and its keys by chance": in_json(PLAIN_CALL, "Name a day when {city} is sunny."),
            "a tool, and its keys are named": in_json(PLAIN_CALL, system="A list with name and arguments."),
            "a tool below function": in_json('{{"function": {{"name": "sky", "arguments": {{"town": "{city}"}}}}}}'),
            "only that it is JSON": in_json(WEATHER_TASK, system="Reply with JSON."),
        },
        silent={
            "in the system prompt": in_json(WEATHER_TASK, system="Reply with place and weather_kind in JSON."),
            "in an example": in_json(WEATHER_TASK, 'So: {{"place": "Kyiv", "weather_kind": "dull"}}. Is {city} sunny?'),
            "with spaces": in_json(WEATHER_TASK, "Name the place and the weather kind: {city}."),
            "most of them": in_json('{{"reasoning": "clear", "place": "{city}"}}', "Give the place as JSON: {city}."),
            "keys of one task each": in_json('{{"{city} in spring": 3}}', "How often is it sunny?"),
            "said by the environment": in_json(WEATHER_TASK, before=({"role": "assistant", "content": "{}"}, LEARNED)),
            "shown to an agent": in_json(
                WEATHER_TASK, agents=(Agent("", True, ({"role": "system", "content": "place, weather_kind"},)),)
            ),
            "an offered tool": in_json(
                '{{"tool": "sky", "args": {{"town": "{city}"}}}}',
                system="Tool and args.",
                description={"tools": ("sky",)},
            ),
            "text": in_json("It is sunny in {city}."),
            "a list": in_json('["{city}"]'),
            "earns nothing": in_json(WEATHER_TASK, reward=0.0),
            "not scored": unloaded(),
        },
    ),
}
