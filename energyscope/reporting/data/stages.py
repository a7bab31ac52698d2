"""What a run's stages say about themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_SAID = {
    "done": "ran, but left nothing to show",
    "skipped": "was skipped",
    "interrupted": "was interrupted",
    "failed": "failed",
    "running": "has not finished",
}


def why_missing(document: Mapping[str, Any], stage: str) -> str:
    """Return a sentence that says why a stage has nothing to show."""
    entry = (document.get("stages") or {}).get(stage) or {}
    said = _SAID.get(str(entry.get("state")), "did not run")
    reason = entry.get("reason")
    return f"The {stage} stage {said}{f': {reason}' if reason else ''}".rstrip(".") + "."


def unfinished(document: Mapping[str, Any]) -> dict[str, str]:
    """Return the stages that were started and not finished, each with its sentence."""
    stages = document.get("stages") or {}
    return {
        name: why_missing(document, name)
        for name, entry in stages.items()
        if name != "report" and (entry or {}).get("state") in {"interrupted", "failed", "running"}
    }
