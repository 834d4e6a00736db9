"""Training runs: preparing, submitting, and what can be read about them afterwards."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from envops.emulator.accounts import signed_in, team_id, writer
from envops.emulator.endpoints import ASSUMED, MEASURED, READ, Asked, Refused, Reply, endpoint, now
from envops.emulator.hub import without_secrets

if TYPE_CHECKING:
    from envops.emulator.hub import Hub
    from envops.emulator.store import Document

ENDED = ("COMPLETED", "FAILED", "STOPPED")
GPU = "H200_141GB"
DOLLARS_PER_GPU_HOUR = 3.5


@endpoint("POST", "/training/runs/prepare", READ, "prepare: missing answers 404, which the CLI skips as well")
def prepare(hub: Hub, asked: Asked) -> Reply:
    """Say which prime-rl a config would be checked with; here no config is, and the CLI goes on without."""
    signed_in(asked)
    if hub.behaviour.prepare == "missing":
        raise Refused(404, "Not Found")
    commit, digest = hashlib.sha1(b"emulated").hexdigest(), f"sha256:{hashlib.sha256(b'emulated').hexdigest()}"
    runtime = {"repository": "ghcr.io/primeintellect-ai/prime-rl", "digest": digest}
    runtime |= {"image_commit": commit, "source_commit": commit, "schema_commit": commit}
    return Reply(
        {
            "contract_version": 1,
            "mode": asked.body.get("mode") or "rl",
            "runtime": runtime,
            "schema_install": {"python": "3.12", "requirements": [], "constraints": []},
            "submission_supported": False,
        }
    )


@endpoint(
    "POST",
    "/training/runs",
    MEASURED,
    "run_names: whether two runs may have one name (--assume run-names=unique)",
    "a config that is no table, or is without a model, is refused with 422; nothing else of it is looked at",
    "a new run is QUEUED and stays so until the control endpoint says otherwise",
)
def create(hub: Hub, asked: Asked) -> Reply:
    """Submit a training run."""
    account = writer(asked)
    config = asked.body.get("config")
    if not isinstance(config, dict) or not config:
        raise Refused(422, [{"loc": ["body", "config"], "msg": "Input should be a valid dictionary"}])
    team = account.team_of(str(asked.body["teamId"])) if asked.body.get("teamId") else None
    name = asked.body.get("name") or config.get("name")
    taken = name and hub.behaviour.run_names == "unique" and any(run["name"] == name for run in hub.store.all("run"))
    if taken:
        raise Refused(409, f"A run named '{name}' already exists")
    run: Document = {
        "id": asked.named("run"),
        "name": name,
        "userId": account.id,
        "teamId": team and team_id(team),
        "status": "QUEUED",
        "kind": "DEDICATED_FULL_FT",
        "maxSteps": config.get("max_steps"),
        "baseModel": _model(config),
        "environments": [],
        "createdAt": now(),
        "updatedAt": now(),
    }
    hub.store.put("run", run["id"], run)
    hub.store.put("submitted", run["id"], without_secrets(asked.body))
    price = {"onDemand": False, "gpuType": asked.body.get("gpuType") or GPU, "pricePerGpuHour": DOLLARS_PER_GPU_HOUR}
    token = hashlib.sha256(f"token {asked.number}".encode()).hexdigest()
    return Reply({"runId": run["id"], "tokenValue": f"emulated-{token}", **price, "isBeta": False}, 201)


@endpoint(
    "GET",
    "/rft/runs",
    MEASURED,
    "paging: an older server ignores pages and sends no total (--assume paging=ignored)",
    "page_limit: a page may be shorter than asked for",
)
def listed(hub: Hub, asked: Asked) -> Reply:
    """Runs of the user or of a team, newest first, page by page."""
    account = signed_in(asked)
    team = asked.query.get("team_id")
    wanted = team_id(account.team_of(team)) if team else None
    shown = [run for run in reversed(hub.store.all("run")) if run["teamId"] == wanted and _may(account.id, run, asked)]
    if hub.behaviour.paging == "ignored":
        return Reply({"runs": shown})
    page, limit = max(1, asked.number_of("page", 1)), asked.number_of("limit", 20, hub.behaviour.page_limit) or 1
    part = shown[(page - 1) * limit : page * limit]
    pages = -(-len(shown) // limit)
    return Reply({"runs": part, "total": len(shown), "page": page, "limit": limit, "total_pages": pages})


@endpoint("GET", "/rft/runs/{run}", MEASURED)
def get(hub: Hub, asked: Asked) -> Reply:
    """One run."""
    return Reply({"run": _run(hub, asked)})


@endpoint("PUT", "/rft/runs/{run}/stop", MEASURED, "a run that has ended is refused with 400")
def stop(hub: Hub, asked: Asked) -> Reply:
    """Stop a run."""
    run = _run(hub, asked)
    writer(asked)
    if run["status"] in ENDED:
        raise Refused(400, f"Run is already {run['status']}")
    return _moved(hub, run, "STOPPED")


@endpoint("PUT", "/rft/runs/{run}/restart", READ, "only a running run can be restarted (400)")
def restart(hub: Hub, asked: Asked) -> Reply:
    """Start a run again from its latest checkpoint."""
    run = _run(hub, asked)
    writer(asked)
    if run["status"] != "RUNNING":
        raise Refused(400, f"Run is {run['status']}")
    return _moved(hub, run, "RUNNING")


@endpoint("POST", "/training/runs/{run}/pause", READ)
def pause(hub: Hub, asked: Asked) -> Reply:
    """Pause a run."""
    run = _run(hub, asked)
    writer(asked)
    return _moved(hub, run, "PAUSED")


@endpoint("POST", "/training/runs/{run}/resume", READ, "the run that goes on is a new one")
def resume(hub: Hub, asked: Asked) -> Reply:
    """Go on with a paused run."""
    run = _run(hub, asked)
    writer(asked)
    if run["status"] != "PAUSED":
        raise Refused(400, f"Run is {run['status']}")
    again = {**run, "id": asked.named("run"), "status": "QUEUED", "createdAt": now(), "updatedAt": now()}
    hub.store.put("run", again["id"], again)
    return Reply({"runId": again["id"], "tokenValue": f"emulated-{again['id']}"}, 201)


@endpoint("DELETE", "/training/runs/{run}", READ)
def delete(hub: Hub, asked: Asked) -> Reply:
    """Delete a run."""
    run = _run(hub, asked)
    writer(asked)
    hub.store.delete("run", run["id"])
    return Reply({"runId": run["id"], "deleted": True})


@endpoint("DELETE", "/rft/runs/{run}", READ)
def delete_shared(hub: Hub, asked: Asked) -> Reply:
    """Delete a run, the older way."""
    return delete(hub, asked)


@endpoint("GET", "/rft/runs/{run}/logs", MEASURED, "a run that is queued has none")
def logs(hub: Hub, asked: Asked) -> Reply:
    """The last lines of a component's log."""
    text = str(_told(hub, asked, "logs", ""))
    lines = [line for line in text.split("\n") if asked.query.get("search", "") in line]
    return Reply({"logs": "\n".join(lines[-asked.number_of("tail_lines", 1000) :])})


