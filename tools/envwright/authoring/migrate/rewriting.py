"""Rewriting the package's own modules: without verifiers 0.3, and under the new package's name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import libcst as cst
from libcst import matchers as m
from libcst.codemod import CodemodContext
from libcst.codemod.visitors import AddImportsVisitor

from envwright.authoring.migrate.reading import LOAD, Original, assigned, code_of, local_names, marked, names_used

PLAIN = frozenset(
    (
        "Parser",
        "ThinkParser",
        "MaybeThinkParser",
        "XMLParser",
        "Messages",
        "Message",
        "ChatMessage",
        "State",
        "Info",
        "UserMessage",
        "AssistantMessage",
        "SystemMessage",
        "ToolMessage",
        "stop",
        "extract_boxed_answer",
    )
)
"""Names that `plain.py` of the new package also defines."""
ROWS = "list[dict[str, Any]]"
OF_DATASETS = frozenset(
    (
        "map", "filter", "select", "shuffle", "train_test_split", "rename_column", "rename_columns", "add_column",
        "remove_columns", "select_columns", "column_names", "features", "to_list", "to_pandas",
    )
)  # fmt: skip
"""Methods that a plain list of rows lacks; if they are used, the library stays."""


class _Plain(cst.CSTTransformer):
    """Replace names of verifiers and `Dataset.from_list` by plain ones, and the package's name by the new one."""

    def __init__(self, old: str, new: str, home: str, turns: str | None, *, lists: bool) -> None:
        self.old, self.new, self.home, self.turns, self.lists = old, new, home, turns, lists
        self.alias = "vf"
        self.plain: set[str] = set()
        self.unknown: set[str] = set()
        self.needs_any = False

    def visit_Import(self, node: cst.Import) -> None:
        for name in node.names:
            if code_of(name.name) == "verifiers" and name.asname is not None:
                self.alias = code_of(name.asname.name)

    def leave_ImportFrom(
        self, original_node: cst.ImportFrom, updated_node: cst.ImportFrom
    ) -> cst.ImportFrom | cst.RemovalSentinel:
        module = code_of(updated_node.module) if updated_node.module is not None else ""
        if module.split(".")[0] == "verifiers" and not isinstance(updated_node.names, cst.ImportStar):
            self.plain |= {code_of(name.name) for name in updated_node.names} & PLAIN
            self.unknown |= {code_of(name.name) for name in updated_node.names} - PLAIN
            return cst.RemoveFromParent()
        moved = self._moved(module)
        if moved == module or isinstance(updated_node.names, cst.ImportStar):
            return updated_node
        kept = [name for name in updated_node.names if code_of(name.name) != LOAD]
        if not kept:
            return cst.RemoveFromParent()
        kept[-1] = kept[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
        return updated_node.with_changes(module=cst.parse_expression(moved), names=kept)

    def _moved(self, module: str) -> str:
        first, _, rest = module.partition(".")
        if first != self.old:
            return module
        return f"{self.new}.{'parts' if rest == self.home else rest}"

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        if self.lists and code_of(updated_node.func) == "Dataset.from_list" and len(updated_node.args) == 1:
            return updated_node.args[0].value
        return updated_node

    def leave_Annotation(self, original_node: cst.Annotation, updated_node: cst.Annotation) -> cst.Annotation:
        if not self.lists or code_of(updated_node.annotation) != "Dataset":
            return updated_node
        self.needs_any = True
        return updated_node.with_changes(annotation=cst.parse_expression(ROWS))

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.BaseExpression:
        if not m.matches(updated_node.value, m.Name(self.alias)):
            return updated_node
        name = updated_node.attr.value
        if name == "MultiTurnEnv" and self.turns is not None:
            self.plain.add("Turns")
            return cst.Name("Turns")
        if name in PLAIN:
            self.plain.add(name)
            return cst.Name(name)
        self.unknown.add(name)
        return updated_node


def rewritten(
    original: Original,
    name: str,
    old: str,
    new: str,
    body: cst.Module | None = None,
    also: Iterable[str] = (),
) -> str:
    """The source of a module in the new package; `body` if statements of it were replaced before.

    `also` are names of plain.py that these statements use.
    """
    module = original.modules[name] if body is None else body
    change = _Plain(old, new, original.home, original.turns, lists=lists_will_do(original))
    change.plain |= set(also)
    changed = module.visit(change)
    used = {word for one in changed.body if not _imports(one) for word in names_used(one)}
    changed = changed.with_changes(body=[one for one in changed.body if not _is_unused_import(one, used)])
    context = CodemodContext()
    for plain in sorted(change.plain):
        AddImportsVisitor.add_needed_import(context, f"{new}.plain", plain)
    if change.needs_any:
        AddImportsVisitor.add_needed_import(context, "typing", "Any")
    if change.unknown and change.alias in used:
        AddImportsVisitor.add_needed_import(context, "verifiers.v1", None, change.alias)
    text = AddImportsVisitor(context).transform_module(changed).code
    unknown = sorted(one for one in change.unknown if one in used)
    notes = [marked(f"{change.alias}.{one} has no plain counterpart.", f"{change.alias}.{one}") for one in unknown]
    return text + ("\n" + "\n".join(notes) if notes else "")


def lists_will_do(original: Original) -> bool:
    """Whether datasets made from lists are used only for their rows."""
    used = {
        cst.ensure_type(one, cst.Attribute).attr.value
        for module in original.modules.values()
        for one in m.findall(module, m.Attribute(value=m.DoesNotMatch(m.Name("random"))))
    }
    return not used & OF_DATASETS


def without(module: cst.Module, name: str, instead: Sequence[cst.BaseStatement]) -> cst.Module:
    """The module with other statements in the place of a function."""
    body: list[cst.BaseStatement] = []
    for statement in module.body:
        is_it = isinstance(statement, cst.FunctionDef) and statement.name.value == name
        body += instead if is_it else [statement]
    return module.with_changes(body=[one for one in body if not _is_all(one)])


def _is_all(statement: cst.CSTNode) -> bool:
    return bool(
        m.matches(statement, m.SimpleStatementLine(body=[m.Assign(targets=[m.AssignTarget(m.Name("__all__"))])]))
    )


def _imports(statement: cst.CSTNode) -> bool:
    return bool(m.matches(statement, m.SimpleStatementLine(body=[m.Import() | m.ImportFrom()])))


def _is_unused_import(statement: cst.CSTNode, used: set[str]) -> bool:
    """Whether a line imports only verifiers 0.3, or names of datasets that are no longer used."""
    if not isinstance(statement, cst.SimpleStatementLine) or not _imports(statement):
        return False
    (line,) = statement.body[:1]
    if isinstance(line, cst.Import):
        return any(code_of(name.name) == "verifiers" for name in line.names)
    if not isinstance(line, cst.ImportFrom) or line.module is None or isinstance(line.names, cst.ImportStar):
        return False
    return code_of(line.module) == "datasets" and not any(code_of(name.name) in used for name in line.names)


PARSER = "parser"


@dataclass(frozen=True)
class Home:
    """The module of `load_environment`, and the rewards that can be called from outside it."""

    module: cst.Module
    reachable: frozenset[str]
    """Names of nested reward functions that were moved to the module."""


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
    """Keep everything except the rubric and lifted parts; the environment becomes `Parts`."""

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
        """`Parts(…)` with the parts of the environment."""
        given = dict(self.original.keywords)
        given.pop("rubric", None)
        given.pop(PARSER, None)
        arguments = [
            f"{name}={code_of(given.pop(name))}"
            for name in ("dataset", "eval_dataset", "system_prompt", "few_shot")
            if name in given
        ]
        given.pop("tools", None)
        if self.original.kind == "MultiTurnEnv":
            name = self.original.turns or "Turns"
            arguments.append(f"turns={name}({', '.join(f'{key}={code_of(value)}' for key, value in given.items())})")
        return "Parts(\n" + "".join(f"    {argument},\n" for argument in arguments) + ")"


def unmoved_places(original: Original) -> Iterator[str]:
    """Comments about the remaining code, for the end of the module."""
    for reason, code in original.unmoved:
        yield marked(reason, code)


def _statement(text: str) -> cst.SimpleStatementLine:
    line = cst.ensure_type(cst.parse_statement(text), cst.SimpleStatementLine)
    return line.with_changes(leading_lines=[cst.EmptyLine()])
