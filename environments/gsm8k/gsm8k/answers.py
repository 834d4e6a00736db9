"""Reading the number out of a solution."""

import re
from decimal import Decimal

# 1234, 1,234, -7, −7, $12.50, 12.: a number as people write it. ASCII digits only.
NUMBER = re.compile(r"[-−+]?[$€£]?(?:\d{1,3}(?:,\d{3}){1,5}|\d{1,18})(?:\.\d{0,9})?", re.ASCII)


def as_number(text: str) -> Decimal | None:
    """The number that `text` is, or None if it is anything else."""
    text = text.strip()
    return Decimal(re.sub(r"[+,$€£]", "", text).replace("−", "-")) if NUMBER.fullmatch(text) else None


def final_number(solution: str) -> Decimal | None:
    """The number on the last line, written `#### 42`, of what follows any thinking.

    None if the last line is not that, or if an earlier line gives a number in the same way. Headings that happen to
    begin with `####` do no harm.
    """
    final = solution.partition("</think>")[2] or solution
    lines = [line.strip() for line in final.splitlines() if line.strip()]
    numbers = [as_number(line.removeprefix("####")) if line.startswith("####") else None for line in lines]
    given = [number for number in numbers if number is not None]
    return given[0] if len(given) == 1 and numbers[-1] is not None and "think>" not in final else None
