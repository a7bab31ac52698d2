"""Synthetic results of the benchmark stage: the table of trials, and the document that is made of it."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from statistics import fmean, stdev
from typing import Any

from energyscope.intervals import Interval, ratio
from energyscope.runs.schema import BenchmarkRow

# name -> (implementation, dtype, latency and watts as shares of FP32's, bytes a weight)
PRECISIONS: dict[str, tuple[str, str, float, float, float]] = {
    "fp32": ("PyTorch, float32", "float32", 1.0, 1.0, 4.0),
    "fp16": ("PyTorch, float16", "float16", 1 / 3.1, 0.87, 2.0),
    "bf16": ("PyTorch, bfloat16", "bfloat16", 1 / 3.0, 0.86, 2.0),
    "fp16-autocast": ("torch.autocast, float16", "float32", 1 / 1.9, 0.82, 4.0),
    "int8": ("bitsandbytes LLM.int8()", "int8", 1.62, 0.48, 1.3),
    "nf4": ("bitsandbytes NF4", "uint8", 1.18, 0.55, 0.8),
    "fp4": ("bitsandbytes FP4", "uint8", 1.16, 0.55, 0.8),
}
SCORES = {  # name -> (change of the accuracy, change of the perplexity, KL, agreement)
    "fp16": (0.0, 0.004, 2e-5, 0.999),
    "bf16": (-0.0034, 0.03, 9e-4, 0.992),
    "fp16-autocast": (0.0, 0.004, 2e-5, 0.999),
    "int8": (-0.0046, 0.21, 4e-3, 0.981),
    "nf4": (-0.031, 1.4, 6e-2, 0.93),
    "fp4": (-0.052, 2.2, 9e-2, 0.91),
}
WATTS, IDLE_W, MODELLED_W, PARAMETERS = 420.0, 118.0, 65.0, 66_955_010
NO_ENERGY = "no window held five ticks of the counter: give --num-iters more"


@dataclass
class Bench:
    """What a synthetic benchmark looks like; ``metric`` is accuracy, perplexity, or None for random weights."""

    precisions: tuple[str, ...] = ("fp32", "fp16", "bf16", "int8")
    batch_sizes: tuple[int, ...] = (1,)
    lengths: tuple[int, ...] = (128,)
    trials: int = 5
    metric: str | None = "perplexity"
    baseline: str | None = "fp32"
    skipped: dict[str, str] = field(default_factory=lambda: {"nf4": "bitsandbytes is not installed"})
    no_energy: tuple[str, ...] = ()  # precisions without energy, for the reason NO_ENERGY
    modelled: bool = False
    spread: float = 0.004
    seed: int = 3


def benchmark(bench: Bench) -> tuple[list[BenchmarkRow], dict[str, Any]]:
    """Return the rows of benchmark_results.csv and the content of benchmark.json (without its trials)."""
    rng = random.Random(bench.seed)
    shapes = [(batch, length) for batch in bench.batch_sizes for length in bench.lengths]
    rows = [
        _row(bench, name, batch, length, trial, rng)
        for batch, length in shapes
        for name in bench.precisions
        for trial in range(bench.trials)
    ]
    cells = [_cell(bench, rows, name, batch, length) for batch, length in shapes for name in bench.precisions]
    for cell in cells:
        _relate(cell, cells, bench)
    document = {
        "settings": {
            "precisions": [*bench.precisions, *bench.skipped], "batch_sizes": list(bench.batch_sizes),
            "sequence_lengths": list(bench.lengths), "trials": bench.trials, "num_iters": 1000,
            "warmup_steps": 100, "trial_seconds": None, "power_sample_interval_s": 0.1, "seed": 0,
        },
        "baseline": bench.baseline,
        "models": [_model(name) for name in bench.precisions],
        "skipped": [{"precision": name, "reason": reason} for name, reason in bench.skipped.items()],
        "cells": cells,
        "predictions": [_prediction(bench, name) for name in bench.precisions] if bench.metric else [],
        "predictions_reason": None if bench.metric else "the weights are random, so predictions mean nothing",
        "notes": ["The clock settled at 1980 MHz after 3 s of warm-up."],
    }  # fmt: skip
    return rows, document


def _row(bench: Bench, name: str, batch: int, length: int, trial: int, rng: random.Random) -> BenchmarkRow:
    implementation, dtype, slower, watts_share, _ = PRECISIONS[name]
    growing = math.log2(batch * length / 128)  # INT8 gains on FP32 with the work, the others gain a little
    slower **= 1 + growing * (-0.25 if name == "int8" else 0.04)
    latency = (0.0012 + 2.2e-5 * (batch * length) ** 0.9) * slower * rng.gauss(1, bench.spread)
    watts = MODELLED_W if bench.modelled else WATTS * watts_share * rng.gauss(1, bench.spread)
    without = name in bench.no_energy
    joules = None if without else latency * watts
    idle = None if bench.modelled or without else IDLE_W
    static = None if idle is None else idle * latency * 1e3
    model, score = _model(name), _prediction(bench, name) if bench.metric else None
    energy = None if joules is None else joules * 1e3
    return BenchmarkRow(
        precision=name, batch_size=batch, sequence_length=length, trial=trial, mean_latency=latency,
        std_latency=latency * 0.01, min_latency=latency * 0.98, max_latency=latency * 1.2,
        median_latency=latency * 0.995, throughput=batch / latency, mean_power_w=None if without else watts,
        std_power_w=None if without else 3.0, min_power_w=None if without else watts * 0.98,
        max_power_w=None if without else watts * 1.02, median_power_w=None if without else watts,
        num_power_samples=0 if without else 40, total_energy_j=None if joules is None else joules * 1000,
        energy_per_inference_j=joules, energy_per_inference_mj=energy,
        inferences_per_joule=None if joules is None else 1 / joules,
        accuracy=score["value"]["value"] if score and bench.metric == "accuracy" else None,
        num_correct=score["correct"] if score else None,
        num_samples_accuracy=score["examples"] if score and bench.metric == "accuracy" else None,
        perplexity=score["value"]["value"] if score and bench.metric == "perplexity" else None,
        allocated_gb=model["model_size_mb"] / 1e3, peak_allocated_gb=_peak(name, batch, length),
        reserved_gb=_peak(name, batch, length) * 1.1, num_parameters=PARAMETERS,
        model_size_mb=model["model_size_mb"], dtype=dtype, implementation=implementation, device="cuda:0",
        meter="modelled" if bench.modelled else "nvml", iterations=1000, warmup_iterations=140, stable=True,
        p50_latency=latency * 0.995, p95_latency=latency * 1.03, p99_latency=latency * 1.08,
        tokens_per_s=batch * length / latency,
        tokens_per_joule=None if joules is None else batch * length / joules,
        energy_delay_product_js=None if joules is None else joules * latency,
        energy_ci_low_mj=None if energy is None else energy * 0.996,
        energy_ci_high_mj=None if energy is None else energy * 1.004, idle_w=idle,
        static_energy_per_inference_mj=static,
        dynamic_energy_per_inference_mj=None if energy is None or static is None else energy - static,
        naive_energy_per_inference_mj=None if bench.modelled or energy is None else energy * 1.01,
        ticks=0 if without else 40, clock_mhz=None if bench.modelled else 1980.0,
        temperature_c=None if bench.modelled else 45.0, reasons=NO_ENERGY if without else "",
    )  # fmt: skip


_COLUMNS = {
    "latency_s": "mean_latency", "median_latency_s": "median_latency", "p95_latency_s": "p95_latency",
    "p99_latency_s": "p99_latency", "throughput": "throughput", "tokens_per_s": "tokens_per_s",
    "power_w": "mean_power_w", "energy_mj": "energy_per_inference_mj",
    "dynamic_energy_mj": "dynamic_energy_per_inference_mj", "inferences_per_joule": "inferences_per_joule",
    "tokens_per_joule": "tokens_per_joule", "energy_delay_product_js": "energy_delay_product_js",
}  # fmt: skip


def _cell(bench: Bench, rows: list[BenchmarkRow], name: str, batch: int, length: int) -> dict[str, Any]:
    own = [row for row in rows if (row.precision, row.batch_size, row.sequence_length) == (name, batch, length)]
    without = name in bench.no_energy
    energies = [row.energy_per_inference_mj for row in own if row.energy_per_inference_mj is not None]
    return {
        "precision": name, "batch_size": batch, "sequence_length": length, "trials": bench.trials,
        **{key: _summary([getattr(row, column) for row in own]) for key, column in _COLUMNS.items()},
        "peak_allocated_gb": _peak(name, batch, length),
        "energy_spread": stdev(energies) / fmean(energies) if len(energies) > 1 else None,
        "quality": "invalid" if without else "A", "reasons": NO_ENERGY if without else "",
    }  # fmt: skip


def _summary(values: list[float | None]) -> dict[str, float | None] | None:
    """Return the mean with a 95 % interval of roughly Student's width; no limits for a single trial."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    if len(known) == 1:
        return {"value": known[0], "low": None, "high": None}
    half = 2.8 * stdev(known) / math.sqrt(len(known))
    return {"value": fmean(known), "low": fmean(known) - half, "high": fmean(known) + half}


