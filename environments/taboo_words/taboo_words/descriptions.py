"""The words, and the rules that a description has to keep before a judge is asked about it."""

import re
import tomllib
from pathlib import Path
from typing import NamedTuple

TAG = re.compile(r"</?(?:think|description)>")
WORD = re.compile(r"[A-Za-z]+")
# A sentence of plain words: nothing in it can be taken for the end of a quotation or for an instruction in brackets.
SENTENCE = re.compile(r"[A-Za-z][A-Za-z ,;'-]*\.")
FEWEST, MOST = 8, 30


class Entry(NamedTuple):
    word: str
    taboo: list[str]
    description: str


ENTRIES = [Entry(**row) for row in tomllib.loads(Path(__file__).with_name("words.toml").read_text("utf-8"))["words"]]


def final_description(reply: str) -> str | None:
    """The text of the one `<description>` tag after any thinking; None without such a tag or with several."""
    final = reply.partition("</think>")[2] or reply
    tags = TAG.findall(final)
    return TAG.split(final)[1].strip() if tags == ["<description>", "</description>"] else None


def keeps_the_rules(description: str | None, word: str, taboo: list[str]) -> bool:
    """Whether it is one sentence of 8 to 30 words without the word and the taboo words, not even as part of another."""
    if description is None or not SENTENCE.fullmatch(description):
        return False
    used = WORD.findall(description.lower())
    return FEWEST <= len(used) <= MOST and not any(banned in one for banned in (word, *taboo) for one in used)
