"""Reading a package of verifiers 0.3: its modules, and the parts that `load_environment` assembles."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import libcst as cst
from libcst import matchers as m

from envwright.exit_codes import CommandError

LOAD = "load_environment"
SINGLE_TURN, TOOLS, TURNS = "SingleTurnEnv", "ToolEnv", "MultiTurnEnv"
KINDS = (SINGLE_TURN, TOOLS, TURNS)
USUAL_TURNS = 10
"""Turns of a `ToolEnv` of verifiers 0.3 that names no `max_turns`."""
PARTS = ("dataset", "eval_dataset", "system_prompt", "few_shot", "parser", "rubric", "tools", "max_turns")
MARK = "MIGRATE"


class NotMovable(CommandError):
    """The package cannot be migrated; the message has the place and the expected form."""


@dataclass(frozen=True)
class Argument:
    """A parameter of `load_environment`."""

    name: str
    annotation: str
    default: str | None


@dataclass(frozen=True)
class Reward:
    """A function of the rubric."""

    function: cst.FunctionDef | None
    """`None` if the rubric names no function of the package."""
    module: str
    """The module that defines it, without the package's name; empty for that of `load_environment`."""
    code: str
    """Its name in the rubric."""
    weight: str
    nested: bool = False
    of_parser: bool = False
    """Whether it is the parser's format reward."""


@dataclass
class Original:
    """A package, taken apart."""

    modules: dict[str, cst.Module]
    """Name without the package's → module; the package's own is empty."""
    home: str
    """The module that defines `load_environment`."""
    load: cst.FunctionDef
    kind: str
    """One of `KINDS`."""
    made: cst.Call
    """The call that makes the environment."""
    turns: str | None
    """The package's own class of a multi-turn environment."""
    keywords: dict[str, cst.BaseExpression]
    arguments: list[Argument]
    rewards: list[Reward]
    unmoved: list[tuple[str, str]] = field(default_factory=list)
    """Reason and code of parts that cannot be moved."""
    rubrics: set[str] = field(default_factory=set)
    """Names of rubrics within `load_environment`."""

    @property
    def most_turns(self) -> int | None:
        """The limit of turns of an environment with tools, 0 or less for no limit; `None` if it is not a number."""
        given = self.keywords.get("max_turns")
        if given is None:
            return USUAL_TURNS
        code = code_of(given)
        return int(code) if re.fullmatch(r"-?\d+", code) else None


def read(folder: Path, module: str) -> Original:
    """Read the parts of the package to move.

    Raises `NotMovable` if `load_environment` is not found, or its environment cannot be moved.
    """
    modules = {_name(path, folder / module): _parsed(path) for path in sorted((folder / module).rglob("*.py"))}
    if (folder / f"{module}.py").is_file() and not modules:
        modules = {"": _parsed(folder / f"{module}.py")}
    homes = [name for name, parsed in modules.items() if LOAD in _functions(parsed)]
    if len(homes) != 1:
        raise NotMovable(f"{folder / module}: {len(homes) or 'no'} modules define {LOAD}(); one is needed")
    home = modules[homes[0]]
    load = _functions(home)[LOAD]
    kind, turns, made = _environment_made(load, modules)
    keywords = _given(made)
    found = Original(modules, homes[0], load, kind, made, turns, keywords, _arguments(load), [])
    if len(keywords) < len(made.args):
        found.unmoved.append(("Arguments without a name cannot be distinguished.", code_of(made)))
    for name, value in keywords.items():
        if name not in PARTS and turns is None:
            found.unmoved.append((f"The argument {name} of {kind} has no counterpart.", code_of(value)))
    if kind == TOOLS and found.most_turns is None:
        found.unmoved.append(("The limit of turns is not a number; set it in env.py.", code_of(keywords["max_turns"])))
    found.rewards += _rewards(found, found.keywords.get("rubric"))
    return found


def code_of(node: cst.CSTNode) -> str:
    """The source of a part of a module."""
    return cst.Module([]).code_for_node(node).strip()


