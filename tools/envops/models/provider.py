"""Calls to a real model's endpoint: with the key, within the ceiling, again where that can help.

Nothing in here says the key: whatever an endpoint answers is scrubbed before anyone sees it.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import random
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Literal
from urllib.parse import urlsplit

import aiohttp

from envops.facts.spending import Tokens
from envops.models.spending import Purse, bound_of_prompt
from envops.repository.endpoints import Endpoint
from envops.text.scrubbing import Scrubber

ATTEMPTS = 6
WORTH_ANOTHER_TRY = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529})
PERMANENT = {401: "unauthorised", 403: "unauthorised"}
FIRST_WAIT = 0.5
LONGEST_WAIT = 30.0
LONGEST_RETRY_AFTER = 120.0
LONGEST_ANSWER = 32 * 2**20
MOST_TOKENS = 10**9
"""Of one call; an endpoint that claims more is not believed."""
SHOWN = 400
PRIME_KEY = "PRIME_API_KEY"

Refusal = Literal["unreachable", "unauthorised", "unknown-model", "refused"]


class EndpointRefuses(Exception):
    """No call to this endpoint will be answered; `str` names the endpoint and what it said."""

    def __init__(self, kind: Refusal, message: str) -> None:
        self.kind: Refusal = kind
        super().__init__(message)


@dataclass(frozen=True)
class Answer:
    """What a call came to: a status and an object, in the shape that OpenAI's clients read."""

    status: int
    body: dict[str, Any]

    @property
    def message(self) -> str:
        """What the endpoint says went wrong, in a line."""
        error = self.body.get("error", self.body.get("detail", self.body.get("message", self.body)))
        text = error.get("message") if isinstance(error, dict) else error
        return " ".join(str(text or error).split())[:SHOWN]


def error_answer(status: int, code: str, message: str) -> Answer:
    return Answer(status, {"error": {"message": message, "type": "relay_error", "code": code}})


def sent_body(endpoint: Endpoint, asked: Mapping[str, Any]) -> dict[str, Any]:
    """What is sent on: the endpoint's own model and no more tokens than it was declared with."""
    left_out = {"stream", "stream_options", "max_tokens", "max_completion_tokens"}
    if endpoint.style == "reasoning":
        left_out |= {"temperature", "top_p", "presence_penalty", "frequency_penalty", "logprobs"}
    body = {key: value for key, value in asked.items() if key not in left_out and value is not None}
    most = asked.get("max_completion_tokens") or asked.get("max_tokens")
    limit = min(most, endpoint.max_tokens) if isinstance(most, int) and most > 0 else endpoint.max_tokens
    limited = "max_completion_tokens" if endpoint.style == "reasoning" else "max_tokens"
    return body | {"model": endpoint.model, limited: limit}


def bound_of_call(endpoint: Endpoint, body: Mapping[str, Any]) -> Tokens:
    """What a call may use at most."""
    raw = body.get("messages") or [{"role": "user", "content": body.get("prompt")}]
    choices = body.get("n")
    number = choices if isinstance(choices, int) and choices > 0 else 1
    limit = body.get("max_completion_tokens") or body.get("max_tokens") or endpoint.max_tokens
    return Tokens(bound_of_prompt(raw, body.get("tools")), number * int(limit))


