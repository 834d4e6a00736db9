"""Runs in the Python that has the prime CLI: calls of the Hub, many at a time, through the CLI's own client.

A start of the CLI takes a second; a thousand of them would take a quarter of an hour. This
starts once. It reads one JSON document from standard input, writes a JSON line per answer, and
only ever reads from the Hub.

    {"check": CALL, "calls": [CALL, …], "concurrency": 32}
    CALL: {"id": "…", "path": "/user/whoami", "params": {…}, "pages": ""}
          {"id": "…", "download": "https://…", "to": "/where/it/goes"}

With `pages`, the name of the parameter that says where a page begins, the whole list is fetched.
A download gets the key only where it is the Hub itself that answers: the CLI would send it to
whatever address the Hub names. `check` goes first; where it fails, no other call is made. An
answer is `{"id", "outcome", "status", "data", "message"}`, where the outcome is ok, missing
(404), refused (401, 403) or failed (all else, after three tries).
"""

import asyncio
import hashlib
import json
import random
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

Answer = dict[str, Any]

SECONDS = 30.0
TRIES = 3
PASSING = (None, 408, 425, 429, 500, 502, 503, 504)
PAGE = 100
MOST_PAGES = 200
LISTS = ("data", "environments", "evaluations")
MOST_BYTES = 1 << 30
DOWNLOAD_SECONDS = 120.0


async def main() -> None:
    wanted = json.load(sys.stdin)
    say({"prime": version("prime")})
    from prime_cli.core.client import AsyncAPIClient

    client = AsyncAPIClient(require_auth=False)
    gate = asyncio.Semaphore(wanted.get("concurrency", 32))
    try:
        check = wanted.get("check")
        if check:
            answer = await answered(client, gate, check)
            say(answer)
            if answer["outcome"] != "ok":
                return
        for done in asyncio.as_completed([answered(client, gate, call) for call in wanted.get("calls", ())]):
            say(await done)
    finally:
        await client.client.aclose()


async def answered(client: Any, gate: asyncio.Semaphore, call: Answer) -> Answer:
    async with gate:
        answer = await once(client, call)
        for attempt in range(1, TRIES):
            if answer["outcome"] != "failed" or answer["status"] not in PASSING:
                break
            await asyncio.sleep(random.uniform(0.2, 0.5) * 2**attempt)
            answer = await once(client, call)
        return answer


async def once(client: Any, call: Answer) -> Answer:
    try:
        if "download" in call:
            data = await download(client, call["download"], call["to"])
        elif call.get("pages"):
            data = await pages(client, call)
        else:
            data = await get(client, call["path"], call.get("params"))
    except Exception as error:
        status = status_of(error)
        outcome = "missing" if status == 404 else "refused" if status in (401, 403) else "failed"
        return {"id": call["id"], "outcome": outcome, "status": status, "data": None, "message": worded(error)}
    return {"id": call["id"], "outcome": "ok", "status": 200, "data": data, "message": ""}


async def get(client: Any, path: str, params: Answer | None) -> Answer:
    answer: Answer = await client.request("GET", path, params=params, timeout=SECONDS)
    return answer


async def download(client: Any, url: str, to: str) -> Answer:
    import httpx

    known = httpx.URL(client.base_url)
    ours = (httpx.URL(url).scheme, httpx.URL(url).netloc) == (known.scheme, known.netloc)
    headers = {"Authorization": f"Bearer {client.api_key}"} if ours and client.api_key else {}
    digest, size = hashlib.sha256(), 0
    limits = httpx.Timeout(SECONDS, read=DOWNLOAD_SECONDS)
    client_of_files = httpx.AsyncClient(follow_redirects=True, timeout=limits)
    async with client_of_files as plain, plain.stream("GET", url, headers=headers) as response:
        response.raise_for_status()
        with Path(to).open("wb") as file:  # noqa: ASYNC230 - one file at a time, and nothing else waits
            async for chunk in response.aiter_bytes():
                size += len(chunk)
                if size > MOST_BYTES:
                    raise ValueError(f"the file is larger than {MOST_BYTES >> 20} MiB")
                digest.update(chunk)
                file.write(chunk)
    return {"sha256": digest.hexdigest(), "bytes": size}


async def pages(client: Any, call: Answer) -> Answer:
    found: list[Any] = []
    params = dict(call.get("params") or {})
    for _ in range(MOST_PAGES):
        page = await get(client, call["path"], {**params, "limit": PAGE, call["pages"]: len(found)})
        items = next((page[key] for key in LISTS if isinstance(page.get(key), list)), None)
        if items is None:
            raise ValueError("the answer holds no list")
        found += items
        total = next((page[key] for key in ("total_count", "total") if isinstance(page.get(key), int)), None)
        if not items or (len(found) >= total if total is not None else len(items) < PAGE):
            return {"items": found}
    raise ValueError(f"the list did not end after {len(found)} entries")


def status_of(error: BaseException | None) -> int | None:
    """The HTTP status behind an error, or None where there was no answer or a broken one."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        response = getattr(error, "response", None)
        if response is not None and hasattr(response, "status_code"):
            return int(response.status_code)
        error = error.__cause__ or error.__context__
    return None


def worded(error: Exception) -> str:
    return (str(error) or type(error).__name__)[:500]


def say(message: Answer) -> None:
    print(json.dumps(message), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