def _relate(cell: dict[str, Any], cells: list[dict[str, Any]], bench: Bench) -> None:
    """Add the speed-up and the energy ratio against the baseline at the same batch size and length."""
    base = next(
        (other for other in cells if other["precision"] == bench.baseline
         and (other["batch_size"], other["sequence_length"]) == (cell["batch_size"], cell["sequence_length"])),
        None,
    )  # fmt: skip
    cell["speedup"] = _quotient(base and base["latency_s"], cell["latency_s"])
    cell["energy_ratio"] = _quotient(cell["energy_mj"], base and base["energy_mj"])


def _quotient(first: dict[str, Any] | None, second: dict[str, Any] | None) -> dict[str, Any] | None:
    if first is None or second is None:
        return None
    if first is second:
        return {"value": 1.0, "low": 1.0, "high": 1.0}
    found = ratio(Interval(**first), Interval(**second))
    return found and vars(found)


def _model(name: str) -> dict[str, Any]:
    implementation, dtype, _, _, bytes_each = PRECISIONS[name]
    notes = ["embeddings and layer norms stay in float16"] if name in {"int8", "nf4", "fp4"} else []
    return {"precision": name, "implementation": implementation, "num_parameters": PARAMETERS,
            "model_size_mb": PARAMETERS * bytes_each / 1e6, "dtype": dtype, "load_seconds": 1.2,
            "notes": notes}  # fmt: skip


