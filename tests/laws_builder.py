"""Laws documents of simulated boards: cells of known physics, fitted by the real code."""

from __future__ import annotations

import copy
import functools
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from energyscope.intervals import Interval
from energyscope.runs.laws import LAWS_VERSION, write_laws
from energyscope.scaling.cells import Cell, Observation
from energyscope.scaling.law_document import law_document

STATIC_W, PJ_PER_BYTE = 120.0, 90.0
PJ_PER_FLOP = {"attention": 1.6, "mlp": 1.25, "lm_head": 1.1}
LAUNCH_US = {"eager": 480.0, "cuda-graph": 60.0}
WIDTH = {"bf16": 2, "fp32": 4}
NOISE = 0.015
LIMITED = {"": (1.0, 1.0), "500 W": (0.9, 1.02), "300 W": (0.7, 1.4)}  # what a limit makes of energy and time


@dataclass(frozen=True)
class Size:
    """The dimensions of a model that set its work."""

    name: str
    layers: int
    hidden: int
    inner: int
    vocabulary: int = 128_256

    @property
    def parameters(self) -> int:
        each = 4 * self.hidden**2 + 3 * self.hidden * self.inner
        return self.layers * each + self.vocabulary * self.hidden


SIZES = (
    Size("llama-3.2-1b", 16, 2048, 8192),
    Size("llama-3.2-3b", 28, 3072, 8192),
    Size("llama-3.1-8b", 32, 4096, 14336),
)


@dataclass(frozen=True)
class Swept:
    """One group of cells: which shapes of which model, under what."""

    size: Size = SIZES[0]
    phase: str = "prefill"
    precision: str = "bf16"
    execution: str = "eager"
    batch_sizes: Sequence[int] = (1, 4)
    lengths: Sequence[int] = (32, 128, 512, 1024)
    board: str = "GPU-1"
    limit: str = ""
    modelled: bool = False


ONE = (Swept(),)
SIX = (
    Swept(batch_sizes=(1, 2, 4, 8, 16)),
    Swept(execution="cuda-graph", lengths=(32, 128, 512)),
    Swept(precision="fp32", batch_sizes=(1,)),
    Swept(SIZES[1]),
    Swept(SIZES[2]),
    Swept(phase="decode", batch_sizes=(1, 2, 4, 8, 16, 32, 64), lengths=(128, 1024)),
)


def laws_document(groups: Sequence[Swept] = ONE, **changes: Any) -> dict[str, Any]:
    """Return the document of some groups, with some of its fields changed."""
    return {
        "schema": LAWS_VERSION,
        "name": "simulated",
        "created": "2026-11-22T11:35:39Z",
        "command": "energyscope laws simulated",
        "energyscope": "0.1.0",
        "modelled": any(group.modelled for group in groups),
        **copy.deepcopy(_fitted(tuple(groups))),
        "not_measured": [],
        **changes,
    }


@functools.cache
def _fitted(groups: tuple[Swept, ...]) -> dict[str, Any]:
    """Return what is fitted to some groups: seconds of work, of which many tests want the same."""
    noise = random.Random(7)
    observations = [
        replace(
            _observation(group, batch, tokens, noise),
            path=_run(group, batch, tokens),
            device="NVIDIA H200",
            parameters=group.size.parameters,
            layers=group.size.layers,
        )
        for group in groups
        for batch in group.batch_sizes
        for tokens in group.lengths
    ]
    return law_document(observations)


def build_laws(path: Path, groups: Sequence[Swept] = ONE, **changes: Any) -> Path:
    """Write the document of some groups into a new directory and return that."""
    path.mkdir(parents=True)
    write_laws(path, laws_document(groups, **changes))
    return path


def _run(group: Swept, batch: int, tokens: int) -> str:
    setting = f"{group.size.name}-{group.precision}-{group.execution}-{group.phase}{group.limit.replace(' ', '')}"
    return f"{setting}-b{batch}-s{tokens}"


def _observation(group: Swept, batch: int, tokens: int, noise: random.Random) -> Observation:
    parts = {name: _cell(group, name, batch, tokens, noise) for name in ("attention", "mlp", "norm", "lm_head")}
    flops, moved, time = (
        sum(getattr(one, field) for one in parts.values()) for field in ("flops", "bytes", "time_us")
    )
    work = {"flops": flops, "executed_flops": flops, "bytes": moved, "time_us": time}
    whole = replace(parts["mlp"], subject="model", **work)
    static = None if group.modelled else STATIC_W * time / 1e3
    inner = sum(one.energy_mj for one in parts.values())
    glue = _energy(
        replace(whole, subject="glue", static_mj=None), Interval(0.06 * inner, 0.055 * inner, 0.065 * inner)
    )
    rest = 0.03 * inner * (1 + noise.gauss(0, 0.4))
    unexplained = _energy(
        replace(whole, subject="unexplained", static_mj=None), Interval(rest, rest * 0.6, rest * 1.4)
    )
    total = inner + glue.energy_mj + rest
    model = _energy(replace(whole, static_mj=static), Interval(total, total * 0.985, total * 1.015))
    return Observation(
        run=_run(group, batch, tokens),
        model=group.size.name,
        phase=group.phase,
        precision=group.precision,
        batch_size=batch,
        tokens=tokens,
        kv_cache="dynamic" if group.phase == "decode" else None,
        weights="random",
        cells={"model": model, **parts, "glue": glue, "unexplained": unexplained},
        parts=(*parts, "glue", "unexplained"),
        left_out={},
    )


def _energy(cell: Cell, energy: Interval) -> Cell:
    return replace(cell, energy_mj=energy.value, energy_low_mj=energy.low, energy_high_mj=energy.high)


def _cell(group: Swept, part: str, batch: int, tokens: int, noise: random.Random) -> Cell:
    size, rows = group.size, batch if group.phase == "decode" else batch * tokens
    weights = {"attention": 4 * size.hidden**2, "mlp": 3 * size.hidden * size.inner, "norm": 2 * size.hidden,
               "lm_head": size.hidden * size.vocabulary}[part]  # fmt: skip
    calls = 1 if part == "lm_head" else size.layers
    flops = 0.0 if part == "norm" else 2.0 * weights * rows * calls
    if part == "attention":
        flops += 4.0 * rows * tokens * size.hidden * calls
    cached = 2 * batch * tokens * size.hidden if part == "attention" else 0
    moved = float(WIDTH[group.precision] * calls * (weights + cached + 4 * rows * size.hidden))
    saved, slowed = LIMITED[group.limit]
    time = slowed * max(LAUNCH_US[group.execution] * calls / 16, flops / 400e6, moved / 3.5e6)
    dynamic = (PJ_PER_FLOP.get(part, 0.0) * flops * WIDTH[group.precision] / 2 + PJ_PER_BYTE * moved) * 1e-9
    energy = saved * (STATIC_W * time / 1e3 + dynamic) * (1 + noise.gauss(0, NOISE))
    return Cell(
        subject=part,
        model=size.name,
        phase=group.phase,
        precision=group.precision,
        execution=group.execution,
        batch_size=batch,
        tokens=tokens,
        energy_mj=energy,
        energy_low_mj=energy * 0.98,
        energy_high_mj=energy * 1.02,
        time_us=time,
        static_mj=None if group.modelled else STATIC_W * time / 1e3,
        flops=flops,
        executed_flops=flops,
        bytes=moved,
        board=group.board,
        limit=group.limit,
        calls=calls,
        meter="modelled" if group.modelled else "nvml",
    )
