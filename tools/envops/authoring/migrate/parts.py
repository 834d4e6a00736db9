"""`load_environment` as a function that only says what the environment is made of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst
from libcst import matchers as m

from envops.authoring.migrate.places import marked
from envops.authoring.migrate.reading import LOAD, Original, assigned, code_of, local_names, names_used
from envops.authoring.migrate.rewriting import without

PARSER = "parser"


@dataclass(frozen=True)
class Home:
    """The module of `load_environment`, and the rewards that can be called from outside of it."""

    module: cst.Module
    reachable: frozenset[str]
    """Names of nested reward functions that stand in the module now."""


def parts_of(original: Original) -> Home:
    """Lift the parser and nested rewards to the module, and let the rest return `Parts`."""
    local = local_names(original.load)
    lifted: list[cst.BaseStatement] = []
    parser = _parser(original)
    if parser is None or not names_used(parser) & local:
        lifted.append(_statement(f"{PARSER} = {'vf.Parser()' if parser is None else code_of(parser)}"))
        local -= {PARSER}
    else:
        original.unmoved.append(("The parser depends on the arguments.", code_of(parser)))
        lifted.append(_statement(f"{PARSER} = vf.Parser()"))
    reachable = set()
    for reward in original.rewards:
        if reward.nested and reward.function is not None:
            needed = (names_used(reward.function) & local) - {reward.function.name.value}
            if not needed - local_names(reward.function):
                lifted.append(reward.function.with_changes(leading_lines=[cst.EmptyLine(), cst.EmptyLine()]))
                reachable.add(reward.code)
    keep = _Keep(original, reachable | ({PARSER} if PARSER not in local else set()))
    load = original.load.visit(keep)
    assert isinstance(load, cst.FunctionDef)
    load = load.with_changes(
        name=cst.Name("parts"),
        returns=cst.Annotation(cst.Name("Parts")),
        leading_lines=[cst.EmptyLine(), cst.EmptyLine()],
    )
    return Home(without(original.modules[original.home], LOAD, [*lifted, load]), frozenset(reachable))


def _parser(original: Original) -> cst.BaseExpression | None:
    """The expression that makes the parser."""
    given = original.keywords.get(PARSER)
    return assigned(original.load, given.value) if isinstance(given, cst.Name) else given


class _Keep(cst.CSTTransformer):
    """Everything but the rubric and what was lifted stays; the environment becomes `Parts`."""

    def __init__(self, original: Original, lifted: set[str]) -> None:
        self.original = original
        self.lifted = lifted
        self.dropped = original.rubrics

    def leave_FunctionDef(
        self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef
    ) -> cst.FunctionDef | cst.RemovalSentinel:
        return cst.RemoveFromParent() if original_node.name.value in self.lifted else updated_node

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine | cst.RemovalSentinel:
        for statement in original_node.body:
            if isinstance(statement, cst.Assign):
                targets = {code_of(target.target) for target in statement.targets}
                if targets <= self.lifted | self.dropped:
                    return cst.RemoveFromParent()
            on_rubric = m.Expr(m.Call(func=m.Attribute(value=m.OneOf(*map(m.Name, self.dropped or {"\0"})))))
            if m.matches(statement, on_rubric):
                return cst.RemoveFromParent()
        return updated_node

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
        if original_node is not self.original.made:
            return updated_node
        return cst.ensure_type(cst.parse_expression(self._made()), cst.Call)

    def _made(self) -> str:
        """`Parts(…)`, with what the environment was made of."""
        given = dict(self.original.keywords)
        given.pop("rubric", None)
        given.pop(PARSER, None)
        said = [
            f"{name}={code_of(given.pop(name))}"
            for name in ("dataset", "eval_dataset", "system_prompt", "few_shot")
            if name in given
        ]
        given.pop("tools", None)
        if self.original.kind == "MultiTurnEnv":
            name = self.original.turns or "Turns"
            said.append(f"turns={name}({', '.join(f'{key}={code_of(value)}' for key, value in given.items())})")
        return "Parts(\n" + "".join(f"    {one},\n" for one in said) + ")"


def unmoved_places(original: Original) -> Iterator[str]:
    """Comments about what is left, to stand at the end of the module."""
    for reason, code in original.unmoved:
        yield marked(reason, code)


def _statement(text: str) -> cst.SimpleStatementLine:
    line = cst.ensure_type(cst.parse_statement(text), cst.SimpleStatementLine)
    return line.with_changes(leading_lines=[cst.EmptyLine()])
