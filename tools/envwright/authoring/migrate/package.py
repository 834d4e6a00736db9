"""The files of a migrated package."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from textwrap import indent
from typing import Any

import libcst as cst
from libcst import matchers as m

from envwright.authoring.migrate.reading import (
    LOAD,
    MARK,
    TOOLS,
    TURNS,
    Original,
    Reward,
    code_of,
    function_named,
    marked,
    parsed,
    read,
)
from envwright.authoring.migrate.rewriting import lists_will_do, parts_of, rewritten

KEPT = (".toml", ".txt", ".json", ".jsonl", ".csv", ".yaml")
"""Data files of a package, copied unchanged."""
VERIFIERS = "verifiers>=0.4.0,<0.5"
REQUIRES_PYTHON = ">=3.11,<3.15"
KNOWN = {
    "completion": "completion_of(trace)",
    "prompt": "messages_of(trace)[0]",
    "answer": "self.data.answer",
    "info": "self.data.info",
    "task": "self.data.task",
    "parser": "parser",
    "state": "state_of(trace, answer=self.data.answer, info=self.data.info, task=self.data.task)",
}
"""Parameter of a reward function → the expression that gives its value in 0.4."""
TOOL_CALLS = '''    @vf.metric
    async def total_tool_calls(self, trace: vf.Trace) -> float:
        """How many tools the model called."""
        return float(sum(len(message.tool_calls or []) for message in trace.assistant_messages))
'''
NUM_TURNS = '''    @vf.metric
    async def num_turns(self, trace: vf.Trace) -> float:
        """How many messages the model wrote."""
        return float(len(trace.assistant_messages))
'''


def files_of(folder: Path, old: str, new: str) -> dict[str, str]:
    """The new package's files by path, made from the old package's folder; both names as in the registry.

    Raises `NotMovable` if the old package cannot be migrated.
    """
    was, becomes = old.replace("-", "_"), new.replace("-", "_")
    original = read(folder, was)
    home = parts_of(original)
    files = {
        f"{becomes}/__init__.py": init(original, new, becomes),
        f"{becomes}/plain.py": Path(__file__).with_name("plain.py.txt").read_text("utf-8"),
        f"{becomes}/taskset.py": taskset(original, new, becomes),
    }
    parts = [rewritten(original, original.home, becomes, home, also={"Parts"}).rstrip("\n")]
    parts += [marked(reason, code) for reason, code in original.unmoved]
    files[f"{becomes}/parts.py"] = "\n\n".join(parts).rstrip("\n") + "\n"
    for name, module in original.modules.items():
        if name not in ("", original.home):
            files[f"{becomes}/{name.replace('.', '/')}.py"] = rewritten(original, name, becomes, module)
    if original.kind == TURNS:
        files[f"{becomes}/env.py"] = environment(new, becomes)
    if original.kind == TOOLS:
        files[f"{becomes}/server.py"] = server(original, new, becomes)
        if has_environment(original):
            files[f"{becomes}/env.py"] = limited_environment(original, new)
    for path in sorted((folder / was).rglob("*")):
        if path.suffix in KEPT:  # bytes that are not UTF-8 become surrogates, which `write` turns back into these bytes
            files[f"{becomes}/{path.relative_to(folder / was)}"] = path.read_bytes().decode("utf-8", "surrogateescape")
    files["pyproject.toml"] = _pyproject((folder / "pyproject.toml").read_text("utf-8"), new, becomes, original)
    readme = folder / "README.md"
    page = readme.read_text("utf-8", "surrogateescape") if readme.is_file() else f"# {new}\n"
    files["README.md"] = _readme(page, old, new, original)
    for path in sorted((folder / "tests").glob("*")):
        name = path.name.replace(was, becomes)
        if path.suffix == ".py" and path.name.startswith("test_"):
            files[f"tests/{name}"] = _tests(parsed(path), original, becomes)
        elif path.suffix in (".py", ".yaml"):
            files[f"tests/{name}"] = path.read_bytes().decode("utf-8", "surrogateescape")
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


def _tests(module: cst.Module, original: Original, becomes: str) -> str:
    """The tests under the new name; those that load the environment are skipped, and marked."""
    body: list[Any] = []
    skipped = False
    for statement in module.body:
        if isinstance(statement, cst.FunctionDef) and LOAD in code_of(statement):
            skipped = True
            reason = f'@pytest.mark.skip(reason="{MARK}: this test loads the environment as verifiers 0.3 does")'
            mark = cst.Decorator(cst.parse_expression(reason[1:]))
            statement = statement.with_changes(decorators=[mark, *statement.decorators])
        body.append(statement)
    changed = module.with_changes(body=body)
    probe = replace(original, modules={**original.modules, "tests": changed})
    code = rewritten(probe, None, becomes, changed)
    missing = skipped and not m.findall(module, m.Import(names=[m.ImportAlias(m.Name("pytest"))]))
    return f"import pytest\n{code}" if missing else code


def class_name(name: str) -> str:
    """`date-arithmetic-v1` → `DateArithmeticV1`."""
    return "".join(word.capitalize() for word in name.split("-"))


def needs_more(pyproject: str) -> bool:
    """Whether a moved package depends on more than verifiers."""
    return len(tomllib.loads(pyproject)["project"]["dependencies"]) > 1


def init(original: Original, name: str, module: str) -> str:
    """__init__.py: the names that verifiers looks for."""
    base = class_name(name)
    exported = [f"{base}Env"] * has_environment(original) + [f"{base}Taskset"]
    lines = [f"from {module}.{'env' if one.endswith('Env') else 'taskset'} import {one}" for one in exported]
    return "\n".join(lines) + f"\n\n__all__ = [{', '.join(repr(one) for one in exported)}]\n".replace("'", '"')


def taskset(original: Original, name: str, module: str) -> str:
    """taskset.py: data, task with its rewards, and the taskset that loads them."""
    base, splits = class_name(name), "eval_dataset" in original.keywords
    rewards = list(_rewards(original))
    columns = sorted({column for one in original.rewards for column in one.parameters} - {*KNOWN, "kwargs"})
    used = "\n".join(rewards)
    imported = sorted(
        {"Parts", "opening"} | {one for one in ("completion_of", "messages_of", "state_of") if one in used}
    )
    lines = [f'"""{base}: moved from verifiers 0.3, reward for reward."""\n']
    lines += ["from functools import cached_property", f"from typing import Any{', Literal' if splits else ''}\n"]
    lines += ["import verifiers.v1 as vf\n"]
    lines += sorted([*_imports(original, module), f"from {module}.plain import {', '.join(imported)}"])
    lines += [f"from {module}.server import {base}Toolset, {base}ToolsetConfig"] if original.kind == TOOLS else []
    lines += ["", "", f"class {base}Config(vf.TasksetConfig):"]
    lines += [
        f"    {argument.name}: {argument.annotation}" + (f" = {argument.default}" if argument.default else "")
        for argument in original.arguments
    ]
    lines += ['    split: Literal["train", "eval"] = "train"'] if splits else []
    lines += [f"    tools: {base}ToolsetConfig = {base}ToolsetConfig()"] if original.kind == TOOLS else []
    lines += ["    pass"] if not original.arguments and not splits and original.kind != TOOLS else []
    lines += ["", "", f"class {base}Data(vf.TaskData):", '    answer: Any = ""', "    info: dict[str, Any] = {}"]
    lines += ['    task: str = "default"', *(f"    {column}: Any = None" for column in columns)]
    lines += ["", "", f"class {base}(vf.Task[{base}Data]):", "\n".join(rewards)]
    lines += [TOOL_CALLS] * (original.kind == TOOLS) + [NUM_TURNS]
    lines += ["", f"class {base}Taskset(vf.Taskset[{base}, {base}Config]):"]
    if original.kind == TOOLS:
        lines += ["    @classmethod", f"    def toolsets(cls, config: {base}Config) -> list[vf.Toolset]:"]
        lines += [f"        return [{base}Toolset(config.tools)]", ""]
    named = ", ".join(f"{argument.name}=self.config.{argument.name}" for argument in original.arguments)
    rows = (
        'self.made.eval_dataset if self.config.split == "eval" else self.made.dataset'
        if splits
        else "self.made.dataset"
    )
    lines += ["    @cached_property", "    def made(self) -> Parts:", f"        return parts({named})", ""]
    lines += [f"    def load(self) -> list[{base}]:", f"        rows = {rows}"]
    lines += ["        return [self.task(row) for row in rows]", ""]
    lines += [f"    def task(self, row: dict[str, Any]) -> {base}:"]
    lines += [
        "        known = {name: value for name, value in row.items() if name in " + f"{base}Data.model_fields" + "}"
    ]
    lines += [
        f"        data = {base}Data(",
        '            **known | {"prompt": opening(row, self.made), "system_prompt": self.made.system_prompt}',
        "        )",
    ]
    lines += [f"        return {base}(data, self.config.task)", ""]
    return "\n".join(lines)


def has_environment(original: Original) -> bool:
    """Whether the interaction differs from the default of verifiers."""
    return original.kind == TURNS or (original.kind == TOOLS and (original.most_turns or 0) > 0)


def limited_environment(original: Original, name: str) -> str:
    """env.py of an environment with tools: the limit of turns."""
    base = class_name(name)
    return f'''"""The limit of turns."""

import verifiers.v1 as vf


class {base}EnvConfig(vf.EnvConfig):
    agent: vf.AgentConfig = vf.AgentConfig(max_turns={original.most_turns})


class {base}Env(vf.Env[{base}EnvConfig]):
    """One agent, which calls tools until it answers or its turns are used up."""

    async def run(self, task: vf.Task, agents: vf.Agents) -> None:
        await agents.agent.run(task)
'''


def environment(name: str, module: str) -> str:
    """env.py: the interaction loop of a multi-turn environment."""
    base = class_name(name)
    return f'''"""The environment's side of the conversation."""

