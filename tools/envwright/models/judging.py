"""The judge of a real model's replies: the declared one behind a separate relay, or a scripted one that results
name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from envwright.declarations.endpoints import ENDPOINTS_FILE, Endpoint
from envwright.declarations.package import Package
from envwright.declarations.registry import EnvironmentEntry
from envwright.models.model_evaluation import Judge, JudgeNotDeclared, NoKey, RunRefused, key_of
from envwright.models.model_run import relay_for, spent
from envwright.models.prime_inference import endpoint_named
from envwright.models.relay import Relay
from envwright.packages.repository import Repository
from envwright.reports.printing import print_message
from envwright.text.visible_text import on_one_line


def check_judges(repository: Repository, names: tuple[str, ...], *, scripted: bool) -> None:
    """Raise `RunRefused` if an environment's judge has no declaration, price or key.

    All environments are checked before the first one costs anything.
    """
    for name in names:
        judge_endpoint(
            repository.root, repository.registry.environments[name], repository.packages[name], scripted=scripted
        )


def judge_endpoint(root: Path, entry: EnvironmentEntry, package: Package, *, scripted: bool) -> Endpoint | None:
    """The endpoint of the environment's judge; `None` if it has no judge, or a scripted one is allowed.

    Raises `RunRefused`, and `DeclarationError` if the endpoint does not exist.
    """
    if scripted:
        return None
    if entry.judge is None:
        if package.uses_judge:
            raise JudgeNotDeclared(entry.name)
        return None
    endpoint = endpoint_named(root, entry.judge.endpoint)
    if not endpoint.has_prices:
        raise RunRefused(
            f"no price configured for the judge of {entry.name}, {endpoint.name}: add an [[endpoint]] with "
            f"input_price and output_price to {ENDPOINTS_FILE} (0 for a server of your own)."
        )
    try:
        key_of(endpoint)
    except NoKey as error:
        raise RunRefused(
            f"the judge of {entry.name}: {error}\nSet it for this command only, and never write it to a file."
        ) from None
    return endpoint


@contextmanager
def judge_of(root: Path, entry: EnvironmentEntry, package: Package, *, scripted: bool) -> Iterator[Judge]:
    """The replier to the environment's judge requests beside a real model. Raises the errors of `judge_endpoint`."""
    endpoint = judge_endpoint(root, entry, package, scripted=scripted)
    if scripted:
        if entry.judge is not None or package.uses_judge:
            print_message(f"{entry.name}: a scripted judge decides (--scripted-judge), and results name it")
        yield "scripted"
        return
    if endpoint is None or entry.judge is None:
        yield None
        return
    ceiling = entry.judge.max_cost
    print_message(f"{entry.name}: {endpoint.model} at {endpoint.name} judges, for at most ${ceiling:g} besides")
    with relay_for(endpoint, ceiling, any_model=True) as relay:
        try:
            yield relay
        finally:
            print_message(f"{entry.name}, judge: {spent(relay.spending, endpoint)}")


def judge_cut_short(judge: Judge) -> str:
    """Why rewards lack the judge's verdict; empty if they do not."""
    if not isinstance(judge, Relay):
        return ""
    if judge.refusal is not None:
        return f"the judge refuses calls: {on_one_line(str(judge.refusal))}"
    if judge.ceiling_reached:
        return f"cut short by the judge's ceiling of ${judge.ceiling:g} (judge.max_cost in registry.yaml)"
    return ""
