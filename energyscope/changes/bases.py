"""A run's own setting as plain data: what alternatives are measured beside, and what bounds their choice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from energyscope.changes.attention import other_attentions, own_attention
from energyscope.changes.choice import BASE, Alternative, Execution, Limits
from energyscope.kv_cache import CacheKind
from energyscope.loading import LoadedModel
from energyscope.reasons import reason
from energyscope.workloads import Workload, position_limit
from energyscope.workloads.decoding import can_generate, checked_context, default_context

NOTES = (reason("static-cache-of-context"), reason("compile-default-mode"))


@dataclass(frozen=True)
class RunSetting:
    """How a run has its model compute: None takes the usual context, and the prompt's batch."""

    execution: Execution = "eager"
    kv_cache: CacheKind = "dynamic"
    context_length: int | None = None
    batch_size: int | None = None


def bases(loaded: LoadedModel, prompt: Workload, own: RunSetting) -> list[Alternative]:
    """Return the run's own setting of each phase that the model has, decode first.

    Raises:
        UsageError: the context is beyond the model's positions.

    """
    attention, generates = own_attention(loaded.model), can_generate(loaded)
    prefill = Alternative(
        what=BASE,
        value=BASE,
        phase="prefill",
        batch_size=prompt.batch_size,
        context_length=prompt.sequence_length,
        execution=own.execution,
        kv_cache=own.kv_cache if generates else None,
        attention=attention,
    )
    if not generates:
        return [prefill]
    context = own.context_length
    decode = Alternative(
        what=BASE,
        value=BASE,
        phase="decode",
        batch_size=own.batch_size or prompt.batch_size,
        context_length=checked_context(loaded, default_context(loaded) if context is None else context),
        execution=own.execution,
        kv_cache=own.kv_cache,
        attention=attention,
    )
    return [decode, prefill]


def limits(loaded: LoadedModel) -> Limits:
    """Return what bounds the choice of alternatives on a loaded model."""
    on_one_device = len(loaded.devices) == 1 and not loaded.offloaded
    return Limits(position_limit(loaded), loaded.device.type, on_one_device, other_attentions(loaded))


def header(
    loaded: LoadedModel, own: Sequence[Alternative], chosen: Sequence[Alternative], *, modelled: bool
) -> dict[str, Any]:
    """Return what alternatives.json needs beside the windows, as plain data."""
    first, prefill = own[0], own[-1]
    decodes = first.phase == "decode"
    return {
        "base": {
            "precision": loaded.precision,
            "execution": first.execution,
            "batch_size": first.batch_size,
            "context_length": first.context_length if decodes else None,
            "kv_cache": first.kv_cache,
            "attention": first.attention,
            "prompt_tokens": prefill.context_length,
        },
        "modelled": modelled,
        "notes": list(NOTES) if decodes else [],
        "planned": [{"key": alternative.key, "setting": asdict(alternative)} for alternative in (*own, *chosen)],
    }
