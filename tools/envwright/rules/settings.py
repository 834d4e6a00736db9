"""Severities that a repository sets in `rules:` of registry.yaml: their mistakes, and how reports show them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from envwright.declarations.keys import RuleSeverity
from envwright.declarations.problem import DeclarationError, Problem, nearest
from envwright.declarations.tool_source import REGISTRY_FILE
from envwright.rules.engine import all_rules, is_weaker, plugin_problems

if TYPE_CHECKING:
    from envwright.declarations.keys import RuleSetting
    from envwright.declarations.registry import Registry


@dataclass(frozen=True)
class SetSeverity:
    """The severity of a rule in a repository, as reports show it."""

    rule: str
    own: RuleSeverity
    """The rule's own severity."""
    severity: RuleSeverity
    """Its severity here."""
    reason: str
    """The registry's reason; empty if it no longer sets one."""
    base: RuleSeverity | None = None
    """Its severity at the base of the change, if the change alters it."""

    def __str__(self) -> str:
        if not self.reason:
            return f"{self.rule} is {self.severity} again, and was {self.base}: this change removes its setting"
        own = "" if self.severity == self.own else f" instead of {self.own}"
        before = f"; this change alters it from {self.base}" if self.base else ""
        return f"{self.rule} is {self.severity}{own}: {self.reason}{before}"


def set_severities(
    now: Mapping[str, RuleSetting], base: Mapping[str, RuleSetting] | None = None
) -> tuple[SetSeverity, ...]:
    """The rules with a severity of the repository's, and those that had one at the base of a change."""
    found = []
    for rule in sorted({*now, *(base or {})} & all_rules().keys()):
        own = all_rules()[rule].severity
        here, before = (each[rule].severity if each and rule in each else own for each in (now, base))
        altered = before if base is not None and before != here else None
        if rule in now or altered:
            found.append(SetSeverity(rule, own, here, now[rule].reason if rule in now else "", altered))
    return tuple(found)


def refuse_wrong_settings(registry: Registry) -> None:
    """Raise `DeclarationError` for settings of rules that do not exist, or that may not be weakened, and for plug-ins
    that cannot be loaded.
    """
    if problems := plugin_problems() or tuple(_problems(registry)):
        raise DeclarationError(problems)


def _problems(registry: Registry) -> Iterator[Problem]:
    rules = all_rules() if registry.rules else {}
    for rule, setting in registry.rules.items():
        line, path, known = registry.rule_lines.get(rule), f"rules.{rule}", rules.get(rule)
        if known is None:
            near = nearest(rule, rules)
            fix = "correct the id, remove the line, or install the package that brings the rule beside the tool"
            yield Problem(REGISTRY_FILE, line, "is not the id of a rule", path, rule, nearest=near, fix=fix)
        elif known.protects and is_weaker(setting.severity, known.severity):
            message = f"protects {known.protects}, so no repository turns it off or lowers it ({known.title})"
            fix = f'for one environment, with a reason: `ignore: {{{rule}: "…"}}` below it'
            yield Problem(REGISTRY_FILE, line, message, path, setting.severity, known.severity, fix=fix)