@endpoint("GET", "/rft/runs/{run}/metrics", MEASURED)
def metrics(hub: Hub, asked: Asked) -> Reply:
    """Metrics step by step."""
    rows = _told(hub, asked, "metrics", [])
    lowest, highest = asked.number_of("min_step", 0), asked.number_of("max_step", 1 << 40)
    found = [row for row in rows if lowest <= row.get("step", 0) <= highest]
    return Reply({"metrics": found[: asked.number_of("limit", len(found))]})


@endpoint("GET", "/rft/runs/{run}/progress", MEASURED)
def progress(hub: Hub, asked: Asked) -> Reply:
    """How far a run is."""
    steps = [row["step"] for row in _told(hub, asked, "metrics", []) if "step" in row]
    latest: Document = {"latestStep": max(steps, default=None), "stepsWithSamples": [], "stepsWithDistributions": []}
    return Reply({**latest, "lastUpdatedAt": _run(hub, asked)["updatedAt"], **_told(hub, asked, "progress", {})})


@endpoint("GET", "/rft/runs/{run}/distributions", MEASURED)
def distributions(hub: Hub, asked: Asked) -> Reply:
    """The distribution of rewards or advantages at a step."""
    kind, step = asked.query.get("type", "rewards"), asked.query.get("step")
    for found in _told(hub, asked, "distributions", []):
        if found.get("type", "rewards") == kind and step in (None, str(found.get("step"))):
            return Reply(found)
    return Reply({"bins": [], "step": None})