class Provider:
    """One endpoint with its key; use as an asynchronous context manager, in one event loop."""

    def __init__(
        self, endpoint: Endpoint, key: str, purse: Purse, *, attempts: int = ATTEMPTS, seed: int | None = None
    ) -> None:
        self._seed = seed
        self._asked: Counter[str] = Counter()
        self.earlier_rollouts = 0
        """How many rollouts earlier runs of this evaluation wrote down; with another number, seeds are others."""
        self._endpoint = endpoint
        self._key = key
        self._purse = purse
        self._attempts = attempts
        self._gate = asyncio.Semaphore(endpoint.concurrency)
        self._quiet_until = 0.0
        self._jitter = random.Random()
        self.scrubber = Scrubber(key, shapes=False)  # a reply may look like a key and is kept
        self.refusal: EndpointRefuses | None = None
        self.ceiling_reached = False

    async def __aenter__(self) -> Provider:
        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        team = os.environ.get("PRIME_TEAM_ID")
        if team and self._endpoint.key_variable == PRIME_KEY:
            headers["X-Prime-Team-ID"] = team  # who pays, as verifiers and the prime CLI say it
        local = (urlsplit(self._endpoint.url).hostname or "") in ("127.0.0.1", "localhost", "::1")
        self._session = aiohttp.ClientSession(
            headers=headers,
            timeout=aiohttp.ClientTimeout(total=self._endpoint.timeout_s, sock_connect=15),
            connector=aiohttp.TCPConnector(limit=self._endpoint.concurrency + 1),
            trust_env=not local,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    @property
    def name(self) -> str:
        return f"endpoint {self._endpoint.name} ({self.scrubber.text(self._endpoint.url)})"

    async def call(self, path: str, asked: Mapping[str, Any]) -> Answer:
        """Make a call of the environment's, as often as it takes and makes sense."""
        self._purse.count(calls=1)
        body = sent_body(self._endpoint, asked) | self._seeded(asked)
        bound = bound_of_call(self._endpoint, body)
        said = ""
        for attempt in range(self._attempts):
            if self.refusal is not None:
                self._purse.count(refused=1)
                return error_answer(403, f"endpoint_{self.refusal.kind}", str(self.refusal))
            if not await self._set_aside(bound):
                self.ceiling_reached = True
                self._purse.count(refused=1)
                message = f"not asked: this call could take the run above its ceiling of ${self._purse.ceiling:g}"
                return error_answer(402, "cost_ceiling_reached", message)
            if attempt:
                self._purse.count(retries=1)
            answer, wait, said = await self._attempt(path, body, bound)
            if answer is not None:
                return self._final(answer)
            if attempt + 1 < self._attempts:
                await asyncio.sleep(self._wait_before(attempt, wait))
        self._purse.count(failed=1)
        return error_answer(502, "endpoint_unavailable", f"{self.name}: {said}, after {self._attempts} attempts")

    def _seeded(self, asked: Mapping[str, Any]) -> dict[str, int]:
        """The seed of a call: another one each time that a conversation is sent, and the same ones in every run.

        A run that goes on has seeds of its own. What was kept of several conversations at once need not
        be the first of them, so that counting on from their number would ask some seeds twice.
        """
        if self._seed is None:
            return {}
        said = json.dumps([self._seed, asked.get("messages") or asked.get("prompt")], sort_keys=True, default=str)
        conversation = hashlib.sha256(said.encode("utf-8", "replace")).hexdigest()
        self._asked[conversation] += 1
        digest = hashlib.sha256(f"{conversation} {self.earlier_rollouts} {self._asked[conversation]}".encode()).digest()
        return {"seed": int.from_bytes(digest[:4], "big") >> 1}  # fits a signed 32-bit number, which all servers take

    async def _set_aside(self, bound: Tokens) -> bool:
        """Whether the call fits below the ceiling, perhaps once others have used less than they might have."""
        while not self._purse.reserve(bound):
            if not self._purse.is_waiting:
                return False
            await asyncio.sleep(0.05)
        return True

    async def _attempt(
        self, path: str, body: Mapping[str, Any], bound: Tokens
    ) -> tuple[Answer | None, float | None, str]:
        """An answer, or how long the endpoint wants us to wait and what was wrong.

        What may have been worked on without our being told is charged with its upper bound.
        """
        used: Tokens | None = None
        try:
            async with self._gate:
                await asyncio.sleep(max(0.0, self._quiet_until - time.monotonic()))
                used = bound
                status, headers, raw = await self._exchange("POST", path, body)
            answer = self._read(status, raw)
            if status in WORTH_ANOTHER_TRY:
                used = None
                wait = retry_after(headers.get("Retry-After"), datetime.now(UTC))
                if status == 429 and wait:
                    self._quiet_until = max(self._quiet_until, time.monotonic() + wait)
                return None, wait, f"answered {status}: {answer.message if answer else self._shown(raw)}"
            if answer is None or (status == 200 and not isinstance(answer.body.get("choices"), list)):
                self._purse.count(unmeasured=1)
            if answer is None:
                return None, None, f"answered {status} with something that is not a JSON object: {self._shown(raw)}"
            if status == 200 and not isinstance(answer.body.get("choices"), list):
                return None, None, f"answered without choices: {answer.message}"
            used = used_by(answer.body) if status == 200 else Tokens()
            if used is None:
                used = bound
                self._purse.count(unmeasured=1)
            return answer, None, ""
        except aiohttp.ClientConnectorError as error:
            used = None
            return None, None, f"cannot be reached: {self._said(error)}"
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            self._purse.count(unmeasured=1)
            return None, None, f"broke off: {self._said(error)}"
        finally:
            self._purse.settle(bound, used)

    async def _exchange(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, seconds: float | None = None
    ) -> tuple[int, Mapping[str, str], bytes]:
        options: dict[str, Any] = {"timeout": aiohttp.ClientTimeout(total=seconds)} if seconds else {}
        address = f"{self._endpoint.url}/{path}"
        async with self._session.request(method, address, json=body, allow_redirects=False, **options) as response:
            raw = await response.content.read(LONGEST_ANSWER + 1)
            while not response.content.at_eof() and len(raw) <= LONGEST_ANSWER:
                raw += await response.content.read(LONGEST_ANSWER + 1 - len(raw))
            if len(raw) > LONGEST_ANSWER:
                raise aiohttp.ClientPayloadError(f"an answer of over {LONGEST_ANSWER >> 20} MiB")
            return response.status, response.headers, raw

    def _read(self, status: int, raw: bytes) -> Answer | None:
        try:
            body = self.scrubber.value(json.loads(raw))
        except (ValueError, RecursionError):
            return None
        return Answer(status, body) if isinstance(body, dict) else None

    def _final(self, answer: Answer) -> Answer:
        """An answer for the environment; after some of them there is no use in asking again."""
        if answer.status == 200:
            self._purse.count(answered=1)
            return answer
        self._purse.count(failed=1)
        kind = refusal_in(answer)
        if kind:
            self.refusal = EndpointRefuses(kind, f"{self.name} answered {answer.status}: {answer.message}")
        return answer

    def _wait_before(self, attempt: int, wanted: float | None) -> float:
        """Exponential backoff with full jitter, and never sooner than the endpoint asks.

        Source: M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
        """
        most = min(LONGEST_WAIT, FIRST_WAIT * 2**attempt)
        return (wanted or 0.0) + self._jitter.uniform(0.0, most)

    def _shown(self, raw: bytes) -> str:
        return repr(self.scrubber.text(raw[:4_000].decode("utf-8", "replace"))[:120])

    def _said(self, error: BaseException) -> str:
        return self.scrubber.text(f"{type(error).__name__} {error}".strip())[:SHOWN]

    async def check(self) -> None:
        """Find out cheaply whether calls will be answered at all.

        The list of models costs nothing; where it does not name the model, a call of one
        token decides. Raises `EndpointRefuses`.
        """
        status, listed = await self._checked("GET", "models", None)
        if listed is not None and status == 200:
            offered = [str(one.get("id")) for one in listed.body.get("data") or [] if isinstance(one, dict)]
            if self._endpoint.model in offered:
                return
        body = sent_body(self._endpoint, {"messages": [{"role": "user", "content": "."}], "max_tokens": 1})
        bound = bound_of_call(self._endpoint, body)
        if not self._purse.reserve(bound):
            return  # not even a token may be spent: the run itself will say so
        used: Tokens | None = bound
        try:
            status, answer = await self._checked("POST", "chat/completions", body)
            used = Tokens() if status != 200 else (used_by(answer.body) if answer else None) or bound
        finally:
            self._purse.settle(bound, used)
        if status >= 400 and status not in WORTH_ANOTHER_TRY and not (answer and "max_tokens" in answer.message):
            said = answer.message if answer else "nothing that can be read"
            raise EndpointRefuses("refused", f"{self.name} answered {status}: {said}")

    async def _checked(self, method: str, path: str, body: Mapping[str, Any] | None) -> tuple[int, Answer | None]:
        for attempt in range(3):
            try:
                status, _, raw = await self._exchange(method, path, body, seconds=30)
                break
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                if attempt == 2:
                    message = f"{self.name} cannot be reached: {self._said(error)}"
                    raise EndpointRefuses("unreachable", message) from None
                await asyncio.sleep(self._wait_before(attempt, None))
        answer = self._read(status, raw)
        if 300 <= status < 400:
            raise EndpointRefuses("refused", f"{self.name} answered {status}, a redirection: give the address itself")
        kind = refusal_in(answer or Answer(status, {})) if method == "POST" or status in PERMANENT else None
        if kind:
            said = answer.message if answer else self._shown(raw)
            raise EndpointRefuses(kind, f"{self.name} answered {status}: {said}")
        return status, answer


def refusal_in(answer: Answer) -> Refusal | None:
    """Whether an answer means that all further ones will be the same."""
    if answer.status in (401, 403):
        return "unauthorised"
    error = answer.body.get("error")
    code = str(error.get("code") or error.get("type") or "") if isinstance(error, dict) else ""
    if answer.status == 404 or (answer.status == 400 and ("model_not_found" in code or "invalid_model" in code)):
        return "unknown-model"
    return "refused" if answer.status == 402 else None


def used_by(body: Mapping[str, Any]) -> Tokens | None:
    """The tokens that an answer says it took, `None` where it does not say."""
    usage = body.get("usage")
    if not isinstance(usage, Mapping):
        return None
    numbers = [usage.get("prompt_tokens"), usage.get("completion_tokens", 0)]
    if any(type(number) is not int or not 0 <= number <= MOST_TOKENS for number in numbers):
        return None
    return Tokens(*numbers)


def retry_after(header: str | None, now: datetime) -> float | None:
    """Seconds that a Retry-After header asks for, given as a number or as a date (RFC 9110, 10.2.3)."""
    if not header:
        return None
    try:
        seconds = float(header)
    except ValueError:
        try:
            seconds = (parsedate_to_datetime(header) - now).total_seconds()
        except (ValueError, TypeError):
            return None
    return min(max(seconds, 0.0), LONGEST_RETRY_AFTER) if seconds == seconds else None
