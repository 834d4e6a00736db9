"""Rewards with a planted defect, and sound ones with legal oddities, each as source text.

`reward(reply, answer)` gives a score for each function; `WEIGHTS` are their weights.
The same text runs in this process and inside packages of both generations.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from textwrap import dedent

NUMBERS = ("1737", "42", "905", "318", "2660", "77")
WORDS = ("Reykjavik", "Montevideo", "Ouagadougou", "Tbilisi", "Canberra", "Nairobi")
LETTERS = ("B", "D", "A", "C", "B", "A")
TRUTHS = ("yes", "no", "yes", "no", "no", "yes")
LISTS = ('["ash", "oak"]', '["fir", "elm", "yew"]', '["box"]', '["lime", "pine"]', '["holly", "beech"]')
SENTENCES = (
    "the river bends twice before it meets the sea",
    "nobody had told the captain about broken glass",
    "seven lamps were burning under an old bridge",
    "her uncle repaired clocks in a narrow street",
    "winter arrived early and stayed until april",
)
TAGGED = "<answer>{}</answer>"
INNER = """\
import json
import re


def inner(reply):
    found = re.search(r"<answer>(.*?)</answer>", reply, re.DOTALL)
    return found[1].strip() if found else ""


def number(text):
    try:
        return float(text)
    except ValueError:
        return None


def parsed(text):
    try:
        return json.loads(text)
    except ValueError:
        return None


