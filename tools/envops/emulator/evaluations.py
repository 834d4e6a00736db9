"""Evaluations: hosted ones, and those made elsewhere and pushed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from envops.emulator.accounts import signed_in, team_id, writer
from envops.emulator.endpoints import MEASURED, READ, Asked, Refused, Reply, endpoint, now
from envops.emulator.environments import environment_of_id
from envops.emulator.hub import without_secrets

if TYPE_CHECKING:
    from envops.emulator.accounts import Account
    from envops.emulator.hub import Hub
    from envops.emulator.store import Document

ENDED = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT")


@endpoint("POST", "/hosted-evaluations", MEASURED, "an evaluation stays PENDING until the control endpoint moves it")
def create_hosted(hub: Hub, asked: Asked) -> Reply:
    """Start an evaluation of published environments on the platform."""
    account = writer(asked)
    ids = asked.body.get("environment_ids")
    if not isinstance(ids, list) or not ids:
        raise Refused(422, [{"loc": ["body", "environment_ids"], "msg": "Field required"}])
    sent = {"model_name": asked.body.get("inference_model"), "metadata": asked.body.get("eval_config") or {}}
    made = _create(hub, asked, account, [{"id": str(each)} for each in ids], sent, "PENDING")
    return Reply({"evaluation_id": made["evaluation_id"], "evaluation_ids": [made["evaluation_id"]]}, 201)


@endpoint("GET", "/hosted-evaluations/{evaluation}/logs", MEASURED)
def logs(hub: Hub, asked: Asked) -> Reply:
    """What a hosted evaluation printed."""
    return Reply({"logs": (hub.store.get("told", _existing(hub, asked)["evaluation_id"]) or {}).get("logs", "")})


@endpoint("PATCH", "/hosted-evaluations/{evaluation}/cancel", MEASURED)
def cancel(hub: Hub, asked: Asked) -> Reply:
    """Stop a hosted evaluation."""
    writer(asked)
    found = _existing(hub, asked)
    if found["status"] in ENDED:
        raise Refused(400, f"Evaluation is already {found['status']}")
    return Reply(_changed(hub, found, status="CANCELLED"))


@endpoint("POST", "/evaluations/", MEASURED, "names need not be unique")
def create(hub: Hub, asked: Asked) -> Reply:
    """Make an evaluation whose samples follow."""
    account = writer(asked)
    environments = asked.body.get("environments")
    if not isinstance(environments, list) or not environments:
        raise Refused(422, [{"loc": ["body", "environments"], "msg": "Field required"}])
    return Reply(_create(hub, asked, account, environments, without_secrets(asked.body), "RUNNING"), 201)


@endpoint("GET", "/evaluations/", MEASURED, "paging: pages may be ignored")
def listed(hub: Hub, asked: Asked) -> Reply:
    """Evaluations of the user or of a team, newest first."""
    account = signed_in(asked)
    team = asked.query.get("team_id")
    scope = team_id(account.team_of(team)) if team else None
    name = asked.query.get("environment_name")
    rows = [
        each
        for each in reversed(hub.store.all("evaluation"))
        if each["team_id"] == scope
        and (scope or each["user_id"] == account.id)
        and (name is None or any(name in (known, known.split("/")[-1]) for known in each["environment_names"]))
    ]
    return Reply({"evaluations": hub.page(asked, rows, "skip", 50), "total": len(rows)})


@endpoint("GET", "/evaluations/{evaluation}", MEASURED)
def get(hub: Hub, asked: Asked) -> Reply:
    """One evaluation."""
    return Reply(_existing(hub, asked))


@endpoint("PUT", "/evaluations/{evaluation}", READ)
def update(hub: Hub, asked: Asked) -> Reply:
    """Change what is said about an evaluation."""
    writer(asked)
    sent = {key: value for key, value in without_secrets(asked.body).items() if value is not None}
    return Reply(_changed(hub, _existing(hub, asked), **sent))


@endpoint("POST", "/evaluations/{evaluation}/samples", MEASURED, "samples are added, never replaced")
def add_samples(hub: Hub, asked: Asked) -> Reply:
    """Add samples to an evaluation."""
    writer(asked)
    found = _existing(hub, asked)
    rows = asked.body.get("samples") if isinstance(asked.body, dict) else None
    if not isinstance(rows, list):
        raise Refused(422, [{"loc": ["body", "samples"], "msg": "Field required"}])
    hub.store.put("samples", asked.named("samples"), {"rows": rows}, found["evaluation_id"])
    _changed(hub, found, total_samples=found["total_samples"] + len(rows))
    return Reply({"samples_pushed": len(rows)})


@endpoint("GET", "/evaluations/{evaluation}/samples", MEASURED)
def samples(hub: Hub, asked: Asked) -> Reply:
    """Samples of an evaluation, page by page."""
    batches = hub.store.all("samples", _existing(hub, asked)["evaluation_id"])
    rows = [row for batch in batches for row in batch["rows"]]
    page, limit = max(1, asked.number_of("page", 1)), max(1, asked.number_of("limit", 100))
    part = rows[(page - 1) * limit : page * limit]
    return Reply({"samples": part, "total": len(rows), "page": page, "limit": limit})


@endpoint("POST", "/evaluations/{evaluation}/finalize", MEASURED)
def finalize(hub: Hub, asked: Asked) -> Reply:
    """Close an evaluation."""
    writer(asked)
    metrics = asked.body.get("metrics") if isinstance(asked.body, dict) else None
    found = _existing(hub, asked)
    return Reply(_changed(hub, found, status="COMPLETED", metrics=metrics or found["metrics"], completed_at=now()))


def play(hub: Hub, evaluation: str, rows: list[dict[str, Any]]) -> int:
    """What a hosted evaluation came to, in the place of the platform's runner; how many samples it has now."""
    before = sum(len(batch["rows"]) for batch in hub.store.all("samples", evaluation))
    hub.store.put("samples", f"{evaluation}-{before}", {"rows": rows}, evaluation)
    return before + len(rows)


def _create(
    hub: Hub, asked: Asked, account: Account, environments: list[dict[str, Any]], sent: Document, status: str
) -> Document:
    found = [environment_of_id(hub, account, str(each.get("id"))) for each in environments]
    team = account.team_of(str(asked.body["team_id"])) if asked.body.get("team_id") else None
    made = {
        "evaluation_id": asked.named("eval"),
        "name": asked.body.get("name"),
        "status": status,
        "is_hosted": status == "PENDING",
        "user_id": account.id,
        "team_id": team and team_id(team),
        "environment_names": [f"{each['owner']}/{each['name']}" for each in found],
        "model_name": sent.get("model_name"),
        "metadata": sent.get("metadata") or {},
        "metrics": sent.get("metrics") or {},
        "tags": sent.get("tags") or [],
        "total_samples": 0,
        "created_at": now(),
        "updated_at": now(),
    }
    hub.store.put("evaluation", made["evaluation_id"], made)
    return made


def _existing(hub: Hub, asked: Asked) -> Document:
    account = signed_in(asked)
    found = hub.store.get("evaluation", asked.parts["evaluation"])
    seen = found and (found["user_id"] == account.id or found["team_id"] in map(team_id, account.teams))
    if found is None or not seen:
        raise Refused(404, "Evaluation not found")
    return found


def _changed(hub: Hub, found: Document, **more: Any) -> Document:
    changed = {**found, **more, "updated_at": now()}
    hub.store.put("evaluation", changed["evaluation_id"], changed)
    return changed
