"""`envwright completion`: the completion of commands, options and names for a shell."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from envwright import exit_codes
from envwright.cli.main import COMMANDS, GROUPS, declare_arguments

EXAMPLES = """examples:
  envwright completion bash    for ~/.local/share/bash-completion/completions/envwright
  envwright completion zsh     for ~/.zfunc/_envwright, with fpath+=~/.zfunc before compinit in ~/.zshrc
  envwright completion fish    for ~/.config/fish/completions/envwright.fish
"""
SHELLS = ("bash", "zsh", "fish")
NAMES = "NAME"
"""The metavar of an argument that takes names of environments."""
_LIST_NAMES = {
    "bash": """
_envwright_names() {
  local file
  for file in environments/*/pyproject.toml; do
    file=${file%/*} file=${file##*/} file=${file//_/-}
    # no name has other characters, which the shell may run: compgen -W would do so here
    [[ $file == "$1"* && $file != *[!A-Za-z0-9-]* ]] && echo "$file"
  done
}
""",
    "zsh": """
_envwright_names() {
  local -a names
  names=(environments/*/pyproject.toml(N:h:t))
  compadd -- ${names//_/-}
}
""",
    "fish": "",
}
"""A function of the shell that lists the environments of the current folder."""


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("shell", choices=SHELLS, help="the shell that reads the script")


def run(options: argparse.Namespace) -> int:
    import shtab

    print(shtab.complete(completed_parser(), options.shell, preamble=_LIST_NAMES[options.shell]), end="")
    return exit_codes.PASS


def completed_parser() -> argparse.ArgumentParser:
    """The command line as it is completed: the second words of commands are commands below the first."""
    top = argparse.ArgumentParser(prog="envwright")
    top.add_argument("--version", action="store_true", help="show the version and exit")
    words = dict.fromkeys(name.partition(" ")[0] for name in COMMANDS)
    commands = top.add_subparsers()
    for word in words:
        added = commands.add_parser(word, help=COMMANDS[word].summary if word in COMMANDS else GROUPS[word])
        further = [name.removeprefix(f"{word} ") for name in COMMANDS if name.startswith(f"{word} ")]
        if further:
            below = added.add_subparsers()
            for second in further:
                name = f"{word} {second}"
                _add_arguments(below.add_parser(second, help=COMMANDS[name].summary), name)
        if word in COMMANDS:
            _add_arguments(added, word)
    return top


def _add_arguments(added: argparse.ArgumentParser, name: str) -> None:
    import shtab

    added.set_defaults(command=name)
    declare_arguments(added, name)
    for action in added._actions:
        chosen: Any = None
        if action.metavar == NAMES and not action.option_strings:
            chosen = {"bash": "_envwright_names", "zsh": "_envwright_names"}
        elif action.type is Path:
            chosen = shtab.FILE
        if chosen is not None:
            action.complete = chosen  # type: ignore[attr-defined] # shtab reads it
