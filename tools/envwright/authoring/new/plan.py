"""The plan of a new environment: the data for the templates. Without I/O."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Literal

from envwright.authoring.dataset.layout import TOOLS_HEADING, AnswerFormat, Example, options_in_text
from envwright.authoring.dataset.values import LETTERS
from envwright.declarations.package import Generation

EnvironmentKind = Literal["single-turn", "multi-turn", "tool", "judge", "code", "multi-agent"]
NAME = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*")
"""Names of the Hub whose module is a Python identifier."""


@dataclass(frozen=True)
class DataOrigin:
    """The origin of the rows."""

    source: str
    config: str = ""
    revision: str = ""
    licence: str = ""
    made_up: bool = False
    """The tool's own sample."""


@dataclass(frozen=True)
class EnvironmentPlan:
    """The data for the templates."""

    name: str
    kind: EnvironmentKind
    answer: AnswerFormat
    generation: Generation
    splits: Mapping[str, Sequence[Example]]
    provenance: DataOrigin
    vocabulary: tuple[str, ...] = ()
    """The labels, or the two words of a boolean."""
    unordered: bool = False
    """Whether lists are equal in any order."""
    unit: str = ""
    """The unit of numbers, if the data has it after each."""

    @cached_property
    def module(self) -> str:
        return self.name.replace("-", "_")

    @cached_property
    def class_name(self) -> str:
        return "".join(part.capitalize() for part in self.name.split("-"))

    @cached_property
    def title(self) -> str:
        return self.name.replace("-", " ").capitalize()

    @cached_property
    def examples(self) -> Sequence[Example]:
        """The examples of the default split."""
        return self.splits[self.split]

    @cached_property
    def everything(self) -> list[Example]:
        """The examples of all splits."""
        return [example for examples in self.splits.values() for example in examples]

    @property
    def split(self) -> str:
        return next(iter(self.splits))

    @cached_property
    def hides_question(self) -> bool:
        """Whether the tool holds the question itself, because the data has no documents."""
        return self.kind == "tool" and not all(example.document for example in self.everything)

    @cached_property
    def runs_tests(self) -> bool:
        """Whether replies are programs that are tested."""
        return self.answer == "code" and self.kind != "judge" and all(example.tests for example in self.everything)

    @property
    def stores_list(self) -> bool:
        """Whether an answer is a list in the data, too: v0 has texts only, and a judge reads a text."""
        return self.answer == "list" and self.generation == "v1" and self.kind != "judge"

    @property
    def calls_functions(self) -> bool:
        """Whether some test calls a function of the program."""
        return self.runs_tests and any(test.call for example in self.everything for test in example.tests)

    @property
    def feeds_input(self) -> bool:
        """Whether some test gives the program an input and checks its output."""
        return self.runs_tests and any(not test.call for example in self.everything for test in example.tests)

    @property
    def prints(self) -> bool:
        """Whether replies are programs that print the answer."""
        return self.kind == "code" and self.answer != "code"

    @property
    def reward_name(self) -> str:
        return "tests_passed" if self.runs_tests else "correct_output" if self.prints else "correct_answer"

    @property
    def tool_name(self) -> str:
        return "documents_read" if self.generation == "v1" else "read_document"

    @property
    def turns(self) -> int:
        """The number of turns of the trained model."""
        return 2 if self.kind in ("multi-turn", "multi-agent") else 1

    @property
    def words(self) -> tuple[str, str]:
        """The two words of a boolean."""
        return (self.vocabulary[0], self.vocabulary[1]) if len(self.vocabulary) == 2 else ("yes", "no")

    @property
    def runs_code(self) -> bool:
        """Whether replies are programs that are run."""
        return self.kind == "code" or self.runs_tests

    @property
    def most_choices(self) -> int:
        """The maximum number of options beside or in a question; without any at least four, or up to every answer."""
        offered = [len(example.choices or options_in_text(example.question)) for example in self.everything]
        named = [LETTERS.find(str(example.answer)) + 1 for example in self.everything]
        return max([*offered, *named, 0 if any(offered) else 4])

    @cached_property
    def json_answers(self) -> list[Any]:
        """All answers, if they are JSON."""
        return [json.loads(str(example.answer)) for example in self.everything] if self.answer == "json" else []

    @cached_property
    def json_is_list(self) -> bool:
        """Whether every answer is a list of JSON objects, as tool calls are."""
        answers = self.json_answers
        return bool(answers) and all(
            isinstance(answer, list) and answer and all(isinstance(item, dict) for item in answer) for answer in answers
        )

    @cached_property
    def json_keys(self) -> list[str]:
        """The keys that every answer has, or every object in it, if answers are JSON objects or lists of them."""
        objects = [element for answer in self.json_answers for element in (answer if self.json_is_list else [answer])]
        if not objects or not all(isinstance(element, dict) for element in objects):
            return []
        return [key for key in objects[0] if all(key in element for element in objects)]

    @property
    def called_tools(self) -> dict[str, list[str]]:
        """Name → arguments of the tools that answers call, if no prompt describes them."""
        described = all(example.document.startswith(TOOLS_HEADING) for example in self.everything)
        held = next((key for key in ("arguments", "parameters") if {"name", key} <= set(self.json_keys)), "")
        if not self.json_is_list or not held or described:
            return {}
        tools: dict[str, list[str]] = {}
        for call in (call for answer in self.json_answers for call in answer):
            arguments = call[held] if isinstance(call[held], dict) else {}
            known = tools.setdefault(str(call["name"]), [])
            known += [name for name in arguments if name not in known]
        return dict(sorted(tools.items()))

    def question(self, example: Example) -> str:
        """The prompt: the question with its options, its document and the call of its program."""
        parts = [example.document if self.kind != "tool" else "", example.question]
        parts.append("\n".join(f"{letter}. {text}" for letter, text in zip(LETTERS, example.choices, strict=False)))
        if self.runs_tests and example.tests[0].call:
            parts.append(f"Its call: {example.tests[0].call}")
        return "\n\n".join(part for part in parts if part)

    def row(self, example: Example) -> dict[str, Any]:
        """An example in the form of the package's data."""
        question, answer = self.question(example), example.answer
        if isinstance(answer, list) and not self.stores_list:
            answer = "\n".join(answer)
        row: dict[str, Any] = {"question": question, "answer": answer}
        if self.kind == "tool":
            row["document"] = "\n\n".join(filter(None, [example.document, question if self.hides_question else ""]))
        if self.runs_tests:
            row["tests"] = [asdict(test) for test in example.tests]
        return row
