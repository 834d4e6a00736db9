"""A perfect player: sorts everyone the user has named so far."""

import re
from collections.abc import Mapping, Sequence
from typing import Any


def reply(task: Mapping[str, Any], messages: Sequence[Mapping[str, Any]]) -> str:
    said = [message["content"] for message in messages if message["role"] == "user"]
    part = 0 if "by first name" in said[0] else 1
    people = [person for text in said for person in re.findall(r"^\w+ \w+$", text, re.MULTILINE)]
    listed = "\n".join(sorted(people, key=lambda person: person.split()[part]))
    return f"<names>\n{listed}\n</names>"
