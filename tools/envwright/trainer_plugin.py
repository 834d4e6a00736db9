"""What packages with trainers of their own import (docs/own-rules.md). These names stay, wherever their code moves."""

from envwright.rules.runs.subject import TrainerLimits
from envwright.training.trainers.native_config import NativeConfig, origin, toml_text
from envwright.training.trainers.trainer import Compiled, CompileRequest, Trainer, file_path, heading, settings_at

__all__ = [
    "CompileRequest",
    "Compiled",
    "NativeConfig",
    "Trainer",
    "TrainerLimits",
    "file_path",
    "heading",
    "origin",
    "settings_at",
    "toml_text",
]
