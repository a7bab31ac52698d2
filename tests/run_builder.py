# ruff: noqa: E501
"""Synthetic run directories of a real one's shape: a GPT-2-like tree whose books close as a real one's do."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from benchmark_builder import Bench, benchmark

from energyscope.correlation.leaves import SETTING
from energyscope.reasons import reason
from energyscope.runs import schema
from energyscope.runs.schema import EnergyRow, ImpactRow
from energyscope.runs.store import Run, RunStore, load_run

# tail inside the layer -> (kind, parent tail, energy of a leaf in mJ)
LAYER_PARTS: dict[str, tuple[str, str, float | None]] = {
    "ln_1": ("norm", "", 0.35),
    "attn": ("attention", "", None),
    "attn.c_attn": ("attention.qkv", "attn", 2.1),
    "attn.core": ("attention.core", "attn", 0.9),
    "attn.c_proj": ("attention.output", "attn", 0.8),
    "ln_2": ("norm", "", 0.36),
    "mlp": ("mlp", "", None),
    "mlp.c_fc": ("mlp.up", "mlp", 2.9),
    "mlp.act": ("mlp.activation", "mlp", 0.5),
    "mlp.c_proj": ("mlp.down", "mlp", 2.7),
}
ENDS: dict[str, tuple[str, float]] = {
    "transformer.wte": ("embedding", 0.6),
    "transformer.ln_f": ("norm", 0.34),
    "lm_head": ("lm_head", 14.0),
}
PJ_PER_FLOP, NJ_PER_BYTE = {"lm_head": 4.0, "attention.core": 8.0}, 0.5
NEW_COLUMNS = {"host_bound", "clock_mhz", "devices_mj"}
IMPACTS = {"embedding": 5.1, "norm": 1.4, "attention": 0.9, "mlp": 0.6, "lm_head": 9.0, "layer": 1.2}


@dataclass
class Shape:
    """What a synthetic run looks like."""

    layers: int = 4
    granularity: str = "fine"
    modelled: bool = False
    impact: bool = True
    reused: bool = True
    scale: float = 1.0
    glue: bool = True
    glue_share: float = 0.06
    unexplained_share: float = 0.02
    old: bool = False  # as a version wrote it that knew neither work nor other methods
    execution: str = "eager"
    graded_work: bool = False  # as versions write it that give work, idle energy and shares intervals and grades
    host_bound: bool = False  # the whole model, as norms always are
    activity: bool = False  # measured on a board with GPM counters: linears by tensor cores, the rest waits
    rename: Callable[[str], str] = str
    benchmark: bool | Bench = False  # True is Bench(): four precisions, one shape, perplexity
    profile: bool = True  # False: a run of which only the benchmark (and what is asked for) has results
    seed: int = 7


Eager = partial(Shape, graded_work=True)  # a run of today, by whose work it is told and compared


def document(name: str = "tiny-gpt2-20261121-093000", **sections: dict[str, Any]) -> dict[str, Any]:
    """A complete run.json of a measured run; ``sections`` are merged one level deep."""
    complete = copy.deepcopy(_DOCUMENT)
    complete["name"] = name
    for key, section in sections.items():
        complete[key] = {**complete.get(key, {}), **section} if isinstance(section, dict) else section
    return complete


def build_run(path: Path, shape: Shape | None = None, **sections: Any) -> Run:
    """Write a synthetic run directory at ``path`` and read it back."""
    shape = shape or Shape()
    store = RunStore.create(path.name, path.parent)
    if shape.modelled:
        sections.setdefault("sensor", {"meter": "modelled", "modelled": True, "watts": 65.0, "idle_w": None})
    store.document.update(
        _without_news(document(path.name, **sections)) if shape.old else _complete(shape, path.name, sections)
    )
    if shape.benchmark:
        _add_benchmark(store, shape)
    rows = energy_rows(shape)
    if shape.profile and not shape.old:
        store.document["differential"] = sections.get("differential") or _differentials(rows)
    columns = [column for column in schema.ENERGY_COLUMNS if not shape.old or column not in NEW_COLUMNS]
    if shape.profile:
        store.write_rows(schema.ENERGY_FILE, rows, columns)
    else:
        _forget_profile(store)
    if shape.impact and shape.profile:
        impacts = impact_rows(rows, shape)
        store.write_rows(schema.IMPACT_FILE, impacts, schema.IMPACT_COLUMNS)
        store.write_json(schema.CORRELATION_FILE, correlation(rows, impacts))
        _write_merged(store, rows, impacts)
    else:
        store.document["stages"]["ablate"] = {"state": "skipped", "reason": "the weights are random", "seconds": 0}
        store.document["stages"]["correlate"] = {"state": "skipped", "reason": "there is no impact", "seconds": 0}
    store.update()
    return load_run(path)


def _add_benchmark(store: RunStore, shape: Shape) -> None:
    """Write what the benchmark stage leaves; without a metric the weights are random."""
    bench = shape.benchmark if isinstance(shape.benchmark, Bench) else Bench()
    bench = replace(bench, modelled=bench.modelled or shape.modelled)
    trials, found = benchmark(bench)
    store.write_rows(schema.BENCHMARK_FILE, trials, schema.BENCHMARK_COLUMNS)
    store.write_json(schema.BENCHMARK_JSON, {**found, "trials": [asdict(row) for row in trials]})
    stages = store.document["stages"]
    store.document["stages"] = {
        "load": stages["load"],
        "benchmark": {**stages["profile"], "seconds": 60.0},
        **stages,
    }
    if bench.metric is None:
        store.document["model"]["weights"] = "random"


def _forget_profile(store: RunStore) -> None:
    store.document["stages"]["profile"] = {"state": "skipped", "reason": "not asked for", "seconds": 0}
    store.document.update(closure={}, differential={}, drift=None, passes=[])


def _complete(shape: Shape, name: str, sections: dict[str, Any]) -> dict[str, Any]:
    settings = {"execution": shape.execution, **sections.pop("settings", {})}
    complete = document(name, settings=settings, **sections)
    if shape.modelled or shape.execution != "eager":
        complete["closure"]["leaves"]["decides"] = "energy"
    return complete


def _without_news(complete: dict[str, Any]) -> dict[str, Any]:
    """What a run.json lacks that was written before closures were judged and kinds left out."""
    for section, keys in {
        "settings": ("sampling", "layers", "target_interval"),
        "sensor": ("choice", "tick_uncertainty_s"),
    }.items():
        for key in keys:
            complete[section].pop(key, None)
    for name in ("differential", "drift"):
        complete.pop(name)
    complete["closure"].pop("leaves", None)
    for entry in complete["closure"].values():
        for key in [key for key in entry if key == "state" or key.startswith(("time_", "static_", "dynamic_"))]:
            del entry[key]
    return complete


def energy_rows(shape: Shape) -> list[EnergyRow]:
    """Rows of a component tree, parents before children; each parent is its children, glue and a rest."""
    rng = random.Random(shape.seed)
    rows = [_row("model", "model", None, "model", None, None, shape)]
    for name, (kind, energy) in ENDS.items():
        if name == "transformer.ln_f":
            rows += _layer_rows(shape, rng)
        rows.append(_row(name, kind, None, "block", "model", energy * rng.uniform(0.98, 1.02), shape))
    for row in reversed(rows):
        _close(row, rows, shape)
    for row in rows:
        row.share_of_total = None if row.energy_mj is None else row.energy_mj / (rows[0].energy_mj or 1)
        if shape.graded_work:
            grade_work(row, rows[0])
        if not shape.old:
            _add_work(row, rows[0], shape)
        row.component, row.parent = shape.rename(row.component), row.parent and shape.rename(row.parent)
    return rows


def _layer_rows(shape: Shape, rng: random.Random) -> list[EnergyRow]:
    rows = []
    shared = {tail: rng.uniform(0.97, 1.03) for tail in LAYER_PARTS}
    for layer in range(shape.layers):
        base = f"transformer.h.{layer}"
        rows.append(
            _row(base, "layer", layer, "layer", "model", 11.0 if shape.granularity == "coarse" else None, shape)
        )
        if shape.granularity == "coarse":
            continue
        for tail, (kind, parent, energy) in LAYER_PARTS.items():
            if shape.granularity == "medium" and parent:
                continue
            own = energy or {"attention": 3.8, "mlp": 6.1}[kind] if shape.granularity == "medium" else energy
            factor = shared[tail] if shape.reused and parent else rng.uniform(0.95, 1.05)
            name = f"{base}.{tail}"
            row = _row(name, kind, layer, "sub-component" if parent else "block",
                       f"{base}.{parent}" if parent else base, own and own * factor, shape)  # fmt: skip
            row.reused = bool(shape.reused and parent)
            rows.append(row)
    return rows


def _row(name: str, kind: str, layer: int | None, level: str, parent: str | None, energy: float | None,
         shape: Shape) -> EnergyRow:  # fmt: skip
    row = EnergyRow(
        component=name, kind=kind, layer=layer, level=level, parent=parent, phase="prefill", precision="fp32",
        execution=shape.execution, batch_size=1, context_length=128, device="cuda:0",
        meter="modelled" if shape.modelled else "nvml", calls=1.0, energy_mj=None, energy_ci_low_mj=None,
        energy_ci_high_mj=None, static_mj=None, dynamic_mj=None, time_us=None, power_w=None,
        ticks=60, windows=6, passes=3, quality="A", parameters=1000, weight_bytes=4000,
    )  # fmt: skip
    if energy is not None:
        _set_energy(row, energy * shape.scale, shape)
    return row


def _set_energy(row: EnergyRow, energy: float, shape: Shape) -> None:
    row.energy_mj = energy
    row.energy_ci_low_mj, row.energy_ci_high_mj = energy * 0.993, energy * 1.008
    row.time_us, row.power_w = energy / 0.3, 300.0
    if not shape.modelled:
        row.static_mj, row.dynamic_mj = energy * 0.39, energy * 0.61


def _close(row: EnergyRow, rows: list[EnergyRow], shape: Shape) -> None:
    children = [child for child in rows if child.parent == row.component]
    if not children:
        return
    inside = sum(child.energy_mj or 0.0 for child in children)
    glue, rest = inside * shape.glue_share, inside * shape.unexplained_share
    _set_energy(row, inside + glue + rest, shape)
    row.self_mj = glue + rest
    if shape.glue:
        row.glue_mj, row.unexplained_mj = glue, rest
        row.glue_ci_low_mj, row.glue_ci_high_mj = glue * 0.95, glue * 1.05
        row.glue_static_mj = None if shape.modelled else glue * 0.7


def grade_work(row: EnergyRow, model: EnergyRow) -> None:
    """Work known to 1.2 %, less well for norms, and shares to half of that; idle energy as the host's pace wanders."""
    if row.energy_mj is None or row.dynamic_mj is None or row.static_mj is None:
        return
    half = 0.15 if row.kind == "norm" else 0.012
    row.dynamic_ci_low_mj, row.dynamic_ci_high_mj = row.dynamic_mj * (1 - half), row.dynamic_mj * (1 + half)
    row.static_ci_low_mj, row.static_ci_high_mj = row.static_mj * 0.8, row.static_mj * 1.2
    row.energy_ci_low_mj, row.energy_ci_high_mj = row.energy_mj * 0.88, row.energy_mj * 1.12
    row.quality, row.dynamic_quality = "invalid", "invalid" if half > 0.1 else "B"
    row.dynamic_share, row.time_share = row.dynamic_mj / (model.dynamic_mj or 1), row.share_of_total
    row.dynamic_share_ci_low, row.dynamic_share_ci_high = (
        row.dynamic_share * (1 + end * half / 2) for end in (-1, 1)
    )
    row.share_ci_low, row.share_ci_high = row.share_of_total * 0.98, row.share_of_total * 1.02
    row.time_share_ci_low, row.time_share_ci_high = row.share_ci_low, row.share_ci_high
    row.dynamic_share_quality, row.share_quality = "C" if half > 0.1 else "A", "B"
    if row.glue_mj is not None and row.glue_static_mj is not None:
        row.glue_dynamic_mj = work = row.glue_mj - row.glue_static_mj
        row.glue_dynamic_ci_low_mj, row.glue_dynamic_ci_high_mj = work * 0.9, work * 1.1


