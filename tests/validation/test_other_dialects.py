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
V0 = """
import asyncio, json, os, sys
from verifiers.clients import resolve_client
from verifiers.types import ClientConfig, SystemMessage, Tool, ToolMessage, UserMessage
base, kind = sys.argv[1:]
os.environ["KEY"] = "none"

async def main():
    client = resolve_client(ClientConfig(api_base_url=base, api_key_var="KEY", client_type=kind))
    tools = [Tool(name="look", description="Look.", parameters={"type": "object", "properties": {}})]
    conversation = [SystemMessage(content="Be brief."), UserMessage(content="Look up.")]
    first = await client.get_response(conversation, "oracle", {"max_tokens": 50}, tools)
    call = first.message.tool_calls[0]
    conversation += [first.message, ToolMessage(tool_call_id=call.id, content="cheese")]
    second = await client.get_response(conversation, "oracle", {"max_tokens": 50}, tools)
    short = await client.get_response(conversation, "oracle", {"max_tokens": 1}, tools)
    await client.close()
    print(json.dumps({
        "called": [call.name, json.loads(call.arguments)], "content": second.message.content,
        "usage": second.usage.completion_tokens, "finish": second.message.finish_reason,
        "truncated": [second.message.is_truncated, short.message.is_truncated],
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
V1 = """
import asyncio, json, os, sys
from verifiers.v1 import EvalClientConfig
from verifiers.v1.clients.eval import EvalClient
from verifiers.v1.dialects import AnthropicDialect, ResponsesDialect
from verifiers.v1.types import SamplingConfig
base, kind = sys.argv[1:]
os.environ["KEY"] = "none"
dialect = AnthropicDialect() if kind == "anthropic_messages" else ResponsesDialect()
body = {"model": "oracle", "max_tokens": 50, "system": "Be brief.", "messages": [{"role": "user", "content": "Say."}]}
if kind != "anthropic_messages":
    body = {"model": "oracle", "instructions": "Be brief.", "input": "Say."}

async def main():
    client = EvalClient(EvalClientConfig(base_url=base, api_key_var="KEY"))
    whole = await client.get_response(dialect, body, SamplingConfig())
    parser = dialect.stream_parser()
    import httpx
    async with httpx.AsyncClient() as http:
        path = "/messages" if kind == "anthropic_messages" else "/responses"
        async with http.stream("POST", base + path, json=body | {"stream": True}) as stream:
            rest = b""
            async for chunk in stream.aiter_raw():
                rest += chunk
            for event in rest.split(b"\\n\\n"):
                if event:
                    parser.feed(event + b"\\n\\n")
    streamed = parser.finish()
    print(json.dumps([
        {"content": one.message.content, "finish": one.finish_reason, "usage": one.usage.completion_tokens}
        for one in (whole, streamed)
    ]))

asyncio.run(main())
"""


def reply_to(task: Mapping[str, Any], messages: Sequence[dict[str, Any]], *_: Any) -> dict[str, Any]:
    seen = next((message["content"] for message in messages if message["role"] == "tool"), None)
    if task["answer"] == "look" and seen is None:
        return {"role": "assistant", "content": "", "tool_calls": CALLS}
    return says(f"It is {seen or task['answer']} indeed")


@pytest.fixture(scope="module")
def endpoint() -> ScriptedEndpoint:
    oracle: Any = SimpleNamespace(derived=False, states_answer=True, reply=reply_to)
    made = ScriptedEndpoint(ScriptedPolicies(oracle, AnswerSettings()))
    system = {"role": "system", "content": "Be brief."}
    asked = [[system, {"role": "user", "content": text}] for text in ("Look up.", "Say.")]
    made.speak_about([TaskView(0, asked[0], {"answer": "look"}), TaskView(1, asked[1], {"answer": "blue"})])
    return made


def spoken(generation: str, program: str, endpoint: ScriptedEndpoint, kind: str) -> Any:
    lock = REPOSITORY / "environments" / {"v0": "date_arithmetic", "v1": "word_problems"}[generation]
    venv = venv_for(lock / "requirements.lock", Workspace(REPOSITORY), threading.Event())
    arguments = [str(venv.python), "-c", program, endpoint.base_url, kind]
    ran = subprocess.run(arguments, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr[-3000:]
    return json.loads(ran.stdout.splitlines()[-1])


def test_anthropic_client_reads_replies_tools_and_streams(endpoint: ScriptedEndpoint) -> None:
    """Not through the client of verifiers 0.3.1: it does not fit the release of anthropic that it asks for."""
    found = spoken("v0", ANTHROPIC, endpoint, "")
    assert found["called"] == ["look", {"at": "the moon"}]
    assert found["content"] == "It is cheese indeed"
    assert found["ends"] == ["tool_use", "end_turn", "max_tokens"]
    assert (found["usage"], found["counted"]) == (4, 2)


def test_responses_client_reads_replies_and_tools(endpoint: ScriptedEndpoint) -> None:
    found = spoken("v0", V0, endpoint, "openai_responses")
    assert found["called"] == ["look", {"at": "the moon"}]
    assert found["content"] == "It is cheese indeed"
    assert found["usage"] == 4
    assert found["finish"] == "stop"
    assert found["truncated"] == [False, True]


@pytest.mark.parametrize("kind", ["anthropic_messages", "openai_responses"])
def test_v1_relay_reads_replies_and_streams(endpoint: ScriptedEndpoint, kind: str) -> None:
    found = spoken("v1", V1, endpoint, kind)
    assert found == [{"content": "It is blue indeed", "finish": "stop", "usage": 4}] * 2
