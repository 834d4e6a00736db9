"""The shards of a run as an array of Slurm or as an indexed Job of Kubernetes.

Each task validates its own shard in the same checkout and writes its own report, which `envwright report merge` joins.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

import yaml

JOB_NAME = "envwright-validate"
REPORTS = "reports/shards"
CORES = 2
LEAST_MINUTES = 30
"""The shortest time limit; the limit is three times what the longest shard is expected to take."""


@dataclass(frozen=True)
class ShardTask:
    """What one machine validates."""

    index: int
    names: Sequence[str]
    runs: Sequence[str]
    seconds: float


def slurm_script(tasks: Sequence[ShardTask], command: str) -> str:
    """A script for sbatch; `command` begins a validation, such as `envwright validate`."""
    minutes = max(LEAST_MINUTES, round(max(task.seconds for task in tasks) * 3 / 60))
    head = (
        "#!/bin/bash",
        f"#SBATCH --job-name={JOB_NAME}",
        f"#SBATCH --array=1-{len(tasks)}",
        f"#SBATCH --cpus-per-task={CORES}",
        f"#SBATCH --time={minutes}",
        f"#SBATCH --output={JOB_NAME}-%a.log",
        "# Submit it in the checkout that it was written for: every task works there.",
        'cd "${SLURM_SUBMIT_DIR:?}" || exit 4',
    )
    return "\n".join((*head, *_body(tasks, command, "${SLURM_ARRAY_TASK_ID:?}"), ""))


def kubernetes_job(tasks: Sequence[ShardTask], command: str, image: str, claim: str) -> str:
    """A manifest for kubectl. The checkout is on the volume of a claim, and the image has the tool."""
    script = "\n".join((*_body(tasks, command, "$((${JOB_COMPLETION_INDEX:?} + 1))"), ""))
    container = {
        "name": "validate",
        "image": image,
        "workingDir": "/checkout",
        "command": ["/bin/bash", "-c", _Script(script)],
        "env": [{"name": "HOME", "value": "/tmp"}],
        "envFrom": [{"configMapRef": {"name": "envwright", "optional": True}}],
        "resources": {"requests": {"cpu": str(CORES)}},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [{"name": "checkout", "mountPath": "/checkout"}],
    }
    pod = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,  # code of environments runs here
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
        "volumes": [{"name": "checkout", "persistentVolumeClaim": {"claimName": claim}}],
    }
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": JOB_NAME},
        "spec": {
            "completionMode": "Indexed",
            "completions": len(tasks),
            "parallelism": len(tasks),
            "backoffLimitPerIndex": 0,  # a failed gate is not a machine failure: the other shards continue
            "template": {"spec": pod},
        },
    }
    return yaml.dump(job, Dumper=_Dumper, sort_keys=False)


def _body(tasks: Sequence[ShardTask], command: str, number: str) -> list[str]:
    """The lines that validate the shard with this number."""
    cases = [f"{task.index}) set -- {_arguments(task)} ;;" for task in tasks]
    return [
        f'shard="{number}"',
        'case "$shard" in',
        *cases,
        '*) echo "there is no shard $shard: write the script again" >&2; exit 2 ;;',
        "esac",
        f'exec {command} "$@" --reports "{REPORTS}/$shard"',
    ]


def _arguments(task: ShardTask) -> str:
    runs = ["--runs", *task.runs] if task.runs else []
    return shlex.join([*task.names, *runs])


class _Script(str):
    """Text with lines of its own in YAML."""


class _Dumper(yaml.SafeDumper):
    """Writes scripts line by line."""


def _lines(dumper: yaml.SafeDumper, text: _Script) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|")


_Dumper.add_representer(_Script, _lines)
