"""A board whose laws are known: models of a size, lengths and batches become cells with known noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from energyscope.reasons import Reason
from energyscope.scaling.cells import Cell, Shape
from energyscope.scaling.fit import fitter
from energyscope.scaling.law import Law, LawName, NoLaw

BATCHES = (1, 4)
LENGTHS = (32, 64, 128, 256, 512, 1024)
KINDS = ("attention", "mlp", "norm", "lm_head")


@dataclass(frozen=True)
class Size:
    """A decoder of bf16 weights, as far as FLOPs and bytes see it."""

    name: str = "1b"
    hidden: int = 2048
    layers: int = 16
    inner: int = 8192
    vocabulary: int = 128_256


SIZES = (Size(), Size("3b", 3072, 28, 8192), Size("8b", 4096, 32, 14336), Size("small", 768, 12, 3072, 50_257))


@dataclass(frozen=True)
class Board:
    """Truth: static power, rates, a launch's time, energy per FLOP and byte, and how a launch joins the rest."""

    static_w: float = 120.0
    tflops: float = 600.0
    gb_per_s: float = 3500.0
    launch_us: float = 6.0
    form: str = "sum"
    pj_per_flop: float = 0.6
    pj_per_byte: float = 60.0
    name: str = "GPU-1"

    def time_us(self, shape: Shape) -> float:
        launch, compute = self.launch_us * shape.calls, shape.flops / self.tflops / 1e6
        work = max(compute, shape.bytes / self.gb_per_s / 1e3)
        return launch + work if self.form == "sum" else max(launch, work)

    def energy_mj(self, shape: Shape) -> float:
        dynamic = self.pj_per_flop * shape.flops + self.pj_per_byte * shape.bytes
        return self.static_w * self.time_us(shape) / 1e3 + dynamic / 1e9


def work(kind: str, size: Size, batch_size: int, tokens: int) -> Shape:
    """Return FLOPs and bytes of a kind, summed over the layers, in a prefill."""
    rows, hidden = batch_size * tokens, size.hidden
    if kind == "model":
        parts = [work(part, size, batch_size, tokens) for part in KINDS]
        totals = (sum(part.flops for part in parts), sum(part.bytes for part in parts))
        return Shape(batch_size, tokens, *totals, sum(part.calls for part in parts))
    if kind == "attention":
        flops, weights = 8 * rows * hidden**2 + 4 * rows * tokens * hidden, 4 * hidden**2
        moved = 10 * rows * hidden
    elif kind == "mlp":
        flops, weights, moved = 6 * rows * hidden * size.inner, 3 * hidden * size.inner, 2 * rows * hidden
    elif kind == "norm":
        flops, weights, moved = 0, hidden, 2 * rows * hidden
    else:
        rows, flops = batch_size, 2 * batch_size * hidden * size.vocabulary
        weights, moved = hidden * size.vocabulary, batch_size * (hidden + size.vocabulary)
    calls = {"norm": 2 * size.layers + 1, "lm_head": 1}.get(kind, size.layers)
    return Shape(batch_size, tokens, flops * calls, 2 * (weights + moved) * calls, calls)


def cell(
    board: Board,
    kind: str,
    size: Size,
    shape: Shape,
    *,
    noise: float = 0.01,
    random: np.random.Generator | None = None,
    half_width: float | None = 0.01,
) -> Cell:
    """Measure one shape: energy and time each with relative noise; ``half_width`` is what the interval claims."""
    draw = np.zeros(2) if random is None else noise * random.standard_normal(2)
    energy, time = board.energy_mj(shape) * (1 + draw[0]), board.time_us(shape) * (1 + draw[1])
    low, high = (None, None) if half_width is None else (energy * (1 - half_width), energy * (1 + half_width))
    return Cell(
        subject=kind, model=size.name, phase="prefill", precision="bf16", execution="cuda-graph",
        batch_size=shape.batch_size, tokens=shape.tokens, energy_mj=energy, energy_low_mj=low, energy_high_mj=high,
        time_us=time, static_mj=board.static_w * time / 1e3, flops=shape.flops, bytes=shape.bytes,
        board=board.name, calls=shape.calls, executed_flops=shape.flops,
    )  # fmt: skip


def sweep(
    board: Board,
    kind: str,
    size: Size = SIZES[0],
    *,
    lengths: Sequence[int] = LENGTHS,
    batches: Sequence[int] = BATCHES,
    noise: float = 0.01,
    seed: int | None = None,
) -> list[Cell]:
    """Measure all lengths at all batches; without a seed there is no noise."""
    random = None if seed is None else np.random.default_rng(seed)
    return [
        cell(board, kind, size, work(kind, size, batch, tokens), noise=noise, random=random)
        for tokens in lengths
        for batch in batches
    ]


def over(
    board: Board, kind: str, sizes: Sequence[Size] = SIZES, *, without: str = "", **options: Any
) -> list[Cell]:
    """Measure models of several sizes, each with its own noise, all but the one of a name."""
    kept = [(index, size) for index, size in enumerate(sizes) if size.name != without]
    return [measured for index, size in kept for measured in sweep(board, kind, size, seed=index, **options)]


def straight(
    fixed_mj: float, pj_per_flop: float, flops: Sequence[float], *, noise: float = 0.0, seed: int = 0
) -> list[Cell]:
    """Measure cells of which E0 and k are known, one for each amount of FLOPs."""
    random = np.random.default_rng(seed)
    cells = []
    for index, amount in enumerate(flops):
        energy = (fixed_mj + pj_per_flop * amount / 1e9) * (1 + noise * float(random.standard_normal()))
        base = cell(Board(), "mlp", SIZES[0], Shape(1, 32 * 2**index, amount, amount / 100))
        cells.append(replace(base, energy_mj=energy, energy_low_mj=energy * 0.99, energy_high_mj=energy * 1.01))
    return cells


def fitted(name: LawName, cells: Sequence[Cell], **options: Any) -> Law:
    """Return the law of some cells, which must give one; ``options`` as in `fitter`."""
    law = fitter(name, **options)(cells)
    assert isinstance(law, Law)
    return law


def refused(name: LawName, cells: Sequence[Cell], **options: Any) -> Reason:
    """Return why some cells give no law."""
    none = fitter(name, **options)(cells)
    assert isinstance(none, NoLaw)
    return none.reason
