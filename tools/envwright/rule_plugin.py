"""What packages with rules of their own import (docs/own-rules.md). These names stay, wherever their code moves."""

from envwright.rules.engine import Found, Subject, merged, rule
from envwright.rules.evidence import Evidence

__all__ = ["Evidence", "Found", "Subject", "merged", "rule"]
