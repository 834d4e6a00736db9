"""`envwright rewards explain RULE`: a rule's description, and its findings in environments."""

from __future__ import annotations

import argparse
import json
import threading
from dataclasses import dataclass, replace

from envwright import exit_codes
from envwright.cli import arguments
from envwright.cli.selection import chosen_environments, print_grants
from envwright.facts.observed import Facts
from envwright.observing.observation_request import ObservationRequest
from envwright.observing.runner import facts_of
from envwright.reports.evidence import shown_evidence
from envwright.reports.page import Page
from envwright.reports.printing import for_terminal, print_text
from envwright.reports.result import path_in_repository
from envwright.rules.catalogue import explain
from envwright.rules.engine import Finding, Rule, Subject, all_rules, findings
from envwright.system.workspace import Workspace
from envwright.text.plain_data import plain_data

EXAMPLES = """examples:
  envwright rewards explain RWD010             in every environment
  envwright rewards explain RWD010 gsm8k       in one; rules of other gates too
"""


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("rule", metavar="RULE", help="a rule id; `envwright explain` lists all")
    arguments.selection(command)
    arguments.printed(command)
    command.add_argument("-q", "--quiet", action="store_true", help="no progress")
    arguments.no_cache(command)
    arguments.network(command, "environments", "they load")


@dataclass(frozen=True)
class RuleFindings:
    """The findings of a rule in one environment."""

    name: str
    findings: tuple[Finding, ...]
    unseen: str = ""
    """Why the rule could not be applied; empty if it was."""


def run(options: argparse.Namespace) -> int:
    """Explain the rule and apply it to the chosen environments."""
    text = explain(options.rule)
    rule = all_rules()[options.rule.strip().upper()]
    root = options.root
    choice = chosen_environments(root, options)
    repository = choice.repository
    print_grants(repository, choice.names)
    workspace, stop = Workspace(root), threading.Event()
    request = ObservationRequest(
        allow_network=options.allow_network,
        use_cache=not options.no_cache,
        evaluate=rule.gate in ("smoke", "distribution"),
    )
    found = []
    for name in choice.names:
        entry, package = repository.registry.environments[name], repository.packages[name]
        facts = facts_of(entry, package, workspace, request, stop, quiet=options.quiet)
        subject = Subject(entry, package, facts)
        folder = package.folder.resolve().relative_to(root.resolve()).as_posix()
        hits = tuple(
            replace(finding, file=path_in_repository(folder, package.module_path, finding.file))
            for finding in findings(subject, [rule.gate])
            if finding.rule == rule.id
        )
        found.append(RuleFindings(name, hits, _unseen(rule, facts)))
    if options.format == "json":
        print_text(for_terminal(lambda _width, _colour: _json(rule, found)))
    else:
        print_text(for_terminal(lambda width, colour: f"{text}\n{_page(rule, found, width, colour)}"))
    return exit_codes.FAIL if any(hit.counts for one in found for hit in one.findings) else exit_codes.PASS


def _unseen(rule: Rule, facts: Facts) -> str:
    if rule.compares:
        return "it compares with a base: envwright rewards diff NAME --against main"
    if facts.failures:
        stage, failure = next(iter(facts.failures.items()))
        first = (failure.message.strip().splitlines() or [""])[0]
        return f"{stage} failed ({failure.type}: {first}), so the result is incomplete"
    return ""


def _page(rule: Rule, found: list[RuleFindings], width: int, colour: bool) -> str:
    page = Page(width=width, colour=colour)
    for one in found:
        if not one.findings:
            message = f"{rule.id} finds nothing" if not one.unseen else f"{rule.id} was not decided: {one.unseen}"
            page.line((one.name, "bold"), f"  {message}")
        for finding in one.findings:
            _finding(page, one, finding)
    return page.text()


def _finding(page: Page, one: RuleFindings, finding: Finding) -> None:
    style = "dim" if finding.ignored else "bold red" if finding.severity == "error" else "yellow"
    page.paragraph((one.name, "bold"), (finding.rule, style), finding.message, hanging=4)
    if finding.at:
        page.line(f"{'at':<10} ", (finding.at, "cyan"), indent=4)
    for entry in shown_evidence(finding):
        (page.quote if entry.quoted else page.field)(entry.label, entry.text, indent=4)
    if finding.ignored:
        page.field("ignored", finding.reason or "", indent=4)
    page.field("fix", finding.fix, indent=4, style="green")
    page.blank()


def _json(rule: Rule, found: list[RuleFindings]) -> str:
    data = {
        "version": 1,
        "rule": {"id": rule.id, "gate": rule.gate, "severity": rule.severity, "title": rule.title}
        | {"what": rule.what, "why": rule.why, "fix": rule.fix},
        "environments": [
            {"name": one.name, "unseen": one.unseen, "findings": [plain_data(hit) for hit in one.findings]}
            for one in found
        ],
    }
    return json.dumps(plain_data(data), indent=2, ensure_ascii=True, allow_nan=False) + "\n"
