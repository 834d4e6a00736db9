"""Datasets of the Hub: why one cannot be read, and what to do. The real client against a server on loopback."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import datasets
import pytest
from dataset_hub import COMMIT, ROWS, dataset_hub
from datasets.exceptions import DataFilesNotFoundError
from envwright.authoring.dataset.source import SourceProblem, open_hub

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def envwright(tmp_path: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "HUGGING"))}
    own = {"PYTHONPATH": str(ROOT / "tools"), "HF_HOME": str(tmp_path), **environment}
    command = [sys.executable, "-m", "envwright", *arguments]
    return subprocess.run(command, env=kept | own, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize(
    ("arguments", "reason", "remedy"),
    [
        (["acme/gated"], "acme/gated is gated", "set HF_TOKEN"),
        (["acme/missing"], "does not exist on the Hub, or is private", "HF_TOKEN, which is not set"),
        (["acme/known", "--revision", "v9"], "has no revision v9", "commit, tag or branch"),
    ],
)
def test_open_hub_explains_refusals(tmp_path: Path, arguments: list[str], reason: str, remedy: str):
    with dataset_hub("acme/known", ROWS) as url:
        done = envwright(tmp_path, "inspect", *arguments, HF_ENDPOINT=url)
    assert (done.returncode, reason in done.stderr, remedy in done.stderr) == (2, True, True), done.stderr


def test_new_from_the_hub_names_the_commit(tmp_path: Path):
    rows = [{"question": f"What is {n} plus 1?", "answer": f"One more.\n#### {n + 1}"} for n in range(20)]
    root = tmp_path / "repository"
    shutil.copytree(ROOT / "environments" / "reverse_text", root / "environments" / "reverse_text")
    (root / "registry.yaml").write_text("version: 1\nowner: acme\nenvironments:\n  reverse-text: {}\n")
    with dataset_hub("acme/sums", rows) as url:
        looked = envwright(tmp_path, "inspect", "acme/sums", "--config", "main", HF_ENDPOINT=url)
        named = ("--dataset", "acme/sums", "--config", "main", "--root", str(root))
        made = envwright(tmp_path, "new", "more-sums", *named, HF_ENDPOINT=url)
    assert "numbers behind ####" in looked.stdout, looked.stderr
    assert made.returncode == 0, made.stderr
    package = root / "environments" / "more_sums"
    assert len((package / "more_sums/data/train.jsonl").read_text().splitlines()) == 20
    readme = (package / "README.md").read_text()
    assert COMMIT in readme
    assert "mit" in readme


@pytest.mark.parametrize(
    ("variable", "value", "reason", "remedy"),
    [
        ("HF_HUB_OFFLINE", "1", "is not in the cache, and HF_HUB_OFFLINE is set", "HF_HOME"),
        ("HF_ENDPOINT", "http://127.0.0.1:9", "the Hub cannot be reached", "HF_ENDPOINT"),
    ],
)
def test_open_hub_out_of_reach_is_not_missing(tmp_path: Path, variable: str, value: str, reason: str, remedy: str):
    done = envwright(tmp_path, "inspect", "acme/known", **{variable: value})
    assert (done.returncode, reason in done.stderr, remedy in done.stderr) == (2, True, True), done.stderr


def test_open_hub_dataset_without_data_is_not_reported_as_offline(monkeypatch: pytest.MonkeyPatch):
    message = "No (supported) data files found in acme/offline-transcripts"

    def found(*_: object, **__: object) -> None:
        raise DataFilesNotFoundError(message)

    monkeypatch.setattr("huggingface_hub.HfApi.dataset_info", lambda *_, **__: SimpleNamespace(sha="0", card_data=None))
    monkeypatch.setattr("datasets.load_dataset", found)
    with pytest.raises(SourceProblem, match=re.escape(f"cannot be read: DataFilesNotFoundError: {message}")):
        open_hub("acme/offline-transcripts", "main")


def test_open_hub_reads_labels_and_lists_of_labels_by_name(monkeypatch: pytest.MonkeyPatch):
    label = datasets.ClassLabel(names=["joy", "fear"])
    features = datasets.Features({"mood": label, "moods": datasets.Sequence(label)})
    rows = datasets.Dataset.from_dict({"mood": [1, -1], "moods": [[0, 1], []]}, features=features)
    monkeypatch.setattr("huggingface_hub.HfApi.dataset_info", lambda *_, **__: SimpleNamespace(sha="0", card_data=None))
    monkeypatch.setattr("datasets.load_dataset", lambda *_, **__: {"train": rows})
    (split,) = open_hub("acme/moods", "main").splits
    assert list(split.rows()) == [{"mood": "fear", "moods": ["joy", "fear"]}, {"mood": -1, "moods": []}]
