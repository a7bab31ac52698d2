"""Sweeps of synthetic runs: cells whose joules follow a known law, and what the real code fits to them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from run_builder import Shape, build_run

from energyscope.runs import schema
from energyscope.runs.store import Run, load_run
from energyscope.runs.sweeps import Sweep, SweepCell, load_sweep, write_sweep
from energyscope.stages.laws import laws_of_sweep

LENGTHS = (32, 128, 512, 1024)
_FIXED, _STEP = 0.6, 0.4 / 128  # of the energy that a run of 128 tokens has
_OFF = {128: 1.03}  # a cell that lies beside the law


def build_cell(path: Path, tokens: int, batch_size: int = 1, *, modelled: bool = False, **sections: Any) -> Run:
    """Write a run whose energy is a part that is fixed and one for each token; FLOPs are as the tokens."""
    work = tokens * batch_size
    scale = (_FIXED + _STEP * work) * _OFF.get(work, 1.0)
    build_run(path, Shape(impact=False, scale=scale, modelled=modelled),
              workload={"sequence_length": tokens, "batch_size": batch_size}, **sections)  # fmt: skip
    file = path / schema.ENERGY_FILE
    frame = pd.read_csv(file, dtype={"layer": "Int64"})
    frame["context_length"], frame["batch_size"] = tokens, batch_size
    for flops in ("flops", "executed_flops"):
        frame[flops] *= work / 128 / scale
    frame["bytes"] *= (0.5 + 0.5 * work / 128) / scale
    frame.to_csv(file, index=False)
    return load_run(path)


def build_swept(path: Path, lengths: Sequence[int] = LENGTHS, *, modelled: bool = False, **sections: Any) -> Sweep:
    """Write a sweep of such runs with its laws.json and its page."""
    path.mkdir(parents=True)
    cells = [SweepCell("fp32", 1, tokens, "prefill", state="done", seconds=20.0) for tokens in lengths]
    for cell in cells:
        build_cell(path / cell.name, cell.tokens, modelled=modelled, **sections)
    created = "2026-11-22T12:00:00Z"
    write_sweep(Sweep(path, path.name, "tiny-gpt2", created, "energyscope sweep tiny-gpt2", {}, cells))
    laws_of_sweep(load_sweep(path))
    return load_sweep(path)
