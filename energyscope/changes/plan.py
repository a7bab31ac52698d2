"""The run's own setting, and the alternatives to it that are measured: each changes one thing.

Two changes need a second one: a step in a CUDA graph or compiled is given a static KV cache, since both are made
for tensors of one shape. Their rows say so, and the static cache alone is an alternative too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, get_args

from energyscope.changes.acceptance import LOOKUP
from energyscope.changes.attention import other_attentions, own_attention
from energyscope.changes.lookup import why_no_lookup
from energyscope.kv_cache import CacheKind, keeps_keys
from energyscope.loading import LoadedModel
from energyscope.reasons import Reason, reason
from energyscope.workloads import Evaluation, Workload, position_limit
from energyscope.workloads.decoding import can_decode, can_generate, check_context, default_context

Phase = Literal["prefill", "decode"]
Execution = Literal["eager", "cuda-graph", "torch-compile"]

EXECUTIONS: tuple[Execution, ...] = get_args(Execution)
BASE = "base"
BATCH_SIZES = {"cuda": (1, 4, 16, 64), "cpu": (1, 4, 16)}
CONTEXT_LENGTHS = (128, 1024, 8192)
FEWEST_CONTEXTS = 2  # beside the run's own; a line through fewer says little
PROPOSED = (3, 7)  # tokens that prompt lookup proposes a step: 4 and 8 rows
NOTES = (reason("static-cache-of-context"), reason("compile-default-mode"))
LOOKUP_NOTE = reason("lookup-on-this-data")


@dataclass(frozen=True)
class Alternative:
    """The whole model's step in one setting; ``what`` is changed from the run's own, to ``value``.

    ``context_length`` of a decode step is the tokens in its KV cache, of a prefill those of each prompt.
    ``kv_cache`` is None where the model keeps none. A step verifies ``proposed`` tokens beside its own.
    """

    what: str
    value: str
    phase: Phase
    batch_size: int
    context_length: int
    execution: Execution
    kv_cache: CacheKind | None
    attention: str
    proposed: int = 0

    @property
    def key(self) -> str:
        """The key of its journal entries: ``decode:batch_size:16``."""
        return f"{self.phase}:{self.what}:{self.value}"

    @property
    def tokens(self) -> int:
        """The tokens of one step (decode: one of each sequence, none proposed) or pass; 0 of images and sound."""
        return self.batch_size * (1 if self.phase == "decode" else self.context_length)


@dataclass(frozen=True)
class Limits:
    """What bounds the choice: the model's positions, its device, and what it can be switched to there.

    ``on_one_device`` means all of the model. ``attentions`` are implementations beside the model's own.
    ``no_lookup`` says why prompt lookup cannot be judged (None: it can); without ``keeps_keys`` there is no choice
    of a KV cache.
    """

    positions: int
    device: str
    on_one_device: bool
    attentions: tuple[str, ...]
    no_lookup: Reason | None = None
    keeps_keys: bool = True


def bases(
    loaded: LoadedModel,
    prompt: Workload,
    *,
    execution: Execution,
    kv_cache: CacheKind,
    context_length: int | None,
    batch_size: int | None,
) -> list[Alternative]:
    """Return the run's own setting of each phase that the model has, decode first.

    Without ``context_length`` and ``batch_size``, decode steps have the usual context and the prompt's batch.

    Raises:
        UsageError: the context is beyond the model's positions.

    """
    generates, decodes = can_generate(loaded), can_decode(loaded)
    prefill = Alternative(
        what=BASE,
        value=BASE,
        phase="prefill",
        batch_size=prompt.batch_size,
        context_length=prompt.sequence_length,
        execution=execution,
        kv_cache=kv_cache if generates else None,
        attention=own_attention(loaded.model),
    )
    if not decodes:
        return [prefill]
    context = default_context(loaded) if context_length is None else context_length
    decode = replace(
        prefill,
        phase="decode",
        kv_cache=kv_cache,
        batch_size=batch_size or prompt.batch_size,
        context_length=check_context(loaded, context),
    )
    return [decode, prefill]


def limits(loaded: LoadedModel, evaluation: Evaluation | None) -> Limits:
    """Return the limits of a loaded model with this data."""
    on_one_device = len(loaded.devices) == 1 and not loaded.offloaded
    attentions, no_lookup = other_attentions(loaded), why_no_lookup(loaded, evaluation)
    return Limits(
        position_limit(loaded), loaded.device.type, on_one_device, attentions, no_lookup, keeps_keys(loaded.model)
    )


def header(
    precision: str, own: Sequence[Alternative], chosen: Sequence[Alternative], *, modelled: bool
) -> dict[str, Any]:
    """Return what alternatives.json needs beside the windows, as plain data."""
    first, prefill = own[0], own[-1]
    decodes, looked_up = first.phase == "decode", any(alternative.proposed for alternative in chosen)
    return {
        "base": {
            "precision": precision,
            "execution": first.execution,
            "batch_size": first.batch_size,
            "context_length": first.context_length if decodes else None,
            "kv_cache": first.kv_cache,
            "attention": first.attention,
            "prompt_tokens": prefill.context_length or None,
        },
        "modelled": modelled,
        "notes": [*(NOTES if decodes else ()), *([LOOKUP_NOTE] if looked_up else [])],
        "planned": [{"key": alternative.key, "setting": asdict(alternative)} for alternative in (*own, *chosen)],
    }


def choose(
    bases: Sequence[Alternative], limits: Limits, batch_sizes: Sequence[int], context_lengths: Sequence[int]
) -> tuple[list[Alternative], list[tuple[Alternative, Reason]]]:
    """Return the alternatives to the run's own setting of each phase, the most telling first, and those left out.

    What takes long to set up comes last: texts with prompt lookup, then compiling. Without sizes or lengths, the
    usual ones are taken.
    """
    sizes = batch_sizes or BATCH_SIZES[limits.device]
    possible: list[Alternative] = []
    left_out: list[tuple[Alternative, Reason]] = []
    for base in bases:
        for alternative in _of_phase(base, limits, sizes, _lengths(base, limits, context_lengths)):
            why_not = _impossible(alternative, limits)
            if why_not is None:
                possible.append(alternative)
            else:
                left_out.append((alternative, why_not))
    return sorted(possible, key=_slowness), left_out


def _slowness(alternative: Alternative) -> tuple[bool, bool]:
    return alternative.execution == "torch-compile", alternative.what == LOOKUP


def _of_phase(
    base: Alternative, limits: Limits, sizes: Sequence[int], lengths: Sequence[int]
) -> Iterator[Alternative]:
    for size in sorted(set(sizes) - {base.batch_size}):
        yield replace(base, what="batch_size", value=str(size), batch_size=size)
    for execution in EXECUTIONS:  # graphs and compiled code serve a generation on a static cache only
        if execution != base.execution:
            cache = "static" if base.phase == "decode" and execution != "eager" else base.kv_cache
            yield replace(base, what="execution", value=execution, execution=execution, kv_cache=cache)
    if base.phase == "decode" and limits.keeps_keys:
        other: CacheKind = "static" if base.kv_cache == "dynamic" else "dynamic"
        yield replace(base, what="kv_cache", value=other, kv_cache=other)
    if base.phase == "decode":
        for length in sorted(set(lengths) - {base.context_length}):
            yield replace(base, what="context_length", value=str(length), context_length=length)
        for number in PROPOSED:
            yield replace(base, what=LOOKUP, value=str(number), proposed=number)
    for attention in limits.attentions:
        yield replace(base, what="attention", value=attention, attention=attention)


def _lengths(base: Alternative, limits: Limits, requested: Sequence[int]) -> list[int]:
    """Return the contexts of decode steps: those requested, else the usual ones that the model has positions for.

    Where a short model leaves fewer than two beside its own, a quarter and half of its own are taken.
    """
    if requested:
        return list(requested)
    usual = [length for length in CONTEXT_LENGTHS if length < limits.positions and length != base.context_length]
    if len(usual) >= FEWEST_CONTEXTS:
        return usual
    return [length for length in (base.context_length // 4, base.context_length // 2) if length]


def _impossible(alternative: Alternative, limits: Limits) -> Reason | None:
    """Return why the setting itself is not possible; None if it is."""
    if alternative.what == "context_length" and alternative.context_length >= limits.positions:
        return reason("context-beyond-positions", positions=limits.positions)
    if alternative.what == LOOKUP:
        return _no_lookup(alternative, limits)
    if alternative.what != "execution" or alternative.execution == "eager":
        return None
    if not limits.on_one_device:
        return reason("model-in-pieces")
    if alternative.execution == "cuda-graph":
        return reason("cuda-graph-needs-gpu") if limits.device != "cuda" else None
    compiles_prefill = alternative.phase == "prefill" and alternative.kv_cache is not None
    return reason("compiles-decode-only") if compiles_prefill else None


def _no_lookup(alternative: Alternative, limits: Limits) -> Reason | None:
    if alternative.batch_size > 1:
        return reason("lookup-of-one-sequence")
    if alternative.context_length <= alternative.proposed:
        return reason("lookup-little-context", tokens=alternative.context_length)
    return limits.no_lookup
