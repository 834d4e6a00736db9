"""What a reply earns: for the right date, and for the form."""

from datetime import date

import verifiers as vf

TAGS = ("<think>", "</think>", "<answer>", "</answer>")


class FinalAnswerParser(vf.XMLParser):
    """`<think>` and `<answer>`, where only a single answer after the thinking counts.

    `vf.XMLParser` itself takes the first `<answer>` it finds: one of several, or a draft inside `<think>`.
    """

    def __init__(self) -> None:
        super().__init__(["think", "answer"])

    def parse_answer(self, completion: vf.Messages) -> str | None:
        text = reply_text(completion)
        final = text.partition("</think>")[2] or text
        before, _, rest = final.partition("<answer>")
        answer, closed, after = rest.partition("</answer>")
        stray = "think>" in final or "</answer>" in before + after or "<answer>" in rest
        return None if stray or not closed else answer.strip()


def reply_text(completion: vf.Messages) -> str:
    """The text of the last message of the model."""
    return vf.Parser().parse_answer(completion) or ""


def to_date(text: str | None) -> date | None:
    """The date that `text` is in ISO 8601, or None if it is anything else."""
    try:
        return date.fromisoformat(text or "")
    except ValueError:
        return None


def correct_answer(completion: vf.Messages, answer: str, parser: FinalAnswerParser) -> float:
    """Whether the one answer given is the right date."""
    return float(to_date(parser.parse_answer(completion)) == date.fromisoformat(answer))


def format_reward(completion: vf.Messages, parser: FinalAnswerParser) -> float:
    """Whether the reply is one `<think>` and then one `<answer>` that is a date, right or wrong, and nothing else."""
    text = reply_text(completion).strip()
    framed = text.startswith("<think>") and text.endswith("</answer>") and all(text.count(tag) == 1 for tag in TAGS)
    adjacent = text.partition("</think>")[2].lstrip().startswith("<answer>")
    return float(framed and adjacent and to_date(parser.parse_answer(completion)) is not None)
