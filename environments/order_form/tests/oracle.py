"""A perfect player: reads the mail sentence by sentence, and lets later ones correct earlier ones."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

NUMBERS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
WORDS = {word: number for number, word in enumerate(NUMBERS, start=2)}
FIRM = r"(?:from |here, |writing for )([A-Z][\w ]*?)(?:\.|;)"
NAME_OF_CITY = r"(?:to|in)(?: our (?:shop|address) in)? ([A-Z]\w+)[?.]"


def reply(task: Mapping[str, Any], messages: Sequence[Mapping[str, Any]]) -> str:
    mail = messages[-1]["content"].split("---")[1]
    items: dict[str, int] = {}
    for sentence in re.split(r"(?<=[.?:]) ", mail):
        for count, product in re.findall(r"(\d+|[a-z]+) ([a-z]+s)\b", sentence):
            if count in WORDS or count.isdigit():
                items[product] = WORDS.get(count) or int(count)
        if dropped := re.search(r"(?:leave out|forget) the (\w+)", sentence):
            del items[dropped[1]]
    order = {
        "customer": re.search(FIRM, mail)[1],
        "city": re.search(NAME_OF_CITY, mail)[1],
        "express": bool(re.search(r"use express|Express, please|pay for express", mail)),
        "items": items,
    }
    return f"<answer>{json.dumps(order)}</answer>"