def _add_work(row: EnergyRow, model: EnergyRow, shape: Shape) -> None:
    """Work of the kind's usual price, and what simpler methods would have said; norms wait for the host."""
    if row.energy_mj is None:
        return
    plain = row.kind in {"norm", "embedding", "mlp.activation"}
    row.flops, row.bytes = (
        0.0 if plain else row.energy_mj * 1e9 / PJ_PER_FLOP.get(row.kind, 2.0),
        row.energy_mj * 1e6 / NJ_PER_BYTE,
    )
    row.executed_flops = row.flops
    row.proportional_mj = row.energy_mj * (1.5 if row.kind == "norm" else 0.97)
    row.naive_mj = None if shape.modelled else row.energy_mj * (0.9 if row.kind == "lm_head" else 1.002)
    row.differential_mj = row.energy_mj * 0.99
    row.host_bound = row.kind == "norm" or (shape.host_bound and row.kind == "model")
    row.clock_mhz = None if shape.modelled else 1980.0
    if shape.activity:
        row.sm_activity, row.cuda_core_activity, row.dram_activity = 0.9, 0.1, 0.3
        row.tensor_activity = 0.05 if plain else 0.7
        row.limited_by = "waiting" if plain else "tensor cores"


def impact_rows(rows: list[EnergyRow], shape: Shape) -> list[ImpactRow]:
    """Impact of zeroing and of mean-ablating every component but the model, larger in early layers."""
    rng = random.Random(shape.seed + 1)
    found = []
    for row in rows[1:]:
        base = IMPACTS.get(row.kind, 0.3) / (1 + 0.6 * (row.layer or 0)) * rng.uniform(0.7, 1.3)
        for method, factor in (("zero", 1.0), ("mean", 0.4)):
            for metric, value in (
                ("kl", base * factor), ("perplexity_difference", 9 * base * factor - 0.05),
                ("top1_agreement", 1 / (1 + base * factor)), ("output_change", min(1.0, factor)),
            ):  # fmt: skip
                found.append(
                    ImpactRow(component=row.component, kind=row.kind, layer=row.layer, method=method, metric=metric,
                              value=value, ci_low=value * 0.85, ci_high=value * 1.2, examples=200, valid=True)
                )  # fmt: skip
    return found


