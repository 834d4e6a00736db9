"""The mutation operators: each replaces one node of the syntax tree.

The operators model typical mistakes in rewards: a reversed comparison, a moved boundary, a dropped condition or
normalisation, a constant return value.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from typing import TypeVar, cast

import libcst as cst
from libcst import matchers as m

Rewrite = tuple[str, cst.CSTNode, cst.CSTNode]
"""The operator's name, the replaced node, and its replacement."""

_COMPARISONS: dict[type[cst.BaseCompOp], tuple[tuple[str, type[cst.BaseCompOp]], ...]] = {
    cst.Equal: (("flip comparison", cst.NotEqual),),
    cst.NotEqual: (("flip comparison", cst.Equal),),
    cst.In: (("flip comparison", cst.NotIn),),
    cst.NotIn: (("flip comparison", cst.In),),
    cst.Is: (("flip comparison", cst.IsNot),),
    cst.IsNot: (("flip comparison", cst.Is),),
    cst.LessThan: (("move boundary", cst.LessThanEqual), ("flip comparison", cst.GreaterThanEqual)),
    cst.LessThanEqual: (("move boundary", cst.LessThan), ("flip comparison", cst.GreaterThan)),
    cst.GreaterThan: (("move boundary", cst.GreaterThanEqual), ("flip comparison", cst.LessThanEqual)),
    cst.GreaterThanEqual: (("move boundary", cst.GreaterThan), ("flip comparison", cst.LessThan)),
}
_ARITHMETIC: dict[type[cst.CSTNode], type[cst.CSTNode]] = {
    cst.Add: cst.Subtract,
    cst.Subtract: cst.Add,
    cst.Multiply: cst.Divide,
    cst.Divide: cst.Multiply,
    cst.FloorDivide: cst.Divide,
    cst.Modulo: cst.Multiply,
    cst.Power: cst.Multiply,
    cst.AddAssign: cst.SubtractAssign,
    cst.SubtractAssign: cst.AddAssign,
    cst.MultiplyAssign: cst.DivideAssign,
    cst.DivideAssign: cst.MultiplyAssign,
}
_NORMALISERS = frozenset(
    {
        "strip",
        "lstrip",
        "rstrip",
        "lower",
        "upper",
        "casefold",
        "capitalize",
        "title",
        "swapcase",
        "replace",
        "removeprefix",
        "removesuffix",
        "translate",
        "expandtabs",
        "quantize",
        "limit_denominator",
    }
)
"""Methods that change only the form of the text or number that they are called on."""
_WRAPPERS = {"abs": 0, "round": 0, "sorted": 0, "reversed": 0, "normalize": -1, "unescape": 0}
"""Functions that return one of their arguments in another form → its index."""
_METHODS = {
    "partition": "rpartition",
    "rpartition": "partition",
    "find": "rfind",
    "rfind": "find",
    "index": "rindex",
    "rindex": "index",
    "startswith": "endswith",
    "endswith": "startswith",
    "fullmatch": "match",
    "match": "search",
    "search": "match",
}
_BUILTINS = {"min": "max", "max": "min", "any": "all", "all": "any"}
_RE_FUNCTIONS = frozenset({"compile", "match", "fullmatch", "search", "findall", "finditer", "split", "sub", "subn"})
_RE_MODULES = frozenset({"re", "regex"})
_LEFT_ALONE = frozenset({"strict", "encoding", "errors", "flags"})
"""Keyword arguments whose change cannot affect a reward, or that have an operator of their own."""
_MESSAGE_ARGUMENTS = frozenset(
    {"debug", "info", "warning", "error", "exception", "critical", "log", "print", "warn", "getLogger"}
)
_LOOSE = (
    cst.BinaryOperation,
    cst.BooleanOperation,
    cst.Comparison,
    cst.IfExp,
    cst.Lambda,
    cst.UnaryOperation,
    cst.GeneratorExp,
    cst.NamedExpr,
    cst.Await,
)
_Expression = TypeVar("_Expression", bound=cst.BaseExpression)
_TOKEN = re.compile(
    r"""
      \\[AZbBz]                        # anchors that are written with a backslash
    | \\.                              # any other escape
    | \[\^?\]?(?:\\.|[^\]\\])*\]       # a set
    | \(\?(?:[:=!>]|<[=!]|P<\w+>|[aiLmsux-]+[:)])   # the beginning of a group
    | \{\d*,?\d*\}[?+]?                # a counted repetition
    | [*+?][?+]?                       # a repetition
    | .                                # anything else
    """,
    re.VERBOSE | re.DOTALL,
)
_ANCHORS = frozenset({"^", "$", r"\A", r"\Z", r"\b", r"\B", r"\z"})
_OPPOSITES = {r"\d": r"\D", r"\D": r"\d", r"\w": r"\W", r"\W": r"\w", r"\s": r"\S", r"\S": r"\s"}
_COUNT = re.compile(r"\{(\d*)(,?)(\d*)\}([?+]?)")


