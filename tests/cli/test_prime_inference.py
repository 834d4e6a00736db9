"""A model of Prime Inference by its name, with nothing but what `prime login` leaves."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from envops.cli.main import parsed
from envops.models.model_evaluation import NoKey, key_of
from envops.models.model_run import DEFAULT_CEILING, RunRefused, ceiling_of, relay_to
from envops.models.prime_inference import endpoint_named

sys.path.append(str(Path(__file__).parents[1] / "validation"))
from fake_provider import KEY, FakeProvider

MODEL = "openai/gpt-5-nano"


@pytest.fixture
def inference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeProvider]:
    for name in ("PRIME_API_KEY", "PRIME_TEAM_ID", "PRIME_INFERENCE_URL", "PRIME_CONTEXT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with FakeProvider(lambda _: "yes") as made:
        made.models = [MODEL]
        made.about = {MODEL: {"pricing": {"input_usd_per_mtok": 0.05, "output_usd_per_mtok": "0.4"}}}
        (tmp_path / ".prime").mkdir()
        login = {"api_key": KEY, "team_id": "team-1", "inference_url": made.url}
        (tmp_path / ".prime" / "config.json").write_text(json.dumps(login))
        yield made


def declare(root: Path, url: str, more: str = "") -> None:
    (root / "configs").mkdir()
    text = f'[[endpoint]]\nendpoint_id = "own"\nmodel = "{MODEL}"\nurl = "{url}"\nkey = "PRIME_API_KEY"\n{more}'
    (root / "configs" / "endpoints.toml").write_text(text)


def test_model_flag_needs_only_prime_login(tmp_path: Path, inference: FakeProvider) -> None:
    options = parsed(["smoke", "any", "--model", MODEL])
    with relay_to(tmp_path, options) as relay:
        assert relay.endpoint.model == MODEL
        assert (relay.endpoint.input_price, relay.endpoint.output_price) == (0.05, 0.4)
        assert relay.ceiling == DEFAULT_CEILING
    assert {one.authorization for one in inference.seen} == {f"Bearer {KEY}"}
    assert {
        value for one in inference.seen for key, value in one.headers.items() if key.lower() == "x-prime-team-id"
    } == {"team-1"}


def test_prices_of_the_file_win(tmp_path: Path, inference: FakeProvider) -> None:
    declare(tmp_path, inference.url, "input_price = 3.0\noutput_price = 9.0\n")
    endpoint = endpoint_named(tmp_path, MODEL)
    assert (endpoint.name, endpoint.input_price, endpoint.output_price) == ("own", 3.0, 9.0)


def test_model_without_price_is_refused_with_missing_keys(tmp_path: Path, inference: FakeProvider) -> None:
    inference.about = {}
    endpoint = endpoint_named(tmp_path, MODEL)
    with pytest.raises(RunRefused, match=r"Add an \[\[endpoint\]\] .* --max-cost none"):
        ceiling_of(parsed(["smoke", "any", "--model", MODEL]), endpoint)
    assert inference.chats == []


def test_login_key_stays_at_prime_inference(tmp_path: Path, inference: FakeProvider) -> None:
    declare(tmp_path, "https://models.example.com/v1")
    with pytest.raises(NoKey, match="prime login"):
        key_of(endpoint_named(tmp_path, MODEL))
    assert inference.seen == []
