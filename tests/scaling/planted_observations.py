"""Moments as runs tell them, on a board whose laws are known (see simulated_board), of any setting."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from simulated_board import KINDS, SIZES, Board, Size, cell, work

from energyscope.scaling.cells import OVERHEAD, RESIDUAL, UNEXPLAINED, WHOLE, Cell, Observation

OF_MOMENT = ("weights", "kv_cache", "run")


def observation(
    batch_size: int, tokens: int, *, size: Size = SIZES[0], truth: Board | None = None, scale: float = 1.0,
    overhead: bool = True, noise: float = 0.0, **fields: Any,
) -> Observation:  # fmt: skip
    """Measure one moment of a prefill on the board ``truth``.

    ``fields`` are those of its cells (precision, board, ...) and of the moment (`OF_MOMENT`).
    """
    random = np.random.default_rng((batch_size, tokens)) if noise else None
    own = {name: fields.pop(name) for name in OF_MOMENT if name in fields}
    fields = {"execution": "eager", **fields}

    def measured(kind: str, energy: float | None = None) -> Cell:
        shape = work(kind, size, batch_size, tokens)
        base = cell(truth or Board(), kind, size, shape, noise=noise, random=random)
        value = base.energy_mj * scale if energy is None else energy
        limits = {"energy_low_mj": value - abs(value) / 100, "energy_high_mj": value + abs(value) / 100}
        return replace(base, energy_mj=value, **limits, **fields)

    cells = {kind: measured(kind) for kind in (*KINDS, WHOLE)}
    for subject, energy in (
        ((OVERHEAD, 20.0 + cells[WHOLE].energy_mj / 100), (UNEXPLAINED, 5.0)) if overhead else ()
    ):
        cells[subject] = replace(measured(WHOLE, energy), subject=subject, static_mj=None)
    return Observation(
        run=own.get("run", f"b{batch_size}-s{tokens}"),
        model=size.name,
        phase=cells[WHOLE].phase,
        precision=cells[WHOLE].precision,
        batch_size=batch_size,
        tokens=tokens,
        kv_cache=own.get("kv_cache"),
        weights=own.get("weights", "random"),
        cells=cells,
        parts=(*KINDS, *RESIDUAL) if overhead else (),
        left_out={},
    )


def swept(
    lengths: tuple[int, ...] = (32, 64, 128, 256), batches: tuple[int, ...] = (1, 4), **options: Any
) -> list[Observation]:
    """Measure all lengths at all batches."""
    return [observation(batch, tokens, **options) for tokens in lengths for batch in batches]
