"""Between messages and tokens: what a policy hears, and what the tokens that it samples say.

A conversation of several turns stays one sequence of tokens: what was sampled is kept as it was
sampled, and only what came behind it is rendered. Rendering all of it again would split the
same text into other tokens, and templates that drop the thinking of earlier turns would
change what the policy is said to have said.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from envops_worker.messages import text_of

from envops.training.learner.conversations import Message
from envops.training.learner.tool_calls import CallFormat, format_of

SILENCE = " "
"""Saying nothing, over HTTP: verifiers 0.1.14 and later call a truly empty message an error."""
SAID = "ENVOPSREPLYENVOPS"
"""Stands for a reply whose tokens are known, to see what a template writes behind it."""
Tools = Sequence[Mapping[str, Any]]


class UnfitTemplate(ValueError):
    """The chat template cannot carry this environment's conversations; the message says why."""


class Renderer(Protocol):
    """Messages to tokens and back."""

    def heard(self, messages: Sequence[Message], tools: Tools) -> list[int]:
        """A conversation of which nothing was sampled here, up to where the policy speaks."""

    def heard_after(self, messages: Sequence[Message], place: int, tools: Tools, said: Sequence[int]) -> list[int]:
        """What comes behind the reply at `place`, which was sampled as `said`, up to where the policy speaks."""

    def reply(self, said: Sequence[int]) -> dict[str, Any]:
        """The message that sampled tokens stand for."""

    def ended(self, said: Sequence[int]) -> bool:
        """Whether the policy ended the reply itself."""


class TemplateRenderer:
    """A tokenizer and its chat template.

    `ends` are the tokens that end a reply. Raises `UnfitTemplate` where there is no template, or none of the ends
    closes a reply in it.
    """

    def __init__(self, tokenizer: Any, ends: Sequence[int], settings: Mapping[str, Any] | None = None) -> None:
        if not tokenizer.chat_template:
            raise UnfitTemplate("the tokenizer has no chat template: an instruct model has one")
        self._tokenizer = tokenizer
        self._ends = frozenset(ends)
        self._closings = tuple(tokenizer.decode([end], skip_special_tokens=False) for end in ends)
        self._settings = dict(settings or {})
        self._format: CallFormat | None = None
        self._calls = 0
        self._behind([{"role": "user", "content": "."}, {"role": "assistant", "content": "."}], 1, ())

    def knows_tools(self) -> None:
        """Make sure that the template shows tools and writes calls in a form that can be read.

        Raises `UnfitTemplate`.
        """
        self._format = self._format or format_of(self._text)
        if self._format is None:
            raise UnfitTemplate(
                "the chat template shows no tools, or writes calls in a form that is not read here "
                "(read are those of Hermes and Qwen, Qwen Coder, Mistral and Llama 3)"
            )

    def heard(self, messages: Sequence[Message], tools: Tools) -> list[int]:
        if tools:
            self.knows_tools()
        return self._tokens(self._text(_for_template(messages), tools))

    def heard_after(self, messages: Sequence[Message], place: int, tools: Tools, said: Sequence[int]) -> list[int]:
        closing, rest = self._behind(messages, place, tools)
        return self._tokens(rest if self.ended(said) else closing + rest)

    def reply(self, said: Sequence[int]) -> dict[str, Any]:
        kept = [token for token in said if token not in self._ends]
        if self._format is not None:
            # With special tokens: `[TOOL_CALLS]` is one, and `<tool_call>` for some.
            content, calls = self._format.read(self._tokenizer.decode(kept, skip_special_tokens=False))
            if calls:
                return {"role": "assistant", "content": content, "tool_calls": [self._call(*call) for call in calls]}
        return {"role": "assistant", "content": self._tokenizer.decode(kept, skip_special_tokens=True) or SILENCE}

    def ended(self, said: Sequence[int]) -> bool:
        return bool(said) and said[-1] in self._ends

    def _call(self, name: str, arguments: Any) -> dict[str, Any]:
        self._calls += 1  # nine letters and digits, which is what Mistral's template insists on
        function = {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)}
        return {"id": f"c{self._calls:08d}", "type": "function", "function": function}

    def _behind(self, messages: Sequence[Message], place: int, tools: Tools) -> tuple[str, str]:
        """What closes the reply at `place`, and what the template writes behind that."""
        stand_in = {**messages[place], "content": SAID}
        text = self._text(_for_template([*messages[:place], stand_in, *messages[place + 1 :]]), tools)
        _, found, behind = text.rpartition(SAID)
        places = [(behind.find(closing), closing) for closing in self._closings if closing and closing in behind]
        if not found or not places:
            raise UnfitTemplate(f"the chat template closes a reply with none of {', '.join(self._closings)}")
        first, closing = min(places)
        return closing, behind[first + len(closing) :]

    def _text(self, messages: Sequence[Message], tools: Tools) -> str:
        try:
            text: str = self._tokenizer.apply_chat_template(
                list(messages), tools=list(tools) or None, add_generation_prompt=True, tokenize=False, **self._settings
            )
        except Exception as error:  # whatever a template raises is its way of saying no
            raise UnfitTemplate(f"the chat template refuses this conversation: {error}") from error
        return text

    def _tokens(self, text: str) -> list[int]:
        return list(self._tokenizer(text, add_special_tokens=False)["input_ids"])


def _for_template(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Messages as templates expect them: texts, and arguments of calls as objects."""
    return [_plain(message) for message in messages]


def _plain(message: Message) -> dict[str, Any]:
    kept = {key: message[key] for key in ("role", "tool_call_id", "name") if message.get(key) is not None}
    plain = kept | {"content": text_of(message)}
    if calls := message.get("tool_calls"):
        plain["tool_calls"] = [
            {**call, "function": {**call["function"], "arguments": _object(call["function"].get("arguments"))}}
            for call in calls
        ]
    return plain


def _object(arguments: Any) -> Any:
    try:
        return json.loads(arguments or "{}") if isinstance(arguments, str | None) else arguments
    except ValueError:
        return {}
