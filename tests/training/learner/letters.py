"""A tokenizer of letters and marks with a real Jinja chat template: what a renderer needs, without torch."""

from __future__ import annotations

import json
import re
from typing import Any

import jinja2

MARKS = ("<|im_start|>", "<|im_end|>", "[TOOL_CALLS]", "</s>")
CHAT = """\
{%- if tools %}<|im_start|>system
{% for tool in tools %}{{ tool | tojson }}{% endfor %}<|im_end|>
{% endif %}
{%- for message in messages %}<|im_start|>{{ message.role }}
{{ message.content }}
{%- for call in message.tool_calls or [] %}
<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>{% endfor %}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
FORGETFUL = CHAT.replace(
    "{{ message.content }}",
    "{{ message.content.split('</think>')[-1] if message.role == 'assistant' else message.content }}",
)
QWEN_CODER = CHAT.replace(
    """{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}""",
    """<function={{ call.function.name }}>
{% for name, value in call.function.arguments.items() %}<parameter={{ name }}>
{{ value }}
</parameter>
{% endfor %}</function>""",
)
MISTRAL = """\
{%- if tools %}[AVAILABLE_TOOLS]{{ tools | tojson }}[/AVAILABLE_TOOLS]{% endif %}
{%- for message in messages %}
{%- if message.tool_calls %}{{ message.content }}[TOOL_CALLS][{% for call in message.tool_calls %}\
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}, "id": "{{ call.id }}"}\
{% endfor %}]</s>
{%- elif message.role == "assistant" %}{{ message.content }}</s>
{%- else %}[INST]{{ message.content }}[/INST]{% endif %}{% endfor %}"""
LLAMA = """\
{%- if tools %}{% for tool in tools %}{{ tool | tojson }}{% endfor %}{% endif %}
{%- for message in messages %}<|im_start|>{{ message.role }}

{% if message.tool_calls %}{"name": "{{ message.tool_calls[0].function.name }}", \
"parameters": {{ message.tool_calls[0].function.arguments | tojson }}}
{%- else %}{{ message.content }}{% endif %}<|im_end|>{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant

{% endif %}"""


class Letters:
    """One token for each mark, and one for each other character."""

    def __init__(self, template: str = CHAT) -> None:
        self.chat_template = template

    def __call__(self, text: str, *, add_special_tokens: bool = True) -> dict[str, list[int]]:
        assert not add_special_tokens
        pieces = re.findall("|".join(map(re.escape, MARKS)) + "|.", text, re.DOTALL)
        return {"input_ids": [MARKS.index(piece) if piece in MARKS else ord(piece) + len(MARKS) for piece in pieces]}

    def decode(self, tokens: list[int], *, skip_special_tokens: bool = False) -> str:
        kept = [token for token in tokens if not skip_special_tokens or token >= len(MARKS)]
        return "".join(MARKS[token] if token < len(MARKS) else chr(token - len(MARKS)) for token in kept)

    def apply_chat_template(
        self, messages: list[dict[str, Any]], *, tools: Any, add_generation_prompt: bool, tokenize: bool, **given: Any
    ) -> str:
        assert not tokenize
        environment = jinja2.Environment(trim_blocks=False)
        environment.filters["tojson"] = json.dumps
        environment.globals["raise_exception"] = _refuse
        template = environment.from_string(self.chat_template)
        return template.render(messages=messages, tools=tools, add_generation_prompt=add_generation_prompt, **given)


def _refuse(message: str) -> None:
    raise jinja2.TemplateError(message)


def end(template: str) -> int:
    """The token that ends a reply in this template."""
    return MARKS.index("</s>" if "</s>" in template else "<|im_end|>")