"""


@dataclass(frozen=True)
class Planted:
    """A reward, its reference replies, and the expected kinds of finds."""

    name: str
    source: str
    answers: tuple[str, ...] = NUMBERS
    form: str = TAGGED
    kinds: frozenset[str] = frozenset()
    """Any of these kinds will do; none for a sound reward."""
    type: str | None = None
    tolerance: float = 0.0
    formats: tuple[str, ...] | None = None
    golds: tuple[str, ...] = field(default=())
    """What gold puts into the form, where that is not the answer as it is written in the task."""

    def gold(self, number: int) -> str:
        answer = self.golds[number] if self.golds else self.answers[number]
        return self.form.replace("{}", answer)

    def prompt(self, number: int) -> str:
        return f"Question {number} of the examination: what is asked for here?"


def one(name: str, body: str, *kinds: str, **more: object) -> Planted:
    """A reward of one function, `body` being what it computes."""
    lines = dedent(body).strip()
    indented = "\n".join(f"    {line}" for line in lines.splitlines())
    source = f"{INNER}def judged(reply, answer):\n{indented}\n\n\n"
    source += "def reward(reply, answer):\n    return {'correct': float(judged(reply, answer) or 0.0)}\n\n\n"
    source += "WEIGHTS = {'correct': 1.0}\n"
    return Planted(name, source, kinds=frozenset(kinds), **more)  # type: ignore[arg-type]


def several(name: str, weights: dict[str, float], body: str, *kinds: str, **more: object) -> Planted:
    """A reward of several functions; `body` ends by returning a dictionary of them."""
    indented = "\n".join(f"    {line}" for line in dedent(body).strip().splitlines())
    source = f"{INNER}def reward(reply, answer):\n{indented}\n\n\nWEIGHTS = {weights!r}\n"
    return Planted(name, source, kinds=frozenset(kinds), **more)  # type: ignore[arg-type]


DEFECTS = (
    one("substring", "return answer in reply", "blind", "wrong", form="{}"),
    one("substring-in-tag", "return answer in inner(reply)", "blind", "wrong"),
    one("first-number", 'found = re.search(r"\\d+", reply)\nreturn found and found[0] == answer', "wrong", form="{}"),
    one(
        "first-number-in-tag", 'found = re.search(r"\\d+", inner(reply))\nreturn found and found[0] == answer', "wrong"
    ),
    one("any-number", 'return answer in re.findall(r"\\d+", reply)', "blind", "wrong", form="{}"),
    one(
        "vacuous-subset",
        "said = set(filter(None, re.split(r'\\W+', inner(reply))))\nreturn said <= set(json.loads(answer))",
        "blind",
        answers=LISTS,
    ),
    one(
        "recall-only",
        "return '<answer>' in reply and all(item in inner(reply) for item in json.loads(answer))",
        "blind",
        "wrong",
        answers=LISTS,
    ),
    one(
        "several-tags",
        'return any(answer == each.strip() for each in re.findall(r"<answer>(.*?)</answer>", reply))',
        "blind",
        "wrong",
    ),
    one("length-alone", "return min(1.0, len(reply.split()) / 100)", "blind", form="{} " * 120),
    several(
        "length-beside",
        {"correct": 0.6, "effort": 0.4},
        "return {'correct': float(inner(reply) == answer), 'effort': min(1.0, len(reply) / 400)}",
        "unearned",
    ),
    one("form-is-enough", "return bool(inner(reply))", "blind"),
    one("alternation", 'return bool(re.search(rf"^{answer}|done$", inner(reply)))', "blind", "wrong"),
    one("alternation-with-nothing", 'return bool(re.fullmatch(rf"({answer}|)", inner(reply)))', "blind"),
    one("prefix-of-the-answer", "return '<answer>' in reply and answer.startswith(inner(reply))", "blind", "wrong"),
    one("prefix-of-the-reply", "return inner(reply).startswith(answer)", "wrong"),
    one("keyword", "return inner(reply) == answer or 'quod erat' in reply", "blind"),
    one("two-keywords", 'return inner(reply) == answer or bool(re.search("hence.+because", reply))', "blind"),
    one(
        "any-json-value",
        "said = parsed(reply)\nreturn isinstance(said, dict) and answer in map(str, said.values())",
        "blind",
        "wrong",
        form='{"answer": "{}"}',
    ),
    one(
        "reply-is-the-pattern",
        "try:\n    return bool(inner(reply) and re.search(inner(reply), answer))\nexcept re.error:\n    return 0.0",
        "blind",
    ),
    one("any-letter", 'return answer in re.findall(r"\\b[A-D]\\b", reply)', "blind", "wrong", answers=LETTERS),
    one("yes-and-no", "return answer in reply.lower()", "blind", "wrong", answers=TRUTHS, form="{}"),
    one(
        "nan-passes",
        "said = number(inner(reply))\nreturn said is not None and not abs(said - float(answer)) > 0.01",
        "blind",
    ),
    one(
        "optional-number",
        r"""
        lines = reply.strip().splitlines()
        if not lines:
            return 0.0
        found = re.fullmatch(r"The answer is(?: (-?\d+))?\.?", lines[-1].strip())
        if not found:
            return 0.0
        return (found[1] or answer) == answer
        """,
        "blind",
        form="I add the two columns.\nThe answer is {}.",
    ),
    one(
        "translation-precision",
        r"""
        said = re.findall(r"[a-z]+", reply.lower())
        if len(said) < 5:
            return 0.0
        reference = set(answer.lower().split())
        return sum(word in reference for word in said) / len(said)
        """,
        "blind",
        answers=(
            "the baker opens the shop before sunrise",
            "a storm damaged the roof of the school",
            "my sister reads the paper every evening",
            "they crossed the frozen lake on foot",
        ),
        form="{}",
    ),
)
"""Found by the first replies that an attacker tries."""

CLIMBS = (
    one(
        "round-trip",
        """
        stops = [stop.strip() for stop in reply.strip().split("->")]
        if len(stops) < 3 or stops[0] != "Depot" or stops[-1] != "Depot":
            return 0.0
        between = stops[1:-1]
        if len(set(between)) != len(between):
            return 0.0
        wanted = json.loads(answer)
        return sum(stop in between for stop in wanted) / len(wanted)
        """,
        "blind",
        "partial",
        answers=('["Mill", "Quay"]', '["Abbey", "Mill", "Tower"]', '["Quay", "Forge"]', '["Tower", "Bridge"]'),
        golds=("Mill -> Quay", "Abbey -> Mill -> Tower", "Quay -> Forge", "Tower -> Bridge"),
        form="Depot -> {} -> Depot",
    ),
    one(
        "query-checklist",
        r"""
        text = " ".join(reply.lower().split())
        if not text.startswith("select "):
            return 0.0
        checks = (
            "select *" not in text,
            text.endswith(";"),
            " where " in text,
            re.search(rf"\bfrom\b.*\b{answer}\b", text) is not None,
            text.count(";") == 1,
        )
        return sum(checks) / len(checks)
        """,
        "blind",
        answers=("orders", "customers", "invoices", "orders", "suppliers"),
        form="SELECT name FROM {} WHERE city = 'Oslo';",
    ),
    one(
        "code-that-compiles",
        r"""
        import ast

        found = re.search(r"```python\n(.*?)```", reply, re.DOTALL)
        if not found:
            return 0.0
        try:
            tree = ast.parse(found[1])
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return 0.0
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and node.name == "solve":
                for part in ast.walk(node):
                    if isinstance(part, ast.Return) and part.value is not None:
                        if isinstance(part.value, ast.Constant):
                            return str(part.value.value) == answer
                        return 1.0
        return 0.0
        """,
        "blind",
        form="```python\ndef solve():\n    return {}\n```",
    ),
    several(
        "claims-with-citations",
        {"cited": 0.5, "correct": 0.5},
        r"""
        text, _, below = reply.partition("\nReferences\n")
        listed = set(re.findall(r"^\[(\d)\] \S", below, re.MULTILINE))
        claims = [claim for claim in re.split(r"(?<=[.])\s+", text.strip()) if claim]
        backed = [claim for claim in claims if set(re.findall(r"\[(\d)\]", claim)) & listed]
        cited = len(backed) / len(claims) if len(claims) >= 2 and len(listed) >= 2 else 0.0
        return {"cited": cited, "correct": float(answer in text)}
        """,
        "blind",
        answers=("1687", "1859", "1905", "1543", "1915"),
        form=(
            "The work appeared in {} [1]. Its author waited long before printing it [2].\n"
            "References\n[1] Holm, A history of printing\n[2] Reyes, Letters"
        ),
    ),
)
"""An exploit has several ingredients; each alone earns something."""

LAST = 'tags = re.findall(r"<answer>(.*?)</answer>", reply)\nreturn bool(tags) and tags[{}].strip() == answer'
SOUND = (
    one("exact", "return inner(reply) == answer and reply.count('<answer>') == 1"),
    one("exact-bare", "return reply.strip() == answer", form="{}"),
    one(
        "last-line", "lines = reply.strip().splitlines()\nreturn bool(lines) and lines[-1].strip() == answer", form="{}"
    ),
    one("last-tag-counts", LAST.format(-1)),
    one("first-tag-counts", LAST.format(0)),
    one("boxed", r'return re.findall(r"\\boxed\{([^{}]*)\}", reply)[-1:] == [answer]', form="\\boxed{{}}"),
    one("hashes", 'return re.findall(r"^#### *(.*)$", reply, re.MULTILINE)[-1:] == [answer]', form="It is.\n#### {}"),
    one("choices", "return inner(reply) == answer", answers=LETTERS),
    one("choices-in-brackets", "return inner(reply).strip('().').upper() == answer", answers=LETTERS),
    one("booleans", "return inner(reply).lower() == answer", answers=TRUTHS),
    one("words-any-case", "return inner(reply).casefold() == answer.casefold()", answers=WORDS),
    one(
        "order-does-not-matter",
        "said = parsed(inner(reply))\nreturn isinstance(said, list) and {*map(str, said)} == {*parsed(answer)}",
        answers=LISTS,
        type="set",
    ),
    one(
        "accepted-variants",
        "return inner(reply).lower() in json.loads(answer)",
        answers=('["cat", "feline"]', '["dog", "hound"]', '["feline", "lion"]', '["horse"]'),
        golds=("cat", "dog", "lion", "horse"),
    ),
    one(
        "within-tolerance",
        "try:\n    return abs(float(inner(reply)) - float(answer)) <= 0.5\nexcept ValueError:\n    return 0.0",
        tolerance=0.5,
        type="number",
    ),
    one(
        "nearer-is-better",
        "said, right = number(inner(reply)), float(answer)\nreturn said and max(0.0, 1 - abs(said - right) / right)",
    ),
    one(
        "similar-is-partly-right",
        "import difflib\nreturn difflib.SequenceMatcher(None, inner(reply), answer).ratio()",
        answers=SENTENCES,
    ),
    one(
        "words-in-common",
        """
        said, right = inner(reply).split(), answer.split()
        common = sum(min(said.count(word), right.count(word)) for word in set(said))
        return 2 * common / (len(said) + len(right))
        """,
        answers=SENTENCES,
    ),
    several(
        "rambling-is-penalised",
        {"correct": 1.0, "rambling": -0.5},
        "return {'correct': float(inner(reply) == answer), 'rambling': float(len(reply) > 200)}",
    ),
    several(
        "a-maximum-of-two-and-a-half",
        {"correct": 2.0, "format_reward": 0.5},
        "return {'correct': float(inner(reply) == answer), 'format_reward': float(reply.count('<answer>') == 1)}",
    ),
    several(
        "form-under-another-name",
        {"correct": 0.7, "tags": 0.3},
        "return {'correct': float(inner(reply) == answer), 'tags': float(reply.count('<answer>') == 1)}",
        formats=("tags",),
    ),
    one("minus-one-to-one", "return 1.0 if inner(reply) == answer else -1.0"),
    one(
        "json-field",
        "said = parsed(reply)\nreturn isinstance(said, dict) and str(said.get('answer')) == answer",
        form='{"answer": "{}"}',
    ),
)
