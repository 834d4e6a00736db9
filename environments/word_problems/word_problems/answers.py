"""Reading the answer out of a reply."""

import re

# 1234, 1,234, 1 234, +12, −12, $12, 12.0: one whole number as people write it. ASCII digits only.
NUMBER = re.compile(r"[-−+]?[$€£]?(?:\d{1,3}(?:[, \u00a0\u2009\u202f]\d{3}){1,5}|\d{1,18})(?:\.0{0,9})?", re.ASCII)


def final_answer(reply: str) -> str | None:
    """What stands in the one `<answer>` tag after any thinking; None without such a tag or with several."""
    final = reply.partition("</think>")[2] or reply
    before, _, rest = final.partition("<answer>")
    answer, closed, after = rest.partition("</answer>")
    stray = "think>" in final or "</answer>" in before + after or "<answer>" in rest
    return None if stray or not closed else answer.strip()


def whole_number(text: str | None) -> int | None:
    """The whole number that `text` is, or None if it is anything else."""
    if text is None or not NUMBER.fullmatch(text):
        return None
    digits = re.sub(r"\D", "", text.partition(".")[0])
    return -int(digits) if text[0] in "-−" else int(digits)