def correlation(rows: list[EnergyRow], impacts: list[ImpactRow]) -> dict[str, Any]:
    """A correlation.json of the leaves, as the correlate stage lays it out."""
    kl = {row.component: row for row in impacts if (row.method, row.metric) == ("zero", "kl")}
    parents = {row.parent for row in rows}
    leaves = [row for row in rows[1:] if row.component not in parents]
    middle = (float(np.median([row.energy_mj for row in leaves])),
              float(np.median([kl[row.component].value or 0 for row in leaves])))  # fmt: skip
    points = []
    for row in leaves:
        impact = kl[row.component]
        point = {
            "component": row.component, "kind": row.kind, "layer": row.layer, "energy_mj": row.energy_mj,
            "energy_ci_low_mj": row.energy_ci_low_mj, "energy_ci_high_mj": row.energy_ci_high_mj,
            "impact": impact.value, "impact_ci_low": impact.ci_low, "impact_ci_high": impact.ci_high,
        }  # fmt: skip
        point["quadrant"] = _quadrant(point, *middle)
        points.append(point)
    pairs = [
        {"x": "energy_mj", "y": f"{method}:kl", "method": how, "n": len(points), "value": value, "ci_low": value - 0.3,
         "ci_high": value + 0.31, "p_value": 0.08, "reason": None}
        for method in ("zero", "mean")
        for how, value in (("pearson", 0.41), ("spearman", -0.12))
    ]  # fmt: skip
    return {
        "impact": "zero:kl", "points": points, "correlations": pairs, "unrelated": None,
        "compared": {
            **{name: getattr(rows[0], name) for name in SETTING}, "modelled": rows[0].meter == "modelled",
            "model_energy_mj": rows[0].energy_mj, "components": len(rows) - 1, "left_out": [], "other_rows": 0,
        },
        "quadrants": {"energy_threshold_mj": middle[0], "impact_threshold": middle[1],
                      "rule": reason("median-split", side="above")},
    }  # fmt: skip


