"""The endpoint, called by the clients of other dialects that both generations ship."""

from __future__ import annotations

import json
import subprocess
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from envwright.builds.venv import venv_for
from envwright.system.workspace import Workspace
from envwright_worker.adapters.adapter import TaskView
from envwright_worker.endpoint.server import ScriptedEndpoint
from envwright_worker.messages import says
from envwright_worker.policies.scripted import AnswerSettings, ScriptedPolicies

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

pytestmark = [pytest.mark.slow, pytest.mark.worker, pytest.mark.usefixtures("shared_templates")]
REPOSITORY = Path(__file__).parents[2]
CALLS = [{"id": "call_1", "type": "function", "function": {"name": "look", "arguments": '{"at": "the moon"}'}}]
OPENAI = """
import asyncio, json, sys
from openai import AsyncOpenAI

async def main():
    client = AsyncOpenAI(base_url=sys.argv[1], api_key="none", max_retries=0)
    asked = {"model": "oracle", "instructions": "Be brief.", "max_output_tokens": 50}
    first = await client.responses.create(input="Look up.", **asked)
    call = first.output[0]
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "cheese"}
    conversation = [{"role": "user", "content": "Look up."}, call.model_dump(), result]
    async with client.responses.stream(input=conversation, **asked) as stream:
        second = await stream.get_final_response()
    short = await client.responses.create(input=conversation, **{**asked, "max_output_tokens": 1})
    print(json.dumps({
        "called": [call.name, json.loads(call.arguments)], "content": second.output_text,
        "usage": second.usage.output_tokens, "ends": [first.status, second.status, short.status],
    }))

asyncio.run(main())
"""
ANTHROPIC = """
import asyncio, json, sys
from anthropic import AsyncAnthropic

async def main():
    client = AsyncAnthropic(base_url=sys.argv[1], api_key="none", max_retries=0)
    tools = [{"name": "look", "description": "Look.", "input_schema": {"type": "object", "properties": {}}}]
    conversation = [{"role": "user", "content": "Look up."}]
    asked = {"model": "oracle", "max_tokens": 50, "system": "Be brief.", "tools": tools}
    first = await client.messages.create(messages=conversation, **asked)
    call = first.content[0]
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "cheese"}
    conversation += [{"role": "assistant", "content": first.content}, {"role": "user", "content": [result]}]
    async with client.messages.stream(messages=conversation, **asked) as stream:
        second = await stream.get_final_message()
    short = await client.messages.create(messages=conversation, **{**asked, "max_tokens": 1})
    counted = await client.messages.count_tokens(model="oracle", messages=conversation[:1])
    print(json.dumps({
        "called": [call.name, call.input], "content": second.content[0].text, "usage": second.usage.output_tokens,
        "ends": [first.stop_reason, second.stop_reason, short.stop_reason], "counted": counted.input_tokens,
    }))

asyncio.run(main())
"""


def reply_to(_task: Mapping[str, Any], messages: Sequence[dict[str, Any]], *_: Any) -> dict[str, Any]:
    seen = next((message["content"] for message in messages if message["role"] == "tool"), None)
    return says(f"It is {seen} indeed") if seen else {"role": "assistant", "content": "", "tool_calls": CALLS}


@pytest.fixture(scope="module")
def endpoint() -> ScriptedEndpoint:
    oracle: Any = SimpleNamespace(derived=False, states_answer=True, reply=reply_to)
    made = ScriptedEndpoint(ScriptedPolicies(oracle, AnswerSettings()))
    system = {"role": "system", "content": "Be brief."}
    made.speak_about([TaskView(0, [system, {"role": "user", "content": "Look up."}], {})])
    return made


def said_to(endpoint: ScriptedEndpoint, program: str) -> Any:
    """What a program prints that uses a client of the lock of v0."""
    lock = REPOSITORY / "environments" / "date_arithmetic" / "requirements.lock"
    venv = venv_for(lock, Workspace(REPOSITORY), threading.Event())
    arguments = [str(venv.python), "-c", program, endpoint.base_url]
    ran = subprocess.run(arguments, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr[-3000:]
    return json.loads(ran.stdout.splitlines()[-1])


def test_anthropic_client_reads_replies_tools_and_streams(endpoint: ScriptedEndpoint) -> None:
    """Not through the client of verifiers 0.3.1: it does not fit the release of anthropic that it asks for."""
    found = said_to(endpoint, ANTHROPIC)
    assert found["called"] == ["look", {"at": "the moon"}]
    assert found["content"] == "It is cheese indeed"
    assert found["ends"] == ["tool_use", "end_turn", "max_tokens"]
    assert (found["usage"], found["counted"]) == (4, 2)


def test_responses_client_reads_replies_tools_and_streams(endpoint: ScriptedEndpoint) -> None:
    found = said_to(endpoint, OPENAI)
    assert found["called"] == ["look", {"at": "the moon"}]
    assert found["content"] == "It is cheese indeed"
    assert found["ends"] == ["completed", "completed", "incomplete"]
    assert found["usage"] == 4
