"""Whole passes on a simulated board: components, overhead and what is unexplained add up to the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from simulated_board import KINDS, SIZES, Board, Size, cell, work

from energyscope.scaling.cells import OVERHEAD, UNEXPLAINED, WHOLE, Cell, Observation

SHAPES = tuple((batch, tokens) for batch in (1, 4) for tokens in (32, 128, 512))
OVERHEAD_MJ, UNEXPLAINED_SHARE = 2.0, 0.03  # overhead in mJ a layer; share of the components


def observation(
    board: Board,
    size: Size = SIZES[0],
    shape: tuple[int, int] = (1, 128),
    *,
    noise: float = 0.0,
    random: np.random.Generator | None = None,
) -> Observation:
    """Measure one prefill; the whole is what its parts take, and each is then read with noise."""
    cells = {kind: cell(board, kind, size, work(kind, size, *shape), noise=noise, random=random) for kind in KINDS}
    energy = sum(cell.energy_mj for cell in cells.values())
    time = sum(cell.time_us for cell in cells.values())
    overhead, unexplained = OVERHEAD_MJ * size.layers, UNEXPLAINED_SHARE * energy
    base = replace(cells["mlp"], calls=size.layers, **totals(list(cells.values())), time_us=time)
    cells[WHOLE] = _of(base, WHOLE, energy + overhead + unexplained, board.static_w * time / 1e3)
    cells[OVERHEAD] = _of(base, OVERHEAD, overhead, None)
    cells[UNEXPLAINED] = _of(base, UNEXPLAINED, unexplained, None)
    return Observation(
        run=f"{size.name}-{shape[0]}-{shape[1]}",
        model=size.name,
        phase="prefill",
        precision="bf16",
        batch_size=shape[0],
        tokens=shape[1],
        kv_cache=None,
        weights="random",
        cells=cells,
        parts=(*KINDS, OVERHEAD, UNEXPLAINED),
        left_out={},
    )


def observations(
    board: Board,
    sizes: Sequence[Size] = SIZES,
    shapes: Sequence[tuple[int, int]] = SHAPES,
    *,
    noise: float = 0.0,
    seed: int = 0,
) -> list[Observation]:
    random = np.random.default_rng(seed)
    return [observation(board, size, shape, noise=noise, random=random) for size in sizes for shape in shapes]


def totals(cells: Sequence[Cell]) -> dict[str, float]:
    return {name: sum(getattr(cell, name) for cell in cells) for name in ("flops", "executed_flops", "bytes")}


def with_energy(
    observation: Observation, energy_mj: float, *, half_width: float = 0.01, **changes: object
) -> Observation:
    """Return the moment with another energy of the whole, known within ``half_width``, and other fields."""
    whole = replace(
        observation.cells[WHOLE],
        energy_mj=energy_mj,
        energy_low_mj=energy_mj * (1 - half_width),
        energy_high_mj=energy_mj * (1 + half_width),
    )
    return replace(observation, cells={**observation.cells, WHOLE: whole}, **changes)


def _of(base: Cell, subject: str, energy_mj: float, static_mj: float | None) -> Cell:
    return replace(
        base,
        subject=subject,
        energy_mj=energy_mj,
        energy_low_mj=energy_mj * 0.99,
        energy_high_mj=energy_mj * 1.01,
        static_mj=static_mj,
    )
