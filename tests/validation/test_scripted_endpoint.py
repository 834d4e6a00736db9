"""The endpoint over HTTP: replies, streams, limits and faults."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from envwright_worker.adapters.adapter import TaskView
from envwright_worker.endpoint.faults import EndpointFaultError, FaultPlan, parse_fault
from envwright_worker.endpoint.server import ScriptedEndpoint, TaskIndex
from envwright_worker.messages import says
from envwright_worker.policies.scripted import AnswerSettings, ScriptedPolicies
from envwright_worker.policies.table import blend_named

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

ASKED = [{"role": "user", "content": "Say one two three."}]
CALLING = [{"role": "user", "content": "Call."}]
BROKEN = [{"role": "user", "content": "Call wrongly."}]
UNKNOWN = [{"role": "user", "content": "Who knows?"}]
CALLS = [{"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}]


def reply_to(task: Mapping[str, Any], messages: Sequence[dict[str, Any]], *_: Any) -> dict[str, Any]:
    if not task:
        raise ValueError("no idea")
    if task.get("tool") and len(messages) == 1:
        return {"role": "assistant", "content": "", "tool_calls": task["tool"]}
    return says(str(task["answer"]))


@pytest.fixture(scope="module")
def served() -> ScriptedEndpoint:
    oracle: Any = SimpleNamespace(derived=False, states_answer=True, reply=reply_to)
    endpoint = ScriptedEndpoint(ScriptedPolicies(oracle, AnswerSettings()))
    endpoint.speak_about(
        [
            TaskView(0, ASKED, {"answer": "one two three"}),
            TaskView(1, CALLING, {"answer": "done", "tool": CALLS}),
            TaskView(2, UNKNOWN, {}),
            TaskView(3, BROKEN, {"tool": [{"id": "c", "function": {"name": "look", "arguments": "at"}}]}),
        ]
    )
    return endpoint


def test_task_of_a_conversation_is_known_by_its_image():
    def seen(url: str, **more: Any) -> list[dict[str, Any]]:
        parts = [{"type": "text", "text": "Who?"}, {"type": "image_url", "image_url": {"url": url}, **more}]
        return [{"role": "user", "content": parts}]

    index = TaskIndex([TaskView(number, seen(url, text=None), {}) for number, url in enumerate("ab")])
    assert [index.find(seen(url)).index for url in "ab"] == [0, 1]


@pytest.fixture
def endpoint(served: ScriptedEndpoint) -> Iterator[ScriptedEndpoint]:
    yield served
    served.faults = FaultPlan()


def post(endpoint: ScriptedEndpoint, path: str = "/chat/completions", **body: Any) -> bytes:
    sent = json.dumps({"model": "oracle", "messages": ASKED, **body}).encode()
    request = urllib.request.Request(endpoint.base_url + path, sent, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return bytes(answer.read())


def reply(endpoint: ScriptedEndpoint, **body: Any) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(post(endpoint, **body))
    return answer


def refused(endpoint: ScriptedEndpoint, **body: Any) -> tuple[int, dict[str, Any], Any]:
    with pytest.raises(urllib.error.HTTPError) as caught:
        post(endpoint, **body)
    return caught.value.code, json.loads(caught.value.read())["error"], caught.value.headers


def events(raw: bytes) -> list[dict[str, Any]]:
    lines = [line.removeprefix(b"data: ") for line in raw.split(b"\n\n") if line]
    assert lines[-1] == b"[DONE]"
    return [json.loads(line) for line in lines[:-1]]


def test_reply_has_usage_and_finish_reason(endpoint: ScriptedEndpoint):
    answer = reply(endpoint)
    assert answer["choices"][0]["message"]["content"] == "one two three"
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert answer["usage"] == {"prompt_tokens": 4, "completion_tokens": 3, "total_tokens": 7}


@pytest.mark.parametrize(
    ("body", "content", "calls", "ends"),
    [
        ({"max_tokens": 2}, "one two", None, "length"),
        ({"max_completion_tokens": 2}, "one two", None, "length"),
        ({"messages": CALLING}, "", CALLS, "tool_calls"),
    ],
)
def test_reply_that_is_cut_off_or_calls_has_its_finish_reason(
    endpoint: ScriptedEndpoint, body: dict[str, Any], content: str, calls: Any, ends: str
):
    (choice,) = reply(endpoint, **body)["choices"]
    message = choice["message"]
    assert (message["content"], message.get("tool_calls"), choice["finish_reason"]) == (content, calls, ends)


def test_stream_adds_up_to_reply(endpoint: ScriptedEndpoint):
    chunks = events(post(endpoint, stream=True, stream_options={"include_usage": True}))
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks if chunk["choices"]]
    assert "".join(delta.get("content", "") for delta in deltas) == "one two three"
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks if chunk["choices"]][-1] == "stop"
    assert chunks[-1]["usage"]["total_tokens"] == 7


def test_stream_carries_tool_calls(endpoint: ScriptedEndpoint):
    chunks = events(post(endpoint, stream=True, messages=CALLING))
    calls = [call for chunk in chunks for call in chunk["choices"][0]["delta"].get("tool_calls", ())]
    assert calls == [{"index": 0, **CALLS[0]}]


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"model": "gpt"}, 404, "model_not_found"),
        ({"model": "blend:gpt=1"}, 404, "model_not_found"),
        ({"model": "blend:oracle=1,nop=1,spread=inf"}, 404, "model_not_found"),
        ({"messages": [{"role": "user", "content": "?"}]}, 404, "task_not_found"),
        ({"n": 0.5}, 400, "invalid_request"),
        ({"max_tokens": -1}, 400, "invalid_request"),
        ({"stream": True, "stream_options": 1}, 400, "invalid_request"),
        ({"messages": [{"content": "?"}]}, 400, "invalid_request"),
        ({"messages": UNKNOWN}, 500, "oracle_raised"),
    ],
)
def test_invalid_request_is_refused(endpoint: ScriptedEndpoint, body: dict[str, Any], status: int, code: str):
    answered, error, _ = refused(endpoint, **body)
    assert (answered, error["code"]) == (status, code)
    assert code in error["message"]


@pytest.mark.parametrize("path", ["/chat/completions", "/messages", "/messages/count_tokens"])
@pytest.mark.parametrize("sent", [b"{", b"[]", b"[" * 100_000], ids=["cut off", "no object", "nested deeply"])
def test_body_that_is_no_object_is_an_invalid_request(endpoint: ScriptedEndpoint, path: str, sent: bytes):
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(urllib.request.Request(endpoint.base_url + path, sent), timeout=10)
    assert (caught.value.code, json.loads(caught.value.read())["error"]["code"]) == (400, "invalid_request")


def test_call_whose_arguments_are_no_json_is_refused_where_the_dialect_has_objects(endpoint: ScriptedEndpoint):
    with pytest.raises(urllib.error.HTTPError) as caught:
        post(endpoint, "/messages", messages=BROKEN)
    assert (caught.value.code, json.loads(caught.value.read())["error"]["code"]) == (400, "invalid_request")


def test_rate_limit_has_retry_after(endpoint: ScriptedEndpoint):
    endpoint.faults = FaultPlan.parse(["429:retry-after=2"])
    status, error, headers = refused(endpoint)
    assert (status, error["type"], headers["Retry-After"]) == (429, "rate_limit_error", "2")


def test_slow_endpoint_delays_each_token(endpoint: ScriptedEndpoint):
    endpoint.faults = FaultPlan.parse(["slow:seconds=0.05,per-token=0.05"])
    started = time.monotonic()
    reply(endpoint)
    assert time.monotonic() - started >= 0.2


@pytest.mark.parametrize(
    ("fault", "requests"),
    [("500:every=2", [1, 3, 5]), ("500:first=2", [0, 1]), ("500:at=1+5", [1, 5]), ("500", [0, 1, 2, 3, 4, 5])],
)
def test_fault_schedule_selects_requests(fault: str, requests: list[int]):
    assert [number for number in range(6) if parse_fault(fault).meets(number)] == requests


@pytest.mark.parametrize("text", ["explode", "429:often=1", "429:share", "500:every=0", "slow:seconds=soon"])
def test_invalid_fault_plan_raises(text: str):
    with pytest.raises(EndpointFaultError):
        parse_fault(text)


def test_blend_follows_its_weights():
    blend = blend_named("blend:oracle=3,near-miss=1")
    drawn = [blend.drawn(task, 0, count) for task in range(200) for count in range(8)]
    assert set(drawn) == {"oracle", "near-miss"}
    assert 0.70 <= drawn.count("oracle") / len(drawn) <= 0.80


def test_blend_skill_varies_by_task_unless_spread_is_zero():
    broad, even = (blend_named(f"blend:oracle=1,nop=1{more}") for more in ("", ",spread=0"))
    assert len({broad.skill(task) for task in range(20)}) == 20
    assert {even.skill(task) for task in range(20)} == {0.5}
