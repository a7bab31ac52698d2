"""The study of CLEAR's kinds of models: its table is made of sweeps, and compares what can be compared."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[2] / "tools"
COLUMNS = (
    "component", "kind", "level", "energy_mj", "energy_ci_low_mj", "energy_ci_high_mj", "time_us",
    "executed_flops", "spread_between_passes", "quality", "reasons",
)  # fmt: skip


@pytest.fixture
def study(monkeypatch):
    """Return the module, without what it read before."""
    monkeypatch.syspath_prepend(str(TOOLS))
    from studies import clear_models

    clear_models.measured.cache_clear()
    yield clear_models
    clear_models.measured.cache_clear()


def cell(folder, precision, *, norm_mj, board="aaaa", state="done"):
    """Write a sweep of one cell: two layers whose attention takes 4 mJ and whose MLP 8, for 1 and 4 GFLOP."""
    path = folder / f"{precision}-b1-s128"
    path.mkdir(parents=True)
    kinds = {"attention": (4.0, 1e9), "mlp": (8.0, 4e9), "norm": (norm_mj, 0.0), "layer": (13.0, 5e9)}
    rows = [("model", "model", "model", 30.0, 1e10)]
    rows += [
        (f"layers.{number}.{kind}", kind, "layer" if kind == "layer" else "block", energy, flops)
        for number in range(2)
        for kind, (energy, flops) in kinds.items()
    ]
    with (path / "per_layer_energy.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for name, kind, level, energy, flops in rows:
            writer.writerow([name, kind, level, energy, energy * 0.99, energy * 1.01, 100, flops, 0.02, "B", ""])
    closure = {f"{what}{end}": 1.0 for what in ("energy", "dynamic") for end in ("", "_low", "_high")}
    run = {"device": {"uuid": f"GPU-{board}"}, "closure": {"model": closure}}
    (path / "run.json").write_text(json.dumps(run))
    one = {"precision": precision, "batch_size": 1, "tokens": 128, "state": state}
    (folder / "sweep.json").write_text(json.dumps({"cells": [one]}))


@pytest.fixture
def made(study, tmp_path, monkeypatch):
    """Return a function that makes the table of one model's sweeps."""
    monkeypatch.setattr(study, "FILE", tmp_path / "measured.csv")

    def make(**single):
        cell(tmp_path / "bert-base-graph-fp16", "fp16", norm_mj=0.5)
        cell(tmp_path / "bert-base-graph-fp32", "fp32", **{"norm_mj": 1.0, **single})
        study.main(str(tmp_path))
        return {row["model"]: row for row in study.models().rows}["bert-base"]

    return make


def test_parts_are_sums_of_blocks_by_flop(study, made):
    """GIVEN blocks within layers THEN energy per FLOP is of the blocks, and layers do not count again."""
    row = made()
    assert row["attention"].value == pytest.approx(4.0)  # pJ/FLOP
    assert row["mlp"].value == pytest.approx(2.0)
    assert row["ratio"].value == pytest.approx(2.0)
    assert row["ratio"].high == pytest.approx(2.0 * (1 + 0.01 * 2**0.5))
    assert row["energy"].value == 30.0


def test_precisions_are_compared_on_one_board(study, made):
    """GIVEN FP16 and FP32 of one board THEN norms are compared."""
    made()
    assert study.half_to_single("bert-base", "norm").value == pytest.approx(0.5)
    assert study.half_to_single("gpt-oss-20b", "norm") is None


def test_other_boards_are_not_compared(study, made):
    """GIVEN FP32 of another board THEN nothing is said."""
    made(board="bbbb")
    assert study.half_to_single("bert-base", "model") is None


def test_what_was_not_finished_does_not_count(study, made):
    """GIVEN a cell that was stopped THEN it has no line."""
    made(state="interrupted")
    assert ("bert-base", "graph-fp32", 128) not in study.measured()
