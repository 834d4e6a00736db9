"""The files of a migrated package."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import libcst as cst
from libcst import matchers as m

from envwright.authoring.migrate import rendering
from envwright.authoring.migrate.reading import LOAD, TOOLS, TURNS, Original, code_of, read
from envwright.authoring.migrate.rewriting import lists_will_do, parts_of, rewritten, unmoved_places
from envwright.authoring.migrate.unfinished import MARK

KEPT = (".toml", ".txt", ".json", ".jsonl", ".csv", ".yaml")
"""Data files of a package, copied unchanged."""
VERIFIERS = "verifiers>=0.4.0,<0.5"
REQUIRES_PYTHON = ">=3.11,<3.15"


def files_of(folder: Path, old: str, new: str) -> dict[str, str]:
    """The new package's files by path, made from the old package's folder; both names as in the registry.

    Raises `NotMovable` if the old package cannot be migrated.
    """
    was, becomes = old.replace("-", "_"), new.replace("-", "_")
    original = read(folder, was)
    home = parts_of(original)
    files = {
        f"{becomes}/__init__.py": rendering.init(original, new, becomes),
        f"{becomes}/plain.py": rendering.plain(),
        f"{becomes}/taskset.py": rendering.taskset(original, new, becomes, home.reachable),
    }
    parts = rewritten(original, original.home, was, becomes, home.module, also={"Parts"})
    files[f"{becomes}/parts.py"] = "\n\n".join([parts.rstrip("\n"), *unmoved_places(original)]).rstrip("\n") + "\n"
    for name in original.modules:
        if name not in ("", original.home):
            files[f"{becomes}/{name.replace('.', '/')}.py"] = rewritten(original, name, was, becomes)
    if original.kind == TURNS:
        files[f"{becomes}/env.py"] = rendering.environment(new, becomes)
    if original.kind == TOOLS:
        files[f"{becomes}/server.py"] = rendering.server(original, new, becomes)
        if rendering.has_environment(original):
            files[f"{becomes}/env.py"] = rendering.limited_environment(original, new)
    for path in sorted((folder / was).rglob("*")):
        if path.suffix in KEPT:
            files[f"{becomes}/{path.relative_to(folder / was)}"] = path.read_text("utf-8")
    files |= _surroundings(folder, original, old, new)
    return files


def needs_more(pyproject: str) -> bool:
    """Whether a moved package depends on more than verifiers."""
    return len(tomllib.loads(pyproject)["project"]["dependencies"]) > 1


def _surroundings(folder: Path, original: Original, old: str, new: str) -> dict[str, str]:
    """pyproject.toml, README and tests."""
    was, becomes = old.replace("-", "_"), new.replace("-", "_")
    files = {"pyproject.toml": _pyproject((folder / "pyproject.toml").read_text("utf-8"), new, becomes, original)}
    readme = folder / "README.md"
    page = readme.read_text("utf-8") if readme.is_file() else f"# {new}\n"
    files["README.md"] = _readme(page, old, new, original)
    for path in sorted((folder / "tests").glob("*")):
        name = path.name.replace(was, becomes)
        if path.suffix == ".py" and path.name.startswith("test_"):
            files[f"tests/{name}"] = _tests(path.read_text("utf-8"), original, was, becomes)
        elif path.suffix in (".py", ".yaml"):
            files[f"tests/{name}"] = path.read_text("utf-8")
    return files


def _pyproject(text: str, new: str, module: str, original: Original) -> str:
    """The project's new table, with the declarations of answers and rewards unchanged."""
    known = tomllib.loads(text)
    project: dict[str, Any] = known["project"]
    wanted = [VERIFIERS, *(one for one in project.get("dependencies", []) if not _replaced(one, original))]
    tags = ", ".join(f'"{tag}"' for tag in project.get("tags", []))
    lines = ["[project]", f'name = "{new}"', f'version = "{project.get("version", "0.1.0")}"']
    lines += [f'description = "{project.get("description", "")}"', 'readme = "README.md"']
    lines += [f'license = "{project["license"]}"'] if isinstance(project.get("license"), str) else []
    lines += [f'requires-python = "{REQUIRES_PYTHON}"', f"tags = [{tags}]"]
    lines += [f"dependencies = [{', '.join(repr(one) for one in wanted)}]".replace("'", '"'), ""]
    lines += ["[build-system]", 'requires = ["hatchling>=1.27,<2"]', 'build-backend = "hatchling.build"', ""]
    lines += ["[tool.hatch.build.targets.wheel]", f'packages = ["{module}"]', ""]
    for table in ("tool.envwright.answer", "tool.envwright.reward"):  # only vf-eval of 0.3 reads tool.verifiers.eval
        found = re.search(rf"^\[{re.escape(table)}\]\n(?:(?!\[).*\n?)*", text, re.MULTILINE)
        lines += [found[0].rstrip("\n"), ""] if found is not None else []
    return "\n".join(lines)


def _replaced(requirement: str, original: Original) -> bool:
    """Whether a dependency is no longer needed: verifiers 0.3, and datasets for plain lists."""
    name = re.split(r"[<>=!~ \[;]", requirement)[0].lower()
    if name == "datasets":
        sources = "".join(module.code for module in original.modules.values())
        made = re.search(r"load_dataset|Dataset\.(?!from_list)|load_example_dataset", sources)
        return made is None and lists_will_do(original)
    return name == "verifiers"


def _readme(text: str, old: str, new: str, original: Original) -> str:
    """The README under the new name, with the options of the new command line."""
    command = "--env.agent.harness.id null --env.agent.runtime.type subprocess --no-push"
    text = re.sub(rf"(?<![\w-]){re.escape(old)}(?![\w-])", new, text)
    text = re.sub(rf"^(vf-eval {re.escape(new)} .*?)(?: -a .*)?$", rf"\1 {command}", text, flags=re.MULTILINE)
    for argument in original.arguments:
        option = f"--env.taskset.{argument.name.replace('_', '-')}"
        text = text.replace(f"| `{argument.name}` |", f"| `{option}` |")
    return text


def _tests(text: str, original: Original, was: str, becomes: str) -> str:
    """The tests under the new name; those that load the environment are skipped, and marked."""
    module = cst.parse_module(text)
    body: list[Any] = []
    skipped = False
    for statement in module.body:
        uses = isinstance(statement, cst.FunctionDef) and LOAD in code_of(statement)
        if uses and isinstance(statement, cst.FunctionDef):
            skipped = True
            reason = f'@pytest.mark.skip(reason="{MARK}: this test loads the environment as verifiers 0.3 does")'
            mark = cst.Decorator(cst.parse_expression(reason[1:]))
            statement = statement.with_changes(decorators=[mark, *statement.decorators])
        body.append(statement)
    changed = module.with_changes(body=body)
    probe = Original({**original.modules, "tests": changed}, original.home, original.load, original.kind, original.made,
                     original.turns, {}, [], [])  # fmt: skip
    code = rewritten(probe, "tests", was, becomes, changed)
    missing = skipped and not m.findall(module, m.Import(names=[m.ImportAlias(m.Name("pytest"))]))
    return f"import pytest\n{code}" if missing else code