def _quadrant(point: dict[str, Any], energy: float, impact: float) -> str:
    if point["energy_ci_low_mj"] <= energy <= point["energy_ci_high_mj"]:
        return "undecided"
    if point["impact_ci_low"] <= impact <= point["impact_ci_high"]:
        return "undecided"
    sides = ["high" if point[key] > limit else "low" for key, limit in (("energy_mj", energy), ("impact", impact))]
    return f"{sides[0]} energy, {sides[1]} impact"


def _write_merged(store: RunStore, rows: list[EnergyRow], impacts: list[ImpactRow]) -> None:
    merged = pd.DataFrame([vars(row) for row in rows])
    for pair in dict.fromkeys((row.method, row.metric) for row in impacts):
        values = {row.component: row.value for row in impacts if (row.method, row.metric) == pair}
        merged[":".join(pair)] = merged["component"].map(values)
    store.write_rows(schema.MERGED_FILE, merged.to_dict("records"), schema.ENERGY_COLUMNS)


def _differentials(rows: list[EnergyRow]) -> dict[str, Any]:
    """MLP and attention agree with their replay, an LM head takes more in replay, and norms are too noisy to tell."""
    known = {}
    for kind, saved, half in (("mlp", 0.99, 0.02), ("attention", 0.99, 0.03), ("lm_head", 0.86, 0.01),
                              ("norm", 0.12, 0.18)):  # fmt: skip
        replayed = sum(row.energy_mj or 0.0 for row in rows if row.kind == kind)
        if replayed:
            known[kind] = differential(saved * replayed, half * replayed, replayed, rows[0].energy_mj or 1.0)
    return known


