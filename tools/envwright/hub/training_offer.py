"""Models and GPUs of hosted training, as `prime train models` and `prime train gpus` list them."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from envwright.hub.access import HubAccess, Prime
from envwright.hub.client import HubAnswer, HubCall, call_hub


@dataclass(frozen=True)
class TrainingOffer:
    """Models and GPUs; empty if the platform lists none, or the lists could not be read."""

    models: tuple[str, ...] = ()
    """Models that are stored on a cluster already; others are downloaded first."""
    gpus: Mapping[str, float | None] = field(default_factory=dict)
    """GPU type → dollars for one hour of one GPU; `None` for reserved GPUs, which have no such price."""
    unread: str = ""
    """Why a list could not be read."""


def read_training_offer(prime: Prime, access: HubAccess, stop: threading.Event) -> TrainingOffer:
    """The models and GPUs that the key, or its team, can train with.

    Raises `HubUnavailable` and `Interrupted`.
    """
    params = {"team_id": access.team} if access.team else None
    calls = [
        HubCall("models", "/training/available-fft-models", params),
        HubCall("gpus", "/training/available-gpu-types", params),
    ]
    answers = call_hub(prime, access, calls, stop)
    models, gpus = _object(answers["models"]), _object(answers["gpus"])
    prices: dict[str, float | None] = {str(each): None for each in _rows(gpus, "gpuTypes") if isinstance(each, str)}
    for each in _rows(models, "onDemand"):
        price = each.get("pricePerGpuHour") if isinstance(each, Mapping) else None
        if isinstance(price, int | float) and each.get("gpuType"):
            prices[str(each["gpuType"])] = float(price)
    names = (str(each["name"]) for each in _rows(models, "models") if isinstance(each, Mapping) and each.get("name"))
    failed = [answers[part].message for part in ("models", "gpus") if answers[part].outcome not in ("ok", "missing")]
    return TrainingOffer(tuple(dict.fromkeys(names)), prices, "; ".join(failed))


def _object(answer: HubAnswer) -> Mapping[str, Any]:
    return answer.data if answer.outcome == "ok" and isinstance(answer.data, Mapping) else {}


def _rows(values: Mapping[str, Any], key: str) -> list[Any]:
    found = values.get(key)
    return found if isinstance(found, list) else []
