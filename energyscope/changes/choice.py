"""Which alternatives to a run's own setting are measured: each changes one thing. Pure functions over plain data.

Two changes need a second one: a step in a CUDA graph or compiled is given a static KV cache, since both are made
for tensors of one shape. Their rows say so, and the static cache alone is an alternative too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from energyscope.reasons import Reason, reason

Phase = Literal["prefill", "decode"]
Execution = Literal["eager", "cuda-graph", "torch-compile"]

BASE = "base"
BATCH_SIZES = {"cuda": (1, 4, 16, 64), "cpu": (1, 4, 16)}
CONTEXT_LENGTHS = (128, 1024, 8192)
FEWEST_CONTEXTS = 2  # beside the run's own; a line through fewer says little


@dataclass(frozen=True)
class Alternative:
    """The whole model's step in one setting; ``what`` differs from the run's own, to ``value``.

    ``context_length`` of a decode step is the tokens in its KV cache, of a prefill those of each prompt.
    ``kv_cache`` is None where the model keeps none.
    """

    what: str
    value: str
    phase: Phase
    batch_size: int
    context_length: int
    execution: Execution
    kv_cache: str | None
    attention: str

    @property
    def key(self) -> str:
        """What its journal entries are marked with: ``decode:batch_size:16``."""
        return f"{self.phase}:{self.what}:{self.value}"

    @property
    def tokens(self) -> int:
        """The tokens of one step (decode: one of each sequence) or pass (all prompts')."""
        return self.batch_size * (1 if self.phase == "decode" else self.context_length)


@dataclass(frozen=True)
class Skipped:
    """An alternative that is not measured, and why."""

    what: str
    value: str
    phase: str
    reason: Reason


@dataclass(frozen=True)
class Limits:
    """What bounds the choice: the model's positions, its device, and what it can be switched to there.

    ``on_one_device`` says that all of the model is. ``attentions`` are implementations of attention beside the
    model's own.
    """

    positions: int
    device: str
    on_one_device: bool
    attentions: tuple[str, ...]


def skipped(alternative: Alternative, why: Reason) -> Skipped:
    """Return that an alternative is not measured."""
    return Skipped(alternative.what, alternative.value, alternative.phase, why)


def choose(
    bases: Sequence[Alternative], limits: Limits, batch_sizes: Sequence[int], context_lengths: Sequence[int]
) -> tuple[list[Alternative], list[Skipped]]:
    """Return the alternatives to the run's own setting of each phase, the most telling first, and those left out.

    Compiling takes longest to set up, so it comes last. Without sizes or lengths, there are usual ones.
    """
    sizes = batch_sizes or BATCH_SIZES[limits.device]
    possible: list[Alternative] = []
    left_out: list[Skipped] = []
    for base in bases:
        lengths = _lengths(base, limits, context_lengths)
        for alternative in _of_phase(base, limits, sizes, lengths):
            why = _impossible(alternative, limits)
            if why is None:
                possible.append(alternative)
            else:
                left_out.append(skipped(alternative, why))
    return sorted(possible, key=lambda alternative: alternative.execution == "torch-compile"), left_out


def _of_phase(
    base: Alternative, limits: Limits, sizes: Sequence[int], lengths: Sequence[int]
) -> Iterator[Alternative]:
    for size in sorted(set(sizes) - {base.batch_size}):
        yield replace(base, what="batch_size", value=str(size), batch_size=size)
    for execution in ("eager", "cuda-graph", "torch-compile"):
        if execution != base.execution:
            yield _executed(base, execution)
    if base.phase == "decode":
        other = "static" if base.kv_cache == "dynamic" else "dynamic"
        yield replace(base, what="kv_cache", value=other, kv_cache=other)
        for length in sorted(set(lengths) - {base.context_length}):
            yield replace(base, what="context_length", value=str(length), context_length=length)
    for attention in limits.attentions:
        yield replace(base, what="attention", value=attention, attention=attention)


def _executed(base: Alternative, execution: Execution) -> Alternative:
    """Return the base in another execution; graphs and compiled code serve a generation on a static cache only."""
    cache = "static" if base.phase == "decode" and execution != "eager" else base.kv_cache
    return replace(base, what="execution", value=execution, execution=execution, kv_cache=cache)


def _lengths(base: Alternative, limits: Limits, asked: Sequence[int]) -> list[int]:
    """Return the contexts of decode steps: those asked for, else the usual ones that the model has positions for.

    Where a short model leaves fewer than two beside its own, a quarter and half of its own are taken.
    """
    if asked:
        return list(asked)
    usual = [length for length in CONTEXT_LENGTHS if length < limits.positions and length != base.context_length]
    if len(usual) >= FEWEST_CONTEXTS:
        return usual
    return [length for length in (base.context_length // 4, base.context_length // 2) if length]


def _impossible(alternative: Alternative, limits: Limits) -> Reason | None:
    """Return why an alternative cannot be, in the setting itself; None if it can."""
    if alternative.what == "context_length" and alternative.context_length >= limits.positions:
        return reason("context-beyond-positions", positions=limits.positions)
    if alternative.what != "execution" or alternative.execution == "eager":
        return None
    if not limits.on_one_device:
        return reason("model-in-pieces")
    if alternative.execution == "cuda-graph" and limits.device != "cuda":
        return reason("cuda-graph-needs-gpu")
    if (
        alternative.execution == "torch-compile"
        and alternative.phase == "prefill"
        and alternative.kv_cache is not None
    ):
        return reason("compiles-decode-only")
    return None
