"""The policy behind its endpoint: replies over HTTP are found again token by token."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from envwright_learner.rendering import TemplateRenderer
from envwright_learner.serving import LostTurn, PolicyServer, SampledTurns, Sampler, SamplingRequest, Turn, joined
from letters import CHAT, Letters, end

ASKED = [{"role": "user", "content": "Say ab."}]


def sample(requests: Sequence[SamplingRequest]) -> list[tuple[Sequence[int], Sequence[float]]]:
    """`ab` and an end, whatever was heard."""
    tokens = [*Letters()("ab", add_special_tokens=False)["input_ids"], end(CHAT)]
    return [(tokens, (-0.5, -0.25, -0.125)) for _ in requests]


@pytest.fixture
def server() -> Iterator[PolicyServer]:
    with PolicyServer(TemplateRenderer(Letters(), [end(CHAT)]), sample, longest=200) as running:
        yield running


def ask(server: PolicyServer, **body: Any) -> dict[str, Any]:
    data = json.dumps({"model": "policy", "messages": ASKED, **body}).encode()
    request = urllib.request.Request(f"{server.base_url}/chat/completions", data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=10) as response:
        answer: dict[str, Any] = json.loads(response.read())
    return answer


def test_served_reply_is_found_with_tokens_and_logprobs(server: PolicyServer) -> None:
    answer = ask(server)
    message = answer["choices"][0]["message"]
    trajectory = server.spoken.trajectory(ASKED, [message])
    assert message["content"] == "ab"
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert answer["usage"]["completion_tokens"] == 3
    assert trajectory.completion == tuple(sample([SamplingRequest((0,))])[0][0])
    assert trajectory.logprobs == (-0.5, -0.25, -0.125)


def test_served_later_turn_extends_earlier_tokens(server: PolicyServer) -> None:
    first = ask(server)["choices"][0]["message"]
    more = [first, {"role": "user", "content": "Again."}]
    second = ask(server, messages=[*ASKED, *more])["choices"][0]["message"]
    trajectory = server.spoken.trajectory(ASKED, [*more, second])
    assert trajectory.mask[:3] == trajectory.mask[-3:] == (1, 1, 1)
    between = [token for token, mine in zip(trajectory.completion, trajectory.mask, strict=True) if not mine]
    assert Letters().decode(between) == "\n<|im_start|>user\nAgain.<|im_end|>\n<|im_start|>assistant\n"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"messages": [{"role": "user", "content": "x" * 300}]}, "maximum context length is 200"),
        ({"messages": []}, "not empty"),
        ({"stream": True}, "does not stream"),
        ({"n": 2}, "one reply"),
        ({"max_tokens": "many"}, "max_tokens"),
        ({"temperature": -1}, "temperature"),
    ],
)
def test_served_invalid_request_is_refused_with_reason(
    server: PolicyServer, body: dict[str, Any], expected: str
) -> None:
    with pytest.raises(urllib.error.HTTPError) as refused:
        ask(server, **body)
    assert refused.value.code == 400
    assert expected in json.loads(refused.value.read())["error"]["message"]


def test_served_reply_is_cut_at_the_requested_length() -> None:
    requests: list[SamplingRequest] = []

    def recorded(batch: Sequence[SamplingRequest]) -> list[tuple[Sequence[int], Sequence[float]]]:
        requests.extend(batch)
        return sample(batch)

    with PolicyServer(TemplateRenderer(Letters(), [end(CHAT)]), recorded) as server:
        [choice] = ask(server, max_tokens=1, temperature=0.5)["choices"]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("a", "length")
    assert [(request.temperature, request.most) for request in requests] == [(0.5, 1)]


def failing(_: Sequence[SamplingRequest]) -> list[tuple[Sequence[int], Sequence[float]]]:
    raise RuntimeError("out of memory")


REFUSING = f"{{% if 'ab' in messages[0].content %}}{{{{ raise_exception('no letters') }}}}{{% endif %}}{CHAT}"


@pytest.mark.parametrize(
    ("template", "sampler", "status", "error"),
    [(CHAT, failing, 500, "out of memory"), (REFUSING, sample, 400, "no letters")],
)
def test_served_failure_is_kept_with_its_reason(template: str, sampler: Sampler, status: int, error: str) -> None:
    with PolicyServer(TemplateRenderer(Letters(template), [end(CHAT)]), sampler) as server:
        with pytest.raises(urllib.error.HTTPError) as refused:
            ask(server)
        assert refused.value.code == status
        assert error in str(server.refused)


def test_joined_turns_mask_environment_messages() -> None:
    turns = [Turn((1, 2), (5, 6), (-0.1, -0.2)), Turn((1, 2, 5, 6, 9, 9), (7,), (-0.3,))]
    trajectory = joined(turns)
    assert trajectory.prompt == (1, 2)
    assert trajectory.completion == (5, 6, 9, 9, 7)
    assert trajectory.mask == (1, 1, 0, 0, 1)
    assert trajectory.logprobs == (-0.1, -0.2, 0.0, 0.0, -0.3)


def test_joined_turns_of_rewritten_conversation_are_refused() -> None:
    with pytest.raises(LostTurn, match="rewritten"):
        joined([Turn((1, 2), (5, 6), (-0.1, -0.2)), Turn((1, 9), (7,), (-0.3,))])


def reply(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def test_trajectories_that_differ_in_blanks_keep_their_tokens() -> None:
    spoken, bare, spaced = SampledTurns(), Turn((1,), (10,), (-1.0,)), Turn((1,), (9, 10, 11), (-2.0, -2.0, -2.0))
    spoken.add(ASKED, reply("4"), bare)
    spoken.add(ASKED, reply("\n4 "), spaced)
    assert spoken.trajectory(ASKED, [reply("\n4 ")]) == joined([spaced])
    assert spoken.trajectory(ASKED, [reply("4")]) == joined([bare])


def test_trajectories_with_equal_text_are_returned_once_each() -> None:
    spoken, first, second = SampledTurns(), Turn((1,), (2, 3), (-1.0, -1.0)), Turn((1,), (4,), (-2.0,))
    for turn in (first, second):
        spoken.add(ASKED, reply("ab"), turn)
    assert spoken.turn([*ASKED, reply("ab")]) == first
    assert [spoken.trajectory(ASKED, [reply("ab")]) for _ in range(2)] == [joined([first]), joined([second])]
    with pytest.raises(LostTurn, match="'ab' was not sampled there more than 2 times"):
        spoken.trajectory(ASKED, [reply("ab")])


def test_trajectory_takes_the_turn_continued_by_the_later_one() -> None:
    spoken, more = SampledTurns(), {"role": "user", "content": "Again."}
    short, long = Turn((1,), (2, 3), (-1.0, -1.0)), Turn((1,), (4,), (-2.0,))
    behind_short, behind_long = Turn((1, 2, 3, 9), (5,), (-3.0,)), Turn((1, 4, 9), (5,), (-4.0,))
    for text, turn, behind in (("ab", short, behind_short), (" ab", long, behind_long)):
        spoken.add(ASKED, reply(text), turn)
        spoken.add([*ASKED, reply(text), more], reply("c"), behind)
    stripped = [spoken.trajectory(ASKED, [reply("ab"), more, reply("c")]) for _ in range(2)]
    assert stripped == [joined([short, behind_short]), joined([long, behind_long])]