def differential(saved: float, half: float, replayed: float, model: float = 100.0) -> dict[str, Any]:
    """What run.json says of a kind that the model saves ``saved`` mJ without, of energy and of work alike."""
    share, saved_share = ({"value": value / model, "low": (value - error) / model, "high": (value + error) / model}
                          for value, error in ((replayed, replayed / 100), (saved, half)))  # fmt: skip
    ratio = replayed / saved
    shares = {"replayed": share, "saved": saved_share}
    return {
        "energy_mj": saved, "low": saved - half, "high": saved + half, "replayed_mj": replayed, "ratio": ratio,
        "ratio_low": ratio * (1 - half / saved), "ratio_high": ratio * (1 + half / saved),
        "shares": {"energy": shares, "dynamic": shares}, "quality": "B" if half < 0.03 * saved else "invalid",
        "reasons": reason("wide-interval", half_width=half / saved),
    }  # fmt: skip


_DOCUMENT: dict[str, Any] = {
    "schema": 1, "energyscope": "0.1.0", "created": "2026-11-21T09:30:00Z",
    "command": "energyscope run tiny-gpt2", "fingerprint": "c0ffee",
    "settings": {
        "model": "tiny-gpt2", "weights": "pretrained", "precision": "fp32", "device": "cuda", "granularity": "fine",
        "phase": "prefill", "batch_size": 1, "sequence_length": 128, "execution": "eager", "meter": "nvml",
        "passes": 3, "window_s": 0.5, "sampling": "replay", "layers": "mean", "target_interval": 0.01, "methods": ["zero", "mean"], "max_examples": 200, "seed": 0, "data": None,
    },
    "model": {
        "name": "tiny-gpt2", "adapter": "gpt2", "model_type": "gpt2", "task": "next-token", "metric": "perplexity",
        "source": "bundled", "weights": "bundled", "parameters": 1234567, "size_bytes": 4938268, "layers": 4,
        "dtype": "float32",
    },
    "workload": {
        "batch_size": 1, "sequence_length": 128, "tokens": "data", "tokens_per_forward": 128,
        "evaluation": {"source": "tiny-gpt2 held-out", "examples": 200, "baseline": {"perplexity": 6.42}},
    },
    "environment": {"python": "3.11.9", "platform": "Linux", "torch": "2.13.0", "transformers": "5.23.0",
                    "cuda": "13.0", "driver": "580.65"},
    "device": {"type": "cuda", "name": "NVIDIA H200", "uuid": "GPU-1111", "index": 0, "l2_bytes": 52428800,
               "memory_bytes": 150000000000, "power_limit_w": 700.0},
    "sensor": {"meter": "nvml", "modelled": False, "watts": None, "tick_period_s": 0.1, "tick_jitter_s": 0.001,
               "tick_uncertainty_s": 0.002, "choice": "nvml: the energy counter answers and rises",
               "read_cost_s": 0.0038, "energy_quantum_mj": 1.0, "idle_w": 118.2, "notes": ["read by its own process"]},
    "stages": {
        "load": {"state": "done", "reason": None, "seconds": 1.2},
        "profile": {"state": "done", "reason": None, "seconds": 140.0},
        "ablate": {"state": "done", "reason": None, "seconds": 22.0},
        "correlate": {"state": "done", "reason": None, "seconds": 0.4},
    },
    "closure": {
        "model": {"energy": 0.98, "energy_low": 0.965, "energy_high": 0.99, "time": 0.97, "time_low": 0.95,
                  "time_high": 0.99, "static": 0.97, "static_low": 0.95, "static_high": 0.99, "dynamic": 0.985,
                  "dynamic_low": 0.97, "dynamic_high": 1.0, "with_glue": True, "state": "closed"},
        "layers": {"energy": 1.08, "energy_low": 1.07, "energy_high": 1.09, "time": 1.05, "time_low": 1.03,
                   "time_high": 1.07, "static": 1.05, "static_low": 1.03, "static_high": 1.07, "dynamic": 1.1,
                   "dynamic_low": 1.08, "dynamic_high": 1.12, "with_glue": True, "state": "over-captured"},
        "leaves": {"energy": 0.955, "energy_low": 0.94, "energy_high": 0.97, "time": 0.95, "time_low": 0.93,
                   "time_high": 0.97, "static": 0.92, "static_low": 0.9, "static_high": 0.94, "dynamic": 0.985,
                   "dynamic_low": 0.97, "dynamic_high": 1.0, "with_glue": True, "decides": "dynamic",
                   "state": "closed"},
    },
    "differential": {"mlp": differential(24.0, 0.5, 24.3, 70.2)},
    "drift": {"change": 0.002, "low": -0.004, "high": 0.008, "significant": False},
    "passes": [
        {"index": 0, "idle_w": 118.2, "anchor_mj": 70.1, "anchor_low_mj": 69.8, "anchor_high_mj": 70.5,
         "clock_mhz": 1980.0, "temperature_c": 41},
        {"index": 1, "idle_w": 118.4, "anchor_mj": 70.4, "anchor_low_mj": 70.0, "anchor_high_mj": 70.8,
         "clock_mhz": 1980.0, "temperature_c": 42},
        {"index": 2, "idle_w": 118.3, "anchor_mj": 70.2, "anchor_low_mj": 69.9, "anchor_high_mj": 70.6,
         "clock_mhz": 1980.0, "temperature_c": 42},
    ],
    "warnings": [],
}  # fmt: skip