@endpoint("GET", "/rft/runs/{run}/samples", MEASURED)
def samples(hub: Hub, asked: Asked) -> Reply:
    """Rollouts of a step."""
    step = asked.query.get("step")
    rows = [row for row in _told(hub, asked, "samples", []) if step in (None, str(row.get("step")))]
    page, limit = max(1, asked.number_of("page", 1)), max(1, asked.number_of("limit", 100))
    part = rows[(page - 1) * limit : page * limit]
    counted = {"total": len(rows), "page": page, "limit": limit, "total_pages": -(-len(rows) // limit)}
    return Reply({"run_id": asked.parts["run"], "samples": part, **counted})


@endpoint("GET", "/rft/runs/{run}/checkpoints", MEASURED)
def checkpoints(hub: Hub, asked: Asked) -> Reply:
    """A run's checkpoints."""
    return Reply({"checkpoints": _told(hub, asked, "checkpoints", [])})


@endpoint("GET", "/rft/runs/{run}/env-servers", MEASURED)
def env_servers(hub: Hub, asked: Asked) -> Reply:
    """A run's environment servers."""
    return Reply({"env_servers": _told(hub, asked, "env_servers", [])})


@endpoint("GET", "/rft/runs/{run}/env-server-logs", READ)
def env_server_logs(hub: Hub, asked: Asked) -> Reply:
    """The log of an environment server."""
    return Reply({"logs": _told(hub, asked, "env_server_logs", "")})


@endpoint("GET", "/billing/runs/{run}/usage", READ)
def usage(hub: Hub, asked: Asked) -> Reply:
    """What a run has used and cost."""
    run = _run(hub, asked)
    nothing = {"tokens": 0, "input_tokens": 0, "output_tokens": 0, "cost_usd": 0.0}
    found = {"run_id": run["id"], "run_name": run["name"], "status": run["status"], "base_model": run["baseModel"]}
    found |= {"training": nothing, "inference": nothing, "pricing": {}, "total_tokens": 0, "total_cost_usd": 0.0}
    return Reply({**found, "record_count": 0, **_told(hub, asked, "usage", {})})


@endpoint("GET", "/training/available-gpu-types", READ)
def gpu_types(_hub: Hub, asked: Asked) -> Reply:
    """GPU types that runs can have."""
    signed_in(asked)
    return Reply({"gpuTypes": [GPU]})


@endpoint("GET", "/training/available-fft-models", READ, "any model may be trained; this list is a hint")
def models(_hub: Hub, asked: Asked) -> Reply:
    """Models that are at hand."""
    signed_in(asked)
    offer = {"gpuType": GPU, "pricePerGpuHour": DOLLARS_PER_GPU_HOUR, "availableNow": True, "isBeta": False}
    return Reply({"models": [], "onDemand": [offer], "onDemandBetaAccess": True})


@endpoint("GET", "/training/volumes", ASSUMED)
def volumes(_hub: Hub, asked: Asked) -> Reply:
    """Named volumes; there are none."""
    signed_in(asked)
    return Reply({"volumes": []})


def _model(config: dict[str, Any]) -> str | None:
    model = config.get("model")
    return str(model.get("name")) if isinstance(model, dict) else model if isinstance(model, str) else None


def _may(user: str, run: Document, asked: Asked) -> bool:
    return run["userId"] == user if asked.is_set("mine") or not run["teamId"] else True


def _run(hub: Hub, asked: Asked) -> Document:
    account = signed_in(asked)
    found = hub.store.get("run", asked.parts["run"])
    seen = found and (found["userId"] == account.id or found["teamId"] in map(team_id, account.teams))
    if found is None or not seen:
        raise Refused(404, "Run not found")
    return found


def _told(hub: Hub, asked: Asked, key: str, otherwise: Any) -> Any:
    """What the control endpoint was told about a run."""
    return (hub.store.get("told", _run(hub, asked)["id"]) or {}).get(key, otherwise)


def _moved(hub: Hub, run: Document, status: str) -> Reply:
    moved = {**run, "status": status, "updatedAt": now()}
    hub.store.put("run", run["id"], moved)
    return Reply({"run": moved})