def expression_rewrites(node: cst.CSTNode) -> Iterator[Rewrite]:
    """The changes of one expression, without those of its parts."""
    match node:
        case cst.Comparison(comparisons=targets):
            for target in targets:
                for name, other in _COMPARISONS.get(type(target.operator), ()):
                    yield name, target.operator, _like(target.operator, other)
        case cst.BooleanOperation():
            yield from _boolean_operations(node)
        case cst.UnaryOperation(operator=cst.Not(), expression=inner):
            yield "drop not", node, inner
        case cst.BinaryOperation() if type(node.operator) in _ARITHMETIC:
            if not (_is_text(node.left) or _is_text(node.right)):
                yield "swap arithmetic", node.operator, _like(node.operator, _ARITHMETIC[type(node.operator)])
        case cst.IfExp(body=body, orelse=other):
            yield "drop branch", node, body
            yield "drop branch", node, other
        case cst.CompIf(test=test):
            yield "drop condition", test, cst.Name("True")
        case cst.Call():
            yield from _calls(node)
        case cst.Slice():
            if node.lower is not None:
                yield "drop slice bound", node, node.with_changes(lower=None)
            if node.upper is not None:
                yield "drop slice bound", node, node.with_changes(upper=None)
        case _:
            yield from _constants(node)


def statement_rewrites(node: cst.CSTNode, returns: str, rewards: bool) -> Iterator[Rewrite]:
    """The changes of a statement as a whole; `returns` is the function's annotation in source text."""
    match node:
        case cst.If(test=test) | cst.While(test=test):
            if isinstance(node, cst.If):
                yield "always branch", test, cst.Name("True")
            yield "never branch", test, cst.Name("False")
        case cst.Return(value=value) if value is not None:
            for fixed in _fixed_returns(returns, rewards):
                if not value.deep_equals(fixed):
                    yield "fix return", value, fixed
        case cst.Expr(value=cst.Call() | cst.Await()):
            yield "drop statement", node, cst.Pass()
        case cst.AugAssign():
            if type(node.operator) in _ARITHMETIC and not _is_text(node.value):
                yield "swap arithmetic", node.operator, _like(node.operator, _ARITHMETIC[type(node.operator)])
            yield "drop statement", node, cst.Pass()
        case cst.Break() | cst.Continue():
            yield "drop statement", node, cst.Pass()


def handler_rewrites(node: cst.ExceptHandler) -> Iterator[Rewrite]:
    """An exception handler with an empty body."""
    first = node.body.body[0] if node.body.body else None
    statement = first.body[0] if isinstance(first, cst.SimpleStatementLine) else None
    if not isinstance(statement, cst.Raise):
        yield "empty handler", node.body, _block(cst.Raise())
        if not isinstance(statement, cst.Pass | cst.Continue) and not _returns_none(statement):
            yield "empty handler", node.body, _block(cst.Pass())


