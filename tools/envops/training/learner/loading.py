"""A real model and its tokenizer, by transformers; nothing of the model author's code is run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from envops.training.learner.settings import LearnerSettings, UnfitSettings

GOT_BY = ("model", "revision", "dtype", "attn_implementation")


@dataclass(frozen=True)
class LoadedModel:
    """A model that can speak."""

    model: Any
    tokenizer: Any
    ends: tuple[int, ...]
    """Every token that ends a reply: the tokenizer's own, and those that the model's generation names."""


def loaded_model(settings: LearnerSettings, root: Path) -> LoadedModel:
    """Load what the settings name: a folder below `root`, or a name on the Hugging Face Hub.

    All weights are trained in single precision, of which a small learning rate is left something; below an adapter
    they stay as they were saved on a GPU. Raises `UnfitSettings` where it cannot be loaded.
    """
    name = _folder(settings.model, root)
    given = dict(settings.grpo.get("model_init_kwargs") or {})
    if unknown := set(given) - set(GOT_BY):
        raise UnfitSettings(f"grpo.model_init_kwargs: only {', '.join(GOT_BY[1:])} are taken, not {min(unknown)}")
    whole = settings.lora is None or not torch.cuda.is_available()
    dtype = given.pop("dtype", "float32" if whole else "auto")
    revision: Mapping[str, Any] = {"revision": given["revision"]} if "revision" in given else {}
    try:
        tokenizer = AutoTokenizer.from_pretrained(name, trust_remote_code=False, padding_side="left", **revision)
        model = AutoModelForCausalLM.from_pretrained(name, trust_remote_code=False, dtype=dtype, **given)
    except (OSError, ValueError) as error:
        raise UnfitSettings(f"the model {settings.model} cannot be loaded: {str(error).strip()}") from None
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return LoadedModel(model, tokenizer, _ends(model, tokenizer))


def _folder(name: str, root: Path) -> str:
    """`./folder` and `/folder` are folders, everything else is a name on the Hub."""
    if not name.startswith((".", "/", "~")):
        return name
    folder = (root / Path(name).expanduser()).resolve()
    if not (folder / "config.json").is_file():
        raise UnfitSettings(f"the model {name}: {folder} holds no config.json")
    return str(folder)


def _ends(model: Any, tokenizer: Any) -> tuple[int, ...]:
    named = model.generation_config.eos_token_id
    listed = named if isinstance(named, list | tuple) else [] if named is None else [named]
    ends = tuple(dict.fromkeys(end for end in (tokenizer.eos_token_id, *listed) if end is not None))
    if not ends:
        raise UnfitSettings("neither the tokenizer nor the model names a token that ends a reply")
    return ends
