"""Checkouts and packages in place of the trainers, for scripts that are run with the real uv: all of it is on disk.

Each trainer is a program that records its interpreter, arguments and packages.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

RECORDER = """\
import json, os, sys
from importlib.metadata import distributions
packages = {each.metadata["Name"]: each.version for each in distributions()}
with open(os.environ["RECORDED"], "w") as file:
    json.dump({"prefix": sys.prefix, "arguments": sys.argv[1:], "packages": packages}, file)
sys.exit(0)
"""
BACKEND = """\
import zipfile

def get_requires_for_build_wheel(config_settings=None):
    return []

def build_wheel(directory, config_settings=None, metadata_directory=None):
    info = "{module}-0.1.0.dist-info"
    with zipfile.ZipFile(f"{{directory}}/{module}-0.1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("{module}.py", "{code}")
        wheel.writestr(f"{{info}}/METADATA", "Metadata-Version: 2.1\\nName: {name}\\nVersion: 0.1.0\\n{requires}")
        wheel.writestr(f"{{info}}/WHEEL", "Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\n")
        wheel.writestr(f"{{info}}/RECORD", "")
    return "{module}-0.1.0-py3-none-any.whl"
"""


def wheel(folder: Path, name: str, version: str, files: dict[str, str], metadata: str = "", scripts: str = "") -> Path:
    """A wheel of these files."""
    module = name.replace("-", "_")
    info, path = f"{module}-{version}.dist-info", folder / f"{module}-{version}-py3-none-any.whl"
    folder.mkdir(parents=True, exist_ok=True)
    about = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{metadata}"
    with zipfile.ZipFile(path, "w") as archive:
        for file, text in {**files, f"{info}/METADATA": about, f"{info}/entry_points.txt": scripts}.items():
            archive.writestr(file, text)
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\n")
        archive.writestr(f"{info}/RECORD", "")
    return path


def write_wheels(folder: Path) -> None:
    """The packages that scripts install from an index."""
    wheel(
        folder,
        "verifiers",
        "0.1.9.post3",
        {"verifiers.py": "", "vf_rl.py": RECORDER},
        "Provides-Extra: rl\n",
        "[console_scripts]\nvf-rl = vf_rl:main\n",
    )
    recipe = "tinker_cookbook/recipes/verifiers_rl/train.py"
    wheel(folder, "tinker-cookbook", "0.6.1", {recipe: RECORDER}, "Provides-Extra: verifiers\n")


def write_environment(folder: Path, name: str, requires: str = "", code: str = "") -> None:
    """An environment package, with at most one requirement and one line, whose wheel needs no downloaded backend."""
    module = name.replace("-", "_")
    (folder / module).mkdir(parents=True, exist_ok=True)
    project = f'[project]\nname = "{name}"\nversion = "0.1.0"\n'
    project += f'dependencies = ["{requires}"]\n' if requires else ""
    needed = f"Requires-Dist: {requires}\\n" if requires else ""
    build = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    (folder / module / "pyproject.toml").write_text(project + build)
    (folder / module / "backend.py").write_text(BACKEND.format(module=module, name=name, requires=needed, code=code))


def write_checkout(folder: Path, variables: dict[str, str]) -> None:
    """One folder that is a checkout of prime-rl and rLLM alike, with its own virtual environment."""
    folder.mkdir()
    oldest = f"{sys.version_info[0]}.{sys.version_info[1]}"
    project = f'[project]\nname = "trainer"\nversion = "1"\nrequires-python = ">={oldest}"\n'
    (folder / "pyproject.toml").write_text(f"{project}[tool.uv]\npackage = false\n")
    files = {
        "hydra.py": RECORDER,
        "examples/verifiers_env/train.py": RECORDER,
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    make_environment(folder / ".venv", variables)
    program = folder / ".venv" / "bin" / "rl"
    program.write_text(f"#!{folder}/.venv/bin/python\n{RECORDER}")
    program.chmod(0o755)


def make_environment(folder: Path, variables: dict[str, str]) -> None:
    """An empty virtual environment."""
    command = [uv(), "venv", "--quiet", "--python", sys.executable, str(folder)]
    subprocess.run(command, env=variables, check=True, capture_output=True)


def uv() -> str:
    """The real uv, of the tests' own environment."""
    found = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    assert found is not None, "the tests' lock brings uv"
    return found
