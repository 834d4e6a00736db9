"""The cases of a rule: named subjects in which it fires, and others in which it is silent."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from envwright.rules.engine import Judged


@dataclass(frozen=True)
class RuleCases:
    """Name of a case → subject. Those in which a rule is silent come as close to a finding as they can."""

    fires: Mapping[str, Judged]
    silent: Mapping[str, Judged]


def all_cases() -> dict[str, RuleCases]:
    """The cases of every rule that has any, of every module `cases_of_*` beside this one."""
    modules = sorted(path.stem for path in Path(__file__).parent.glob("cases_of_*.py"))
    return {rule: cases for module in modules for rule, cases in import_module(module).CASES.items()}
