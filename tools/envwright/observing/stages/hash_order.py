"""Whether rewards could depend on the order of sets, which differs between processes.

Python hashes strings with a seed of the process. It reaches a reward only through `hash()` and
the order of sets, so a process with another seed, which costs an import of verifiers, is
started only where the package's own code has either in a place where it could matter.
"""

from __future__ import annotations

import ast
from pathlib import Path

from envwright.declarations.package import Package
from envwright.text.python_source import parse_python

OTHER_SEED = 4711
_MAKERS = {"set", "frozenset", "hash"}
_ORDERLESS = {"len", "sorted", "any", "all", "bool", "isinstance", "set", "frozenset", "issubset", "issuperset"}


def follows_hash_order(package: Package) -> bool:
    """Whether a source of the package makes a set, or a hash, whose order or value could matter."""
    sources = [name for name in package.files if name.endswith(".py") and not name.startswith("tests/")]
    return any(_follows(package.folder / name) for name in sources)


def _follows(path: Path) -> bool:
    try:
        tree = parse_python(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return False
    parents = {child: parent for parent in ast.walk(tree) for child in ast.iter_child_nodes(parent)}
    return any(_is_made(node) and not _is_harmless(node, parents) for node in ast.walk(tree))


def _is_made(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        return _name(node.func) in _MAKERS
    return isinstance(node, (ast.Set, ast.SetComp))


def _name(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _is_harmless(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> bool:
    """Whether only the set's content can matter, and not its order."""
    parent = parents.get(node)
    if isinstance(node, ast.Call) and _name(node.func) == "hash":
        return False
    if isinstance(parent, ast.Compare):
        return True
    if isinstance(parent, (ast.BinOp, ast.BoolOp, ast.UnaryOp)):
        return _is_harmless(parent, parents)
    if isinstance(parent, ast.Call) and node in parent.args:
        return _name(parent.func) in _ORDERLESS
    return False
