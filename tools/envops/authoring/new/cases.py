"""tests/cases.yaml of a new environment: typical mistakes of replies to its first task."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from envops.authoring.new.plan import EnvironmentPlan

CaseReply = str | list[Any]
LONGEST_TITLE = 100


class WrittenCase(NamedTuple):
    """A case: a reply to the first task and its reward."""

    name: str
    reply: CaseReply
    right: bool
    formed: bool
    """Whether it counts as an answer, right or wrong."""


def cases_of(plan: EnvironmentPlan) -> str:
    """The text of cases.yaml."""
    question = " ".join(plan.question(plan.examples[0]).split())
    shown = question if len(question) <= LONGEST_TITLE else f"{question[:LONGEST_TITLE]}…"
    written = [_written(plan, case) for case in _cases(plan)]
    return f"# Task 0: {shown}\n" + "\n".join(written)


def _written(plan: EnvironmentPlan, case: WrittenCase) -> str:
    reward, formed = float(case.right), float(case.formed)
    replies = case.reply if isinstance(case.reply, list) else [case.reply] * plan.turns
    if len(replies) == 1:
        reply = f"  reply: {_quoted(replies[0])}\n"
    else:
        reply = "  reply:\n" + "".join(f"    - {_quoted(one)}\n" for one in replies)
    expected = f"{{reward: {reward}, {plan.reward_name}: {reward}, answer_format: {formed}}}"
    return f"- name: {case.name}\n  task: 0\n{reply}  expect: {expected}\n"


def _quoted(reply: Any) -> str:
    return json.dumps(reply, ensure_ascii=False)


def gold_of(plan: EnvironmentPlan, index: int = 0) -> str:
    """An example's answer in the form of a reply."""
    answer = plan.examples[index].answer
    return "\n".join(answer) if isinstance(answer, list) else answer


def framed(plan: EnvironmentPlan, answer: str) -> str:
    """A reply that gives an answer in the form that the prompt requests."""
    if plan.answer == "code":
        return f"```python\n{answer}\n```"
    if plan.prints:
        return f"```python\nprint({answer!r})\n```"
    if plan.answer == "latex":
        return f"\\boxed{{{answer}}}"
    return f"<answer>\n{answer}\n</answer>" if "\n" in answer else f"<answer>{answer}</answer>"


def _cases(plan: EnvironmentPlan) -> Iterator[WrittenCase]:
    gold = gold_of(plan)
    right, wrong = framed(plan, gold), framed(plan, wrong_answer(plan, gold))
    yield WrittenCase("the right answer is worth everything", f"Here it is.\n{right}", True, True)
    if plan.kind == "tool":
        yield from _tool_cases(plan, right)
    if plan.turns > 1:
        yield WrittenCase("the last turn counts, and a wrong one before it does no harm", [wrong, right], True, True)
        yield WrittenCase("giving up the right answer in the last turn earns nothing", [right, wrong], False, True)
    yield WrittenCase("an answer after thinking counts, whatever was drafted while thinking",
               f"<think>Perhaps {wrong}? No.</think>\n{right}", True, True)  # fmt: skip
    yield WrittenCase("another answer is wrong", wrong, False, True)
    yield WrittenCase(
        "an answer inside the thinking earns nothing",
        f"<think>\n{right}\n</think> I would rather not say.",
        False,
        False,
    )
    yield WrittenCase("an answer in thinking that never ends earns nothing", f"<think>\n{right}", False, False)
    yield WrittenCase("thinking again and answering again earns nothing",
               f"<think>A.</think>\n{right}\n<think>B.</think>\n{right}", False, False)  # fmt: skip
    yield WrittenCase("several answers earn nothing", f"{wrong}\n{right}", False, False)
    yield WrittenCase("the answer without its marks earns nothing", f"I say {gold}", False, False)
    yield WrittenCase("an empty reply earns nothing", "", False, False)
    yield from _of_the_frame(plan, gold, right)
    yield from _of_the_format(plan, gold)


def _tool_cases(plan: EnvironmentPlan, right: str) -> Iterator[WrittenCase]:
    call = {"id": "read", "type": "function", "function": {"name": plan.tool_name, "arguments": '{"number": 0}'}}
    missing = {"id": "no", "type": "function", "function": {"name": plan.tool_name, "arguments": '{"number": 99999}'}}
    reading = {"role": "assistant", "content": None, "tool_calls": [call]}
    yield WrittenCase("reading and then answering is worth everything", [reading, right], True, True)
    failing = {"role": "assistant", "content": None, "tool_calls": [missing]}
    yield WrittenCase("a document that is not there does no harm", [failing, right], True, True)
    yield WrittenCase("reading is worth nothing by itself", [reading, "I have read it."], False, False)