def local_names(load: cst.FunctionDef) -> set[str]:
    """The names that a function has as parameters, assigns, imports or defines, in functions inside it too."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(code_of(load))):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                names.add(name)
            case ast.alias():
                names.add((node.asname or node.name).partition(".")[0])
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                names.add(node.name)
    return names - {load.name.value}


def names_used(node: cst.CSTNode) -> set[str]:
    """All names that occur in a piece of code."""
    return {cst.ensure_type(name, cst.Name).value for name in m.findall(node, m.Name())}


def assigned(load: cst.FunctionDef, name: str) -> cst.BaseExpression | None:
    """The value that is assigned to a name in a function; `None` if there is none, or more than one."""
    found = [
        cst.ensure_type(assign, cst.Assign).value
        for assign in m.findall(load, m.Assign(targets=[m.AssignTarget(target=m.Name(name))]))
    ]
    return found[0] if len(found) == 1 else None


def class_named(modules: Mapping[str, cst.Module], name: str) -> cst.ClassDef | None:
    """The class of the package with that name."""
    found = (statement for module in modules.values() for statement in module.body)
    return next((one for one in found if isinstance(one, cst.ClassDef) and one.name.value == name), None)


def _name(path: Path, package: Path) -> str:
    parts = path.relative_to(package).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _parsed(path: Path) -> cst.Module:
    try:
        return cst.parse_module(path.read_bytes())
    except cst.ParserSyntaxError as error:
        raise NotMovable(f"{path}:{error.raw_line}: is not valid Python: {error.message}") from None
    except (SyntaxError, UnicodeDecodeError) as error:  # its encoding
        raise NotMovable(f"{path}: is not valid Python: {error}") from None


def _functions(module: cst.Module) -> dict[str, cst.FunctionDef]:
    return {one.name.value: one for one in module.body if isinstance(one, cst.FunctionDef)}


def _environment_made(load: cst.FunctionDef, modules: Mapping[str, cst.Module]) -> tuple[str, str | None, cst.Call]:
    """The kind of the environment, its class if the package defines one, and the call that makes it."""
    found: list[tuple[str, str | None, cst.Call]] = []
    for node in m.findall(load.body, m.Call()):
        call = cst.ensure_type(node, cst.Call)
        name = code_of(call.func).rpartition(".")[2]
        if name in KINDS:
            found.append((name, None, call))
        own = class_named(modules, name)
        if own is not None:
            bases = [code_of(base.value).rpartition(".")[2] for base in own.bases]
            found += [(kind, name, call) for kind in (TURNS,) if kind in bases]
    if len(found) != 1:
        made = ", ".join(f"vf.{kind}" for kind in KINDS)
        raise NotMovable(
            f"{LOAD}() makes {len(found)} environments that can be moved ({made}, or a class derived from"
            " vf.MultiTurnEnv); one is needed. Groups of environments become several packages."
        )
    return found[0]


def _arguments(load: cst.FunctionDef) -> list[Argument]:
    return [
        Argument(
            parameter.name.value,
            code_of(parameter.annotation.annotation) if parameter.annotation is not None else "Any",
            code_of(parameter.default) if parameter.default is not None else None,
        )
        for parameter in (*load.params.posonly_params, *load.params.params, *load.params.kwonly_params)
    ]


def _rewards(found: Original, rubric: cst.BaseExpression | None) -> Iterator[Reward]:
    """The functions of a rubric or of a group of them, in order; other parts are noted as unmoved."""
    added: list[cst.Call] = []
    if isinstance(rubric, cst.Name):
        found.rubrics.add(rubric.value)
        calls = m.findall(found.load, m.Call(func=m.Attribute(value=m.Name(rubric.value))))
        added = [cst.ensure_type(call, cst.Call) for call in calls]
        name, rubric = rubric, assigned(found.load, rubric.value)
        if rubric is None and name.value != "None":
            found.unmoved.append(("The rubric is not assigned in one place of the function.", code_of(name)))
    if rubric is None:
        return
    kind = code_of(rubric.func).rpartition(".")[2] if isinstance(rubric, cst.Call) else ""
    if not isinstance(rubric, cst.Call) or kind not in ("Rubric", "RubricGroup"):
        found.unmoved.append(("Only a vf.Rubric of functions is moved; a judge becomes a vf.Judge.", code_of(rubric)))
        return
    given = _given(rubric, "funcs", "weights")
    if kind == "RubricGroup":
        for member in _elements(found, given.get("rubrics", given.get("funcs"))):
            yield from _rewards(found, member)
        given = {}
    functions = _elements(found, given.get("funcs"))
    weights = [_weight(found, weight) for weight in _elements(found, given.get("weights"))]
    for position, named in enumerate(functions):
        yield _reward(found, named, weights[position] if position < len(weights) else "1.0")
    for call in added:
        method = cst.ensure_type(call.func, cst.Attribute).attr.value
        if method not in ("add_reward_func", "add_metric") or not call.args:
            found.unmoved.append((f"The effect of {method} on the rubric is unknown.", code_of(call)))
            continue
        values = _given(call, "func", "weight")
        if "func" not in values:
            found.unmoved.append(("The function that is added has no known name.", code_of(call)))
            continue
        usual = "1.0" if method == "add_reward_func" else "0.0"
        yield _reward(found, values["func"], _weight(found, values["weight"]) if "weight" in values else usual)


def _given(call: cst.Call, *parameters: str) -> dict[str, cst.BaseExpression]:
    """The arguments of a call by name; those without one are of these parameters, in order."""
    named = {argument.keyword.value: argument.value for argument in call.args if argument.keyword is not None}
    unnamed = (argument.value for argument in call.args if argument.keyword is None)
    return named | dict(zip(parameters, unnamed, strict=False))


def _elements(found: Original, node: cst.BaseExpression | None) -> Sequence[cst.BaseExpression]:
    """The elements of a list that is written in place; another one is noted as unmoved."""
    if node is None:
        return []
    if isinstance(node, (cst.List, cst.Tuple)) and all(isinstance(one, cst.Element) for one in node.elements):
        return [element.value for element in node.elements]
    found.unmoved.append(("A list that is not written in place cannot be read.", code_of(node)))
    return []


def _weight(found: Original, weight: cst.BaseExpression) -> str:
    """The weight as code; one that needs a name is noted as unmoved, and is 1."""
    if not names_used(weight):
        return code_of(weight)
    found.unmoved.append(("A weight that is not a number is 1.0 here.", code_of(weight)))
    return "1.0"


def _reward(found: Original, named: cst.BaseExpression, weight: str) -> Reward:
    code = code_of(named)
    made = assigned(found.load, code) if isinstance(named, cst.Name) else named
    if made is not None and m.matches(made, m.Call(func=m.Attribute(attr=m.Name("get_format_reward_func")))):
        return Reward(None, found.home, "format_reward_func", weight, of_parser=True)
    nested = {one.name.value: one for one in found.load.body.body if isinstance(one, cst.FunctionDef)}
    if code in nested:
        return Reward(nested[code], found.home, code, weight, nested=True)
    for module, parsed in found.modules.items():
        function = _functions(parsed).get(code.rpartition(".")[2])
        if function is not None and isinstance(named, (cst.Name, cst.Attribute)):
            return Reward(function, module, code, weight)
    return Reward(None, found.home, code, weight)


@dataclass(frozen=True)
class UnfinishedPlace:
    """Code that could not be moved, with the reason."""

    file: str
    line: int
    reason: str


def marked(reason: str, original: str, indent: str = "") -> str:
    """A comment with the reason and the original code."""
    lines = [f"# {MARK}: {reason} The original:", *(f"#     {line}" for line in original.strip().splitlines())]
    return "".join(f"{indent}{line}\n" for line in lines)


def unfinished_places(files: dict[str, str]) -> list[UnfinishedPlace]:
    """Every mark in the code, with its reason."""
    return [
        UnfinishedPlace(name, number, line.partition(f"{MARK}: ")[2].removesuffix(" The original:").removesuffix('")'))
        for name, text in files.items()
        if name.endswith(".py")
        for number, line in enumerate(text.splitlines(), start=1)
        if f"{MARK}: " in line
    ]