def _peak(name: str, batch: int, length: int) -> float:
    return PARAMETERS * PRECISIONS[name][4] / 1e9 + 4e-7 * batch * length * PRECISIONS[name][4] + 0.02


def _prediction(bench: Bench, name: str) -> dict[str, Any]:
    accuracy, perplexity, kl, agreement = SCORES.get(name, (0.0, 0.0, 0.0, 1.0))
    if bench.metric == "accuracy":
        value, change, half, width = 0.906 + accuracy, accuracy, 0.019, abs(accuracy) * 0.6 + 0.003
    else:
        value, change, half, width = 6.42 + perplexity, perplexity, 0.4, abs(perplexity) * 0.3 + 0.01
    found: dict[str, Any] = {
        "precision": name, "metric": bench.metric, "value": _around(value, half), "examples": 872,
        "correct": round(value * 872) if bench.metric == "accuracy" else None, "difference": None, "kl": None,
        "agreement": None,
    }  # fmt: skip
    if name != bench.baseline and bench.baseline is not None:
        found["difference"] = _around(change, width)
        found["kl"], found["agreement"] = _around(kl, kl * 0.2), _around(agreement, (1 - agreement) * 0.4)
    return found


def _around(value: float, half: float) -> dict[str, float]:
    return {"value": value, "low": value - half, "high": value + half}
