"""A perfect player: writes the function that the description asks for, step by step."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

RESULTS = {
    "their sum": "sum(kept)",
    "the largest of them": "max(kept)",
    "the sum of the largest and the smallest of them": "max(kept) + min(kept)",
    "the product of the first and the last of them": "kept[0] * kept[-1]",
}
CODE = """<answer>
def solve(numbers):
    changed = [{change} for n in numbers]
    kept = [n for n in changed if {choice}]
    return {result} if kept else 0
</answer>"""


def reply(task: Mapping[str, Any], messages: Sequence[Mapping[str, Any]]) -> str:
    change, choice, result = re.search(
        r"^First (.*)\. Of the results, keep (.*)\. Return (.*), or 0", messages[-1]["content"], re.MULTILINE
    ).groups()
    factor, *shift = re.findall(r"\d+", change)
    written = (
        f"n * n + {factor}" if "square" in change else f"{factor} * n {'-' if 'subtract' in change else '+'} {shift[0]}"
    )
    number = re.findall(r"\d+", choice)
    keep = (
        "n % 2 == 1" if "odd" in choice
        else f"n % {number[0]} == 0" if "divided" in choice
        else f"n {'>' if 'greater' in choice else '<'} {number[0]}"
    )  # fmt: skip
    return CODE.format(change=written, choice=keep, result=RESULTS[result])
