"""Types of the values in registry.yaml: each in Python, in the JSON Schema and in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
)
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

T = TypeVar("T")
RuleSeverity = Literal["error", "warning", "advice", "off"]


class Keys:
    """The base of every class of keys: an undeclared key is a mistake."""

    __pydantic_config__ = ConfigDict(extra="forbid")


SLUG = r"^[A-Za-z0-9]+([._-][A-Za-z0-9]+)*$"
ENVIRONMENT_NAME = r"^[A-Za-z][A-Za-z0-9]*([-_.][A-Za-z0-9]+)*$"
RUN_NAME = r"^[a-z0-9]+([.-][a-z0-9]+)*$"
RULE_ID = r"^[A-Z]{3}[0-9]{3}$"
VARIABLE = r"^[A-Z_][A-Z0-9_]*$"
OWNER = r"^(@[A-Za-z0-9-]+(/[A-Za-z0-9._-]+)?|[A-Za-z0-9._+-]+@[A-Za-z0-9.-]+)$"
HUB_ADDRESS = r"^[A-Za-z0-9]+([._-][A-Za-z0-9]+)*/[A-Za-z0-9]+([._-][A-Za-z0-9]+)*@[0-9][A-Za-z0-9.+!_-]*$"
DAY = r"^20[0-9]{2}-[01][0-9]-[0-3][0-9]$"
HUB_DATASET = r"^[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)?$"
COMMIT = r"^[0-9a-f]{40}$"
WORD = r"^\S+$"
FILLED = r"\S"
VERSIONS = r"^ *(!=|[<>=]=|[<>]) *{0}( *, *(!=|[<>=]=|[<>]) *{0})*$".format(r"[0-9]+([.][0-9]+)*((a|b|rc)[0-9]+)?")

WORDS: dict[str, str] = {
    SLUG: "Letters, digits and single hyphens, underscores or dots between them.",
    ENVIRONMENT_NAME: "Letters, digits, and single hyphens, underscores or dots between them, starting with a letter.",
    RUN_NAME: "Lower-case letters, digits and single hyphens or dots between them.",
    RULE_ID: "A rule id: three capital letters and three digits.",
    VARIABLE: "Name of an environment variable: upper-case letters, digits and underscores.",
    OWNER: "@user, @organisation/team or a mail address.",
    HUB_ADDRESS: "owner/name@version, with an exact version.",
    DAY: "A day: YYYY-MM-DD.",
    HUB_DATASET: "owner/name, as the Hub spells it.",
    COMMIT: "A commit: 40 hexadecimal digits in quotes.",
    WORD: "Text without spaces.",
    FILLED: "Text that is not empty.",
    VERSIONS: "Bounds of a version, such as >=0.2 or >=0.2,<0.3.",
}
"""Pattern → its description in words."""


def _whole(value: Any) -> Any:
    """Accept `5.0` as a whole number, as JSON Schema does, and reject `true`."""
    if isinstance(value, bool):
        raise PydanticCustomError("int_type", "not a whole number")
    return int(value) if isinstance(value, float) and value.is_integer() else value


Whole = BeforeValidator(_whole)

Text = StrictStr
Slug = Annotated[Text, Field(pattern=SLUG, max_length=100)]
EnvironmentName = Annotated[Text, Field(pattern=ENVIRONMENT_NAME, max_length=100)]
RunName = Annotated[Text, Field(pattern=RUN_NAME, max_length=100)]
RuleId = Annotated[Text, Field(pattern=RULE_ID)]
Variable = Annotated[Text, Field(pattern=VARIABLE)]
Owner = Annotated[Text, Field(pattern=OWNER)]
HubAddress = Annotated[Text, Field(pattern=HUB_ADDRESS)]
Day = Annotated[Text, Field(pattern=DAY)]
HubDataset = Annotated[Text, Field(pattern=HUB_DATASET)]
Commit = Annotated[Text, Field(pattern=COMMIT)]
Word = Annotated[Text, Field(pattern=WORD)]
Filled = Annotated[Text, Field(pattern=FILLED)]
Versions = Annotated[Text, Field(pattern=VERSIONS)]
Flag = StrictBool
Count = Annotated[StrictInt, Field(ge=1, le=1_000_000_000), Whole]
CountOrZero = Annotated[StrictInt, Field(ge=0), Whole]
GroupSize = Annotated[StrictInt, Field(ge=2, le=1_000_000), Whole]
Share = Annotated[StrictFloat, Field(ge=0, le=1)]
OpenShare = Annotated[StrictFloat, Field(gt=0, lt=1)]
Positive = Annotated[StrictFloat, Field(gt=0)]
PositiveOrZero = Annotated[StrictFloat, Field(ge=0)]
FiniteNumber = Annotated[StrictFloat, Field(allow_inf_nan=False)]
Temperature = Annotated[StrictFloat, Field(ge=0, le=2)]
Table = Mapping[Text, Any]
"""A mapping with arbitrary keys."""
Ignored = Annotated[
    Mapping[RuleId, Filled],
    Field(description="Rules that are ignored here: rule id and the reason, which every report shows."),
]


class _Off(Keys):
    """Reads `off` without quotes, which is false in YAML."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], CoreSchema]) -> CoreSchema:
        return core_schema.no_info_before_validator_function(
            lambda found: "off" if found is False else found, handler(source)
        )

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        described = handler(schema)
        return {**described, "enum": [*described["enum"], False], "type": ["string", "boolean"]}


@dataclass(frozen=True)
class RuleSetting:
    """The severity of a rule in this repository."""

    severity: Annotated[
        RuleSeverity, _Off(), Field(description="Severity of its findings; `off` shows them without effect.")
    ]
    reason: Annotated[Filled, Field(description="The reason, which every report shows.")]


class _Omissible:
    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], CoreSchema]) -> CoreSchema:
        nullable: Any = handler(source)
        inner: CoreSchema = nullable["schema"]
        return inner


Omissible = Annotated[T | None, _Omissible()]
"""A key that is `None` if it is left out; null in the file is a mistake."""


@dataclass(frozen=True)
class _Checked:
    """A check of a whole value, and the JSON Schema of the same check."""

    check: Callable[[Any], Any]
    schema: tuple[tuple[str, Any], ...]

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], CoreSchema]) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {**handler(schema), **dict(self.schema)}


def _without_repetition(values: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(values)) < len(values):
        raise PydanticCustomError("repeated", "an entry is repeated")
    return values


def _with_one_key(value: T) -> T:
    if sum(each is not None for each in vars(value).values()) != 1:
        raise PydanticCustomError("one_key", "not exactly one key")
    return value


Unique = Annotated[tuple[T, ...], _Checked(_without_repetition, (("uniqueItems", True),))]
"""A list without repeated entries."""
OneKey = Annotated[T, _Checked(_with_one_key, (("minProperties", 1), ("maxProperties", 1)))]
"""A mapping with exactly one of its keys."""