def _of_the_frame(plan: EnvironmentPlan, gold: str, right: str) -> Iterator[WrittenCase]:
    """Replies with a broken tag, box or fence."""
    if right.startswith("<answer>"):
        yield WrittenCase("a tag that is never closed earns nothing", f"<answer>{gold}", False, False)
        yield WrittenCase("a tag within the tag earns nothing", f"<answer><answer>{gold}</answer>", False, False)
        yield WrittenCase("a second tag earns nothing even if it stays empty", f"{right} <answer>", False, False)
        yield WrittenCase("a closing tag without an opening one earns nothing", f"</answer>{right}", False, False)
        yield WrittenCase("a second closing tag earns nothing", f"{right}</answer>", False, False)
        yield WrittenCase("empty tags earn nothing", "<answer></answer>", False, False)
        yield WrittenCase("line breaks around the answer do no harm", f"<answer>\n{gold}\n</answer>", True, True)
        if plan.kind != "judge" or plan.answer not in ("text", "list"):
            formed = plan.answer in ("text", "list")
            yield WrittenCase("denying the answer earns nothing", f"<answer>not {gold}</answer>", False, formed)
    elif right.startswith("\\boxed"):
        yield WrittenCase("a box that is never closed earns nothing", f"\\boxed{{{gold}", False, False)
        yield WrittenCase("an empty box earns nothing", "\\boxed{}", False, False)
        yield WrittenCase("denying the answer earns nothing", f"\\boxed{{not {gold}}}", False, True)
        yield WrittenCase("spaces and dollars do no harm", f"$\\boxed{{ {gold} }}$", True, True)
    else:
        yield WrittenCase("a block that is never closed earns nothing", right.removesuffix("```"), False, False)
        yield WrittenCase("an empty block earns nothing", "```python\n```", False, False)


def _of_the_format(plan: EnvironmentPlan, gold: str) -> Iterator[WrittenCase]:
    """Replies that are specific to this kind of answer."""
    if plan.prints:
        yield WrittenCase("a program that fails earns nothing", "```python\nprint(1 / 0)\n```", False, True)
        yield WrittenCase("a program that prints two answers earns nothing",
                   f"```python\nprint({gold!r})\nprint({wrong_answer(plan, gold)!r})\n```", False, True)  # fmt: skip
        return
    if plan.runs_tests:
        yield WrittenCase("a program that does nothing earns nothing", "```python\npass\n```", False, True)
        yield WrittenCase(
            "a program that ends at once earns nothing", "```python\nimport sys\nsys.exit(0)\n```", False, True
        )
        yield WrittenCase("a program that does not parse earns nothing", "```python\ndef (\n```", False, True)
    for name, text in dress(plan, gold):
        yield WrittenCase(name, framed(plan, text), True, True)
    if plan.answer == "text" and plan.kind != "judge":
        spaced = framed(plan, f" {gold.removesuffix('.')}. ")
        yield WrittenCase("spaces around a full stop do no harm", spaced, True, True)
    for name, text in unreadable(plan, gold):
        yield WrittenCase(name, framed(plan, text), False, False)
    if plan.answer == "number" and float(gold):
        other = gold[1:] if gold.startswith("-") else f"\N{MINUS SIGN}{gold}"
        yield WrittenCase("a number of the other sign is wrong", framed(plan, other), False, True)