import verifiers.v1 as vf

from {module}.plain import Message, kept, messages_of, text_of
from {module}.taskset import {base}Data


class {base}Env(vf.SingleAgentEnv):
    """Alternates the model's turns and the environment's replies, until one of its stops is reached."""

    async def run(self, task: vf.Task[{base}Data], agents: vf.Agents) -> None:
        turns = self.taskset.made.turns
        data = task.data
        state = {{"answer": data.answer, "info": data.info, "task": data.task, "completion": [], "trajectory": []}}
        async with agents.agent.interaction(task) as conversation:
            segment = await conversation.turn()
            state["prompt"] = messages_of(conversation.trace)[0]
            state = await turns.setup_state(state) or state
            while not segment.terminated:
                said = [Message(message.model_dump(mode="json", exclude_none=True)) for message in segment.messages]
                state["trajectory"].append({{"prompt": [*state["prompt"], *state["completion"]], "completion": said}})
                state["completion"] += said
                state["turn"] = len(state["trajectory"])
                if await turns.is_over(state):
                    break
                answer = await turns.said(state)
                state["completion"] += [Message(message) for message in answer]
                segment = await conversation.turn("\\n".join(text_of(message) for message in answer))
            conversation.trace.info["state"] = kept(state)
'''


def server(original: Original, name: str, module: str) -> str:
    """server.py: the tools as methods of a toolset, under their former names."""
    tools = original.keywords.get("tools")
    named = [code_of(element.value) for element in tools.elements] if isinstance(tools, (cst.List, cst.Tuple)) else []
    methods, imports = [], []
    for tool in named:
        found = function_named(original, tool)
        if found is None:
            methods.append(marked(f"The tool {tool} is not a function of a module.", tool, "    "))
            continue
        key, function = found
        tool = function.name.value
        imports.append(f"from {module}.{'parts' if key == original.home else key} import {tool}")
        parameters = [parameter.name.value for parameter in function.params.params]
        signature = cst.Module([]).code_for_node(function.params)
        wait = "await " if function.asynchronous is not None else ""
        document = indent(function.get_docstring() or f"{tool}.", " " * 8).strip()
        body = [f"    @vf.tool\n    async def {tool}(self, {signature}) -> str:", f'        """{document}"""']
        body += [f"        return str({wait}{tool}({', '.join(parameters)}))\n"]
        methods.append("\n".join(body))
    if not named:
        methods.append(marked("The tools are not listed in place.", code_of(tools) if tools else "no tools", "    "))
    base = class_name(name)
    head = ['"""The tools of the model."""\n', "import verifiers.v1 as vf\n", *sorted(imports), "", ""]
    head += [f"class {base}ToolsetConfig(vf.SharedToolsetConfig):", "    pass", "", ""]
    head += [f"class {base}Toolset(vf.Toolset[{base}ToolsetConfig]):", "    TOOL_PREFIX = None\n", "\n".join(methods)]
    return "\n".join([*head, "", 'if __name__ == "__main__":', f"    {base}Toolset.run()", ""])


def _imports(original: Original, module: str) -> list[str]:
    """The imports of the taskset's own modules."""
    wanted: dict[str, set[str]] = {f"{module}.parts": {"parts", "parser"} if original.parsers else {"parts"}}
    for reward in original.rewards:
        if reward.function is not None and not reward.nested:
            place = f"{module}.{'parts' if reward.module == original.home else reward.module}"
            wanted.setdefault(place, set()).add(reward.code)
    return [f"from {place} import {', '.join(sorted(names))}" for place, names in sorted(wanted.items())]


def _rewards(original: Original) -> Iterator[str]:
    """A method for each function of the rubric, or a mark if it cannot be called."""
    for reward in original.rewards:
        name, function = reward.code, reward.function
        if reward.of_parser:
            yield _method(reward, "Whether the form is kept.", "parser.format_reward_func(completion_of(trace))")
            continue
        if function is None or reward.nested:
            reason = "is not a function that this package defines in one place"
            reason = reason if function is None else f"uses local variables of {LOAD}, or has a name of its module"
            code = name if function is None else code_of(function)
            yield marked(f"The reward {name} {reason}, weight {reward.weight}.", code, "    ")
            continue
        given = ", ".join(f"{one}={KNOWN.get(one, f'self.data.{one}')}" for one in reward.parameters)
        wait = "await " if function.asynchronous is not None else ""
        document = (function.get_docstring() or f"{name.replace('_', ' ').capitalize()}.").splitlines()[0]
        yield _method(reward, document, f"{wait}{name}({given})")


def _method(reward: Reward, document: str, value: str) -> str:
    is_metric = re.fullmatch(r"0+(\.0*)?", reward.weight) is not None
    decorator = "@vf.metric" if is_metric else f"@vf.reward(weight={reward.weight})"
    return "\n".join([
        f"    {decorator}", f"    async def {reward.code}(self, trace: vf.Trace) -> float:",
        f'        """{document}"""',
        f"        return float({value})", "",
    ])  # fmt: skip
