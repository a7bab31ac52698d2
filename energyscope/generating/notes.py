"""What a reader of a measured generation must know."""

from __future__ import annotations

from typing import TYPE_CHECKING

from energyscope.generating.settings import GenerateSettings
from energyscope.loading import LoadedModel
from energyscope.reasons import Reason, reason

if TYPE_CHECKING:
    from energyscope.workloads import Workload


def notes_of(
    loaded: LoadedModel, workload: Workload, settings: GenerateSettings, *, modelled: bool
) -> list[Reason]:
    """Return the notes on a generation, before it is measured."""
    holds = {
        "greedy-generation": True,
        "tokens-by-phase": True,
        "rates-by-phase": True,
        "decode-power-interpolated": settings.new_tokens > 2 and not modelled,
        "generate-not-compiled": settings.kv_cache == "static" and loaded.device.type == "cuda",
        "tokens-one-step-late": loaded.device.type == "mps",
        "prompt-text-decoded": workload.tokens == "synthetic" and loaded.tokenizer is not None,
        "tokenizing-on-host": not modelled and loaded.tokenizer is not None,
        "generate-loop-alone": True,
    }
    return [reason(code) for code, applies in holds.items() if applies]