def dress(plan: EnvironmentPlan, gold: str) -> Iterator[tuple[str, str]]:
    """The first answer in other notations."""
    match plan.answer:
        case "number":
            digits = gold.lstrip("-")
            yield "zeros in front and behind the point do no harm", f"{gold[: -len(digits)]}{_padded(digits)}"
            whole, _, part = digits.partition(".")
            grouped = ",".join(re.findall(r"\d{3}", whole.zfill(18)))
            sign = gold[: -len(digits)]
            yield "eighteen digits in groups are still read", f"{sign}{grouped}{'.' if part else ''}{part}"
            yield "eighteen digits are still read", f"{sign}{whole.zfill(18)}{'.' if part else ''}{part}"
            yield "nine decimals are still read", f"{sign}{whole}.{part.ljust(9, '0')}"
            yield "a percent sign is accepted", f"{gold}%"
            if not gold.startswith("-"):
                yield "a plus and a currency are accepted", f"+${gold}"
        case "choice":
            yield "the letter in parentheses is accepted", f"({gold})"
            yield "the small letter with a full stop is accepted", f"{gold.lower()}."
        case "boolean" | "label" | "text" if gold.swapcase() != gold:
            yield "case does not matter", gold.swapcase()
            if plan.answer == "text" and plan.kind != "judge":
                yield "a full stop does no harm", f"{gold.removesuffix('.')}."
        case "json":
            known = json.loads(gold)
            yield "spaces do not matter", json.dumps(known, ensure_ascii=False, indent=1)
            if isinstance(known, dict) and len(known) > 1:
                turned = dict(reversed(known.items()))
                yield "the order of keys does not matter", json.dumps(turned, ensure_ascii=False)
        case "list":
            yield "blank lines and spaces do no harm", "\n \n ".join(gold.splitlines())
            if plan.unordered and "\n" in gold:
                yield "another order does no harm", "\n".join(reversed(gold.splitlines()))
        case "latex":
            yield "spaces do no harm", f" {gold}\\,"
            simple = re.fullmatch(r"(-?)\\frac\{(\d+)\}\{(\d+)\}", gold)
            if simple:
                sign, above, below = simple.groups()
                yield "a large fraction is a fraction", f"{sign}\\dfrac{{{above}}}{{{below}}}"
                yield "a small fraction is a fraction", f"{sign}\\tfrac{{{above}}}{{{below}}}"
                yield "a slash is a fraction as well", f"{sign}{above}/{below}"
                tenfold = f"{sign}{int(above) * 10}/{int(below) * 10}"
                yield "a fraction that is not in lowest terms is the same number", tenfold
                if len(above) == len(below) == 1:
                    yield "braces around single digits may be left out", f"{sign}\\frac{above}{below}"
        case "code" if not plan.runs_tests:
            yield "blank lines at the end do no harm", f"{gold}\n\n"


def _padded(digits: str) -> str:
    whole, _, part = digits.partition(".")
    return f"{whole.zfill(min(18, len(whole) + 2))}.{part.ljust(min(9, len(part) + 1), '0')}"


def unreadable(plan: EnvironmentPlan, gold: str) -> Iterator[tuple[str, str]]:
    """Texts that are not answers of this kind."""
    match plan.answer:
        case "number":
            yield "several numbers earn nothing", f"{gold} or {wrong_answer(plan, gold)}"
            yield "a unit beside the number earns nothing", f"{gold} apples"
            yield "nineteen digits are not a number", "1" * 19
            yield "ten decimals are not a number", f"0.{'1' * 10}"
            yield "a group of four digits is not a number", "1,2345"
            yield "four digits before a separator are not a number", "1234,567"
            yield "seven groups are not a number", "1" + ",000" * 6
            yield "a leading separator does not form a number", ",123"
            yield "letters before a separator are not a number", "abc,123"
            yield "a point without decimals is not a number", f"{gold.partition('.')[0]}."
            yield "digits of other scripts are not a number", "４２"
        case "choice":
            yield "several letters earn nothing", f"{gold} or {wrong_answer(plan, gold)}"
            yield "a letter that is not offered is not an answer", "Z"
        case "boolean":
            yield "both words earn nothing", " or ".join(plan.words)
            yield "another word is not an answer", "perhaps"
        case "label":
            yield "several labels earn nothing", " or ".join(plan.vocabulary[:2])
            yield "another word is not a label", "something else"
        case "json":
            yield "cut-off JSON is not an answer", gold[:-1]
            yield "JSON with a repeated key is not an answer", '{"a": 1, "a": 2}'
            yield "NaN is not JSON", "NaN"
        case _:
            return


def wrong_answer(plan: EnvironmentPlan, gold: str) -> str:
    """An answer of the same format that is wrong: another example's if there is one, else a changed one."""
    others = (gold_of(plan, index) for index in range(len(plan.examples)))
    if plan.answer == "choice":
        return "B" if gold != "B" else "A"
    if plan.answer == "boolean":
        yes, no = plan.words
        return no if gold == yes else yes
    if plan.answer == "number":
        return re.sub(r"\d(?=\D*$)", lambda digit: str((int(digit[0]) + 1) % 10), gold)

    def spoken(answer: str) -> str | list[str]:
        return sorted(answer.casefold().splitlines()) if plan.unordered else answer.casefold()

    return next((other for other in others if spoken(other) != spoken(gold)), f"{gold}x")


def readable_texts(plan: EnvironmentPlan) -> list[str]:
    """Ways of writing the first answer."""
    gold = gold_of(plan)
    return list(dict.fromkeys([gold, *(text for _, text in dress(plan, gold))]))


def unreadable_texts(plan: EnvironmentPlan) -> list[str]:
    """Texts that are not an answer at all."""
    return ["", *(text for _, text in unreadable(plan, gold_of(plan)))]
