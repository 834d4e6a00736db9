"""A perfect player: writes down the worked solution of the data set, without its calculator notes."""

import re
from collections.abc import Mapping, Sequence
from typing import Any


def reply(task: Mapping[str, Any], messages: Sequence[Mapping[str, Any]]) -> str:
    return re.sub(r"<<[^>]*>>", "", task["solution"])