def regex_rewrites(call: cst.Call) -> Iterator[Rewrite]:
    """The pattern of a call of `re` changed in one token, and its flags dropped."""
    pattern = pattern_of(call)
    if pattern is not None:
        for text in pattern_mutants(str(pattern.evaluated_value)):
            yield "loosen regex", pattern, _literal(text)
    if _re_function(call):
        for position, argument in enumerate(call.args[1:], start=1):
            if _is_flags(argument):
                kept = [*call.args[:position], *call.args[position + 1 :]]
                last = kept[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
                yield "drop flags", call, call.with_changes(args=[*kept[:-1], last])


def pattern_of(call: cst.Call) -> cst.SimpleString | None:
    """The literal pattern of a call such as `re.compile(r"…")`."""
    first = call.args[0].value if call.args and _re_function(call) else None
    return first if isinstance(first, cst.SimpleString) and isinstance(first.evaluated_value, str) else None


def cannot_affect_rewards(node: cst.CSTNode) -> bool:
    """Whether no part of the node can affect a reward: messages, annotations, imports, keywords of libraries."""
    match node:
        case cst.Raise() | cst.Assert() | cst.Annotation() | cst.Import() | cst.ImportFrom() | cst.Decorator():
            return True
        case cst.Arg(keyword=cst.Name(value=name)):
            return name in _LEFT_ALONE
        case cst.Expr(value=cst.SimpleString() | cst.ConcatenatedString()):
            return True
        case cst.Call(func=cst.Attribute(value=cst.Name(value="math" | "np" | "numpy" | "torch"))):
            return False  # `math.log` writes no message
        case cst.Call(func=cst.Name(value="log")):
            return bool(m.findall(node, m.SimpleString() | m.FormattedString()))  # without a text, that of `math`
        case cst.Call(func=cst.Name(value=name) | cst.Attribute(attr=cst.Name(value=name))):
            return name in _MESSAGE_ARGUMENTS
        case cst.Index(value=cst.SimpleString()):
            return True
    return False


def _boolean_operations(node: cst.BooleanOperation) -> Iterator[Rewrite]:
    other = cst.Or if isinstance(node.operator, cst.And) else cst.And
    yield "swap and/or", node.operator, _like(node.operator, other)
    yield "drop condition", node, node.left
    chained = isinstance(node.left, cst.BooleanOperation) and type(node.left.operator) is type(node.operator)
    if not chained:
        yield "drop condition", node, node.right


def _calls(node: cst.Call) -> Iterator[Rewrite]:
    match node.func:
        case cst.Attribute(value=receiver, attr=cst.Name(value=name)):
            module = isinstance(receiver, cst.Name) and receiver.value in _RE_MODULES
            if name in _NORMALISERS:
                yield "drop normalisation", node, receiver
            elif module and name == "sub" and len(node.args) >= 3 and node.args[2].keyword is None:
                yield "drop normalisation", node, _closed(node.args[2].value)
            elif name in _WRAPPERS and node.args:
                yield "drop normalisation", node, _closed(node.args[_WRAPPERS[name]].value)
            elif name in _METHODS:
                yield "swap method", node.func.attr, cst.Name(_METHODS[name])
        case cst.Name(value=name):
            if name in _BUILTINS:
                yield "swap min/max, any/all", node.func, cst.Name(_BUILTINS[name])
                if name in ("min", "max") and len(node.args) == 2:
                    yield from _clamps(node)
            elif name in _WRAPPERS and node.args:
                yield "drop normalisation", node, _closed(node.args[_WRAPPERS[name]].value)
    yield from regex_rewrites(node)


def _clamps(node: cst.Call) -> Iterator[Rewrite]:
    """`max(0.0, x)` without its bound."""
    for bound, other in (node.args, node.args[::-1]):
        if isinstance(bound.value, cst.Integer | cst.Float) and other.keyword is None and not other.star:
            yield "drop clamp", node, _closed(other.value)


def _constants(node: cst.CSTNode) -> Iterator[Rewrite]:
    match node:
        case cst.Integer():
            number = node.evaluated_value
            for changed in (number + 1, number - 1) if number else (1,):
                yield "change number", node, cst.Integer(str(changed))
        case cst.Float():
            value = node.evaluated_value
            yield "change number", node, cst.Float(repr(value / 2 if value else 1.0))
        case cst.Name(value="True" | "False" as value):
            yield "flip boolean", node, cst.Name("False" if value == "True" else "True")
        case cst.SimpleString() if isinstance(node.evaluated_value, str):
            yield "change text", node, _literal(f"XX{node.evaluated_value}XX")


def _fixed_returns(returns: str, rewards: bool) -> Iterator[cst.BaseExpression]:
    """Constants that a function could return."""
    kinds = {part.strip().strip("\"'") for part in returns.split("|")}
    if "float" in kinds or (rewards and not returns):
        yield cst.Float("0.0")
        yield cst.Float("1.0")
    elif "int" in kinds:
        yield cst.Integer("0")
    elif "bool" in kinds:
        yield cst.Name("True")
        yield cst.Name("False")
    elif "str" in kinds:
        yield cst.SimpleString('""')
    if "None" in kinds or not (rewards or kinds & {"float", "int", "bool", "str"}):
        yield cst.Name("None")


def _like(old: cst.CSTNode, new: type[cst.CSTNode]) -> cst.CSTNode:
    """Another operator with the spaces of the old one."""
    fields = ("whitespace_before", "whitespace_after")
    spaces = {name: getattr(old, name) for name in fields if isinstance(getattr(old, name, None), cst.CSTNode)}
    if new in (cst.NotIn, cst.In, cst.Is, cst.IsNot, cst.And, cst.Or):
        one = cst.SimpleWhitespace(" ")
        spaces = {name: space if getattr(space, "value", " ") else one for name, space in spaces.items()}
    return new(**spaces)


def _closed(node: _Expression) -> _Expression:
    """The expression, in parentheses if another context requires them."""
    if isinstance(node, _LOOSE) and not node.lpar:
        return cast(_Expression, node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()]))
    return node


