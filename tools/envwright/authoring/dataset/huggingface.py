"""Datasets of the Hugging Face Hub, streamed, so that only the needed rows of a large one are read."""

from __future__ import annotations

import os
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.client import HTTPException
from typing import Any

from envwright.authoring.dataset.source import DatasetRow, DatasetSource, DatasetSplit, SourceProblem
from envwright.system.installation import command_with

MOST_ROWS = 10_000
"""Rows of a split that are read by default."""
SITE = "https://huggingface.co"
WEB = f"{SITE}/datasets"
SECONDS = 10.0
"""Seconds for the Hub's answer whether a dataset exists."""


def is_dataset(name: str) -> bool:
    """Whether a public dataset of this name is on the Hub; also false if the Hub cannot be reached."""
    address = f"{os.environ.get('HF_ENDPOINT') or SITE}/api/datasets/{name}"
    try:
        with urllib.request.urlopen(address, timeout=SECONDS) as answer:
            return bool(answer.status == 200)
    except (OSError, HTTPException, ValueError):  # URLError is an OSError
        return False


def open_hub(name: str, config: str = "", split: str = "", revision: str = "") -> DatasetSource:
    """A dataset of the Hub at the current commit of the revision.

    Raises `SourceProblem` if it is missing, gated, out of reach, or has several configurations and none is named.
    """
    try:
        import datasets
        from huggingface_hub import HfApi
        from huggingface_hub.constants import is_offline_mode
    except ImportError:
        remedy = (
            f"Run it with the package: {command_with('inspect', f'envwright inspect {name}')}, or pip install datasets."
        )
        raise SourceProblem(f"{name}: reading the Hub needs the package datasets", remedy) from None
    datasets.disable_progress_bars()
    with _explained(name, revision):
        offline = is_offline_mode()
        details: dict[str, str] = {}
        commit = revision
        if not offline:
            info = HfApi().dataset_info(name, revision=revision or None)
            commit = str(info.sha)
            licence = getattr(info.card_data, "license", None) if info.card_data else None
            details = {"licence": str(licence)} if licence else {}
        config = config or _only_config(datasets, name, commit)
        # Offline only the cache can answer, and streaming does not use it.
        found = datasets.load_dataset(name, config, revision=commit or None, streaming=not offline)
    if split and split not in found:
        raise SourceProblem(f"{name} has no split {split}", f"It has {', '.join(found)}.")
    names = [split] if split else list(found)
    splits = tuple(DatasetSplit(one, partial(_rows, name, commit, found[one])) for one in names)
    return DatasetSource(name, splits, commit, config, details)


def _only_config(datasets: Any, name: str, commit: str) -> str:
    names = list(datasets.get_dataset_config_names(name, revision=commit or None))
    if len(names) > 1:
        shown = ", ".join(names[:20]) + (", …" if len(names) > 20 else "")
        raise SourceProblem(f"{name} has {len(names)} configurations", f"Choose one with --config: {shown}")
    return str(names[0]) if names else "default"


def _rows(name: str, commit: str, split: Any) -> Iterator[DatasetRow]:
    """Rows, with the names of labels instead of their numbers."""
    features = split.features or {}
    named: dict[str, Callable[[int], str]] = {
        column: feature.int2str for column, feature in features.items() if hasattr(feature, "int2str")
    }
    with _explained(name, commit):
        for row in split:
            yield {
                column: named[column](value) if column in named and isinstance(value, int) and value >= 0 else value
                for column, value in row.items()
            }


@contextmanager
def _explained(name: str, revision: str) -> Iterator[None]:
    """Turn errors of the Hub into `SourceProblem` with a reason and a remedy."""
    from huggingface_hub import errors
    from huggingface_hub.constants import is_offline_mode

    page = f"{WEB}/{name}"
    try:
        yield
    except SourceProblem:
        raise
    except Exception as error:
        causes = list(_causes(error))

        def among(*kinds: type[BaseException]) -> bool:
            return any(isinstance(cause, kinds) for cause in causes)

        message = str(error).strip().splitlines()[0][:300] if str(error).strip() else type(error).__name__
        token = "is set" if os.environ.get("HF_TOKEN") else "is not set"
        reason = f"{name} cannot be read: {type(error).__name__}: {message}"
        remedy = f"Check {page}, or name a local file."
        if among(errors.GatedRepoError):
            reason = f"{name} is gated: {message}"
            remedy = f"Accept its terms at {page}, then set HF_TOKEN to a token of that account (HF_TOKEN {token})."
        elif among(errors.RevisionNotFoundError):
            reason = f"{name} has no revision {revision}"
            remedy = f"Name a commit, tag or branch; {page}/commits shows them."
        elif among(errors.RepositoryNotFoundError) or type(error).__name__ == "DatasetNotFoundError":
            reason = f"{name} does not exist on the Hub, or is private"
            remedy = f"Check the spelling at {page}. A private one needs HF_TOKEN, which {token}."
        elif is_offline_mode() and among(ConnectionError, FileNotFoundError):
            reason = f"{name} is not in the cache, and HF_HUB_OFFLINE is set"
            remedy = "Unset HF_HUB_OFFLINE, or read it once online, so that it is cached (HF_HOME)"
            remedy += ", or name a local file."
        elif among(ConnectionError, TimeoutError) or any("Connect" in type(cause).__name__ for cause in causes):
            reason = f"{name}: the Hub cannot be reached: {message}"
            remedy = "Check the network and HF_ENDPOINT, or name a local file that you downloaded."
        elif "dataset script" in message.lower():
            reason = f"{name} requires a loading script, which is not executed"
            remedy = "Use the converted files: --revision refs/convert/parquet."
        raise SourceProblem(reason, remedy) from None


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    for _ in range(10):
        if error is not None:
            yield error
            error = error.__cause__ or error.__context__
