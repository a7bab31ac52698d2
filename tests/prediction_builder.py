"""Runs of bundled models whose energies follow a law that is known: what `predict` must find again."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from run_builder import document

from energyscope.runs import schema
from energyscope.runs.method import REVISION
from energyscope.runs.schema import EnergyRow
from energyscope.runs.store import Run, RunStore, load_run
from energyscope.scaling.cells import Shape
from energyscope.scaling.shape_work import PassShape, Skeleton

CALL_MJ, PJ_PER_FLOP, NJ_PER_BYTE, STATIC_W = 0.5, 40.0, 0.8, 100.0
GLUE_MJ, UNEXPLAINED_MJ = 3.0, 1.0
PARTS = ("embedding", "norm", "attention", "mlp", "lm_head")
HALF_WIDTH = 0.01


def energy_mj(work: Shape) -> float:
    """The law: so much a call, a FLOP and a byte."""
    return CALL_MJ * work.calls + (PJ_PER_FLOP * work.flops + 1e3 * NJ_PER_BYTE * work.bytes) / 1e9


def whole_mj(works: dict[str, Shape]) -> float:
    return sum(energy_mj(works[kind]) for kind in PARTS) + GLUE_MJ + UNEXPLAINED_MJ


@cache
def work_of(model: str, shape: PassShape) -> Mapping[str, Shape]:
    """Return the work of each kind of a model's component, which is counted once for all tests."""
    return MappingProxyType(Skeleton(model, shape.precision).work(shape, "medium"))


def planted_run(path: Path, tokens: int, *, phase: str = "prefill", batch_size: int = 1, **changes: Any) -> Run:
    """Write a run of one moment.

    ``changes`` are its model, precision, execution, board, modelled, noise and method (None: not noted).
    """
    model, precision = changes.get("model", "tiny-gpt2"), changes.get("precision", "fp32")
    modelled, noise = changes.get("modelled", False), changes.get("noise", 1.0)
    works = work_of(model, PassShape(phase, batch_size, tokens, precision))
    base = {
        "phase": phase, "precision": precision, "execution": changes.get("execution", "eager"), "quality": "B",
        "batch_size": batch_size, "context_length": tokens, "device": "cuda:0",
        "meter": "modelled" if modelled else "nvml", "layer": None, "power_w": 300.0, "dynamic_mj": None,
    }  # fmt: skip
    rows = [_row("model", "model", None, works["model"], whole_mj(works) * noise, base)]
    rows[0].level, rows[0].calls = "model", 1
    rows[0].glue_mj = GLUE_MJ * noise
    rows += [_row(kind, kind, "model", works[kind], energy_mj(works[kind]) * noise, base) for kind in PARTS]
    store = RunStore.create(path.name, path.parent)
    sensor = {"meter": "modelled" if modelled else "nvml", "modelled": modelled}
    store.document.update(
        document(
            path.name, model={"name": model}, sensor=sensor, device={"uuid": changes.get("board", "GPU-1111")}
        )
    )
    if changes.get("method", REVISION) is not None:
        store.document["method"] = changes.get("method", REVISION)
    store.write_rows(schema.ENERGY_FILE, rows, schema.ENERGY_COLUMNS)
    store.update()
    return load_run(path)


def _row(name: str, kind: str, parent: str | None, work: Shape, energy: float, base: dict[str, Any]) -> EnergyRow:
    time_us = energy / 0.3
    return EnergyRow(
        component=name, kind=kind, parent=parent, level="block", calls=work.calls, energy_mj=energy,
        energy_ci_low_mj=energy * (1 - HALF_WIDTH), energy_ci_high_mj=energy * (1 + HALF_WIDTH), time_us=time_us,
        static_mj=STATIC_W * time_us / 1e3, flops=work.flops, bytes=work.bytes,
        executed_flops=work.executed_flops, **base,
    )  # fmt: skip