def _literal(text: str) -> cst.SimpleString:
    """Text as source, as a raw string if that avoids backslashes."""
    if "\\" in text and '"' not in text and "\n" not in text and not text.endswith("\\") and text.isprintable():
        return cst.SimpleString(f'r"{text}"')
    return cst.SimpleString(repr(text))


def _block(statement: cst.BaseSmallStatement) -> cst.IndentedBlock:
    return cst.IndentedBlock([cst.SimpleStatementLine([statement])])


def _is_text(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.SimpleString | cst.ConcatenatedString | cst.FormattedString)


def _returns_none(statement: cst.BaseSmallStatement | None) -> bool:
    if not isinstance(statement, cst.Return):
        return False
    return statement.value is None or (isinstance(statement.value, cst.Name) and statement.value.value == "None")


def _re_function(call: cst.Call) -> bool:
    match call.func:
        case cst.Attribute(value=cst.Name(value=module), attr=cst.Name(value=name)):
            return module in _RE_MODULES and name in _RE_FUNCTIONS
    return False


def _is_flags(argument: cst.Arg) -> bool:
    if isinstance(argument.keyword, cst.Name):
        return argument.keyword.value == "flags"
    value: cst.BaseExpression = argument.value
    while isinstance(value, cst.BinaryOperation):
        value = value.left
    return isinstance(value, cst.Attribute) and isinstance(value.value, cst.Name) and value.value.value in _RE_MODULES


def pattern_mutants(pattern: str) -> Iterator[str]:
    """Every pattern that differs from this one in one token and still compiles."""
    tokens = _TOKEN.findall(pattern)
    seen = {pattern}
    for index, token in enumerate(tokens):
        before = tokens[index - 1] if index else None
        for changed in _changes(token, before):
            text = "".join([*tokens[:index], changed, *tokens[index + 1 :]])
            if text not in seen and _compiles(text):
                seen.add(text)
                yield text


def _changes(token: str, before: str | None) -> Iterator[str]:
    if token in _ANCHORS:
        yield ""
    elif token in _OPPOSITES:
        yield _OPPOSITES[token]
    elif token == r"\.":
        yield "."
    elif before is not None and token[0] in "*+?{" and before not in ("(", "|"):
        yield from _repetitions(token)
    elif token.startswith("[^"):
        yield f"[{token[2:]}"
    elif token.startswith("["):
        yield f"[^{token[1:]}"


def _repetitions(token: str) -> Iterator[str]:
    """A count moved by one, a `+` that may be missing, an option that must not be there."""
    if count := _COUNT.fullmatch(token):
        low, comma, high, kind = count.groups()
        if not comma:
            yield f"{{{int(low or 0) + 1}}}{kind}"
            return
        if low and int(low):
            yield f"{{{int(low) - 1},{high}}}{kind}"
        if high:
            yield f"{{{low},{int(high) + 1}}}{kind}"
            if int(high) > int(low or 0):
                yield f"{{{low},{int(high) - 1}}}{kind}"
        return
    if token[0] == "+":
        yield f"*{token[1:]}"
    elif token[0] == "*":
        yield f"+{token[1:]}"
    else:
        yield ""
    if len(token) == 2 and token[1] == "?":
        yield token[0]


def _compiles(pattern: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(pattern)
    except (re.error, OverflowError, RecursionError):
        return False
    return True
