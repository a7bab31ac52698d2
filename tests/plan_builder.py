"""The journal of a plan with known joules and known harm: two families of groups in three layers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from run_builder import Shape, build_run

from energyscope.metering.window import Window
from energyscope.planning.budget import parse_budget
from energyscope.planning.document import document
from energyscope.planning.groups import LinearGroup
from energyscope.planning.record import PRICES, STILL, TOGETHER, VERIFY, PlanRecord
from energyscope.planning.replaying import MODEL, applied_target, price_target
from energyscope.runs import schema
from energyscope.runs.store import Run, RunStore, load_run

PRECISIONS = ("bf16", "fp8", "int4")
MODEL_MJ = 100.0
GROUPS = [
    LinearGroup(f"layers.{layer}.{name}", kind, layer, (f"layers.{layer}.{name}",), (shape,))
    for layer in range(3)
    for name, kind, shape in (("up", "mlp.up", (64, 16)), ("down", "mlp.down", (16, 64)))
]
PRICES_MJ = {"mlp.up": (16.0, 10.0, 12.0), "mlp.down": (8.0, 9.0, 4.0)}  # of a group at each precision
HARMS = {"mlp.up": (0.0, 1e-3, 4e-3), "mlp.down": (0.0, 5e-4, 6e-3)}  # nats a token, each group alike
EXAMPLES = 40
WATTS, APPLIED_WATTS = 100.0, 90.0  # so that energy and time are not saved alike


def window(part: str, key: str, number: int, energy_mj: float, watts: float = WATTS) -> dict[str, Any]:
    """Return a window's entry; energies drift by 0.1 % a pass, and scatter by as much around that."""
    energy_mj *= 1 + 1e-3 * (number - 2) + 1e-3 * math.sin(sum(map(ord, key)) + 2.1 * number)
    measured = Window(energy_mj, energy_mj / watts * 1e3, watts, energy_mj, 5, 100, 0.5, timing_share=1e-4)
    return {
        "part": part, "subject": key, "pass": number, "begin_s": float(number), "ran_s": (0.0, 0.5),
        "window": asdict(measured), "guard": [],
    }  # fmt: skip


def sums(per_token: float) -> list[float]:
    """Return harm by example around a mean."""
    spread = np.tile([0.9, 1.1], EXAMPLES // 2)
    return [float(value) for value in per_token * spread]


def header(budget: str = "perplexity +0.5%", **changes: Any) -> dict[str, Any]:
    return {
        "model": "made-up", "weights": "pretrained", "budget": budget, "objective": "energy",
        "precisions": list(PRECISIONS), "left_out": {}, "groups": [asdict(group) for group in GROUPS],
        "execution": "cuda-graph",
        "workloads": [{"key": "prefill:1", "phase": "prefill", "batch_size": 1, "tokens": 128}],
        "data": "made up", "examples": [EXAMPLES, EXAMPLES], "baseline": 8.0, "weight_bytes": 10_000,
        "modelled": False, "passes": {PRICES: 5, TOGETHER: 5, STILL: 5, VERIFY: 7}, "seed": 0, **changes,
    }  # fmt: skip


def priced(passes: int = 5, *, prices_mj: Mapping[str, tuple[float, ...]] = PRICES_MJ) -> list[dict[str, Any]]:
    """Return the entries of prices and of the harm of each group."""
    entries: list[dict[str, Any]] = []
    for family, kind in {group.family: group.kind for group in GROUPS}.items():
        for place, precision in enumerate(PRECISIONS):
            entries.append({"priced": {"family": family, "precision": precision, "bytes": 2048 >> place}})
            key = price_target(family, precision).key
            entries += [window(PRICES, key, number, prices_mj[kind][place]) for number in range(passes)]
    entries += [window(PRICES, MODEL.key, number, MODEL_MJ) for number in range(passes + 1)]
    entries.append({"weights": [1.0] * EXAMPLES})
    entries += [
        {"harms": {"group": group.name, "precision": precision, "sums": sums(HARMS[group.kind][place])}}
        for group in GROUPS
        for place, precision in enumerate(PRECISIONS)
        if place
    ]
    return entries


def tried(name: str, precisions: list[str], per_token: float) -> dict[str, Any]:
    return {"tried": {"name": name, "precisions": precisions, "sums": sums(per_token)}}


def verified(name: str, energy_mj: float, per_token: float) -> list[dict[str, Any]]:
    """Return the entries of a choice that was applied: its windows, and what it does on the other half."""
    held_out = {"name": name, "sums": sums(per_token), "weights": [1.0] * EXAMPLES, "kl": 1e-3, "agreement": 0.99}
    return [
        *(window(VERIFY, applied_target(name).key, number, energy_mj, APPLIED_WATTS) for number in range(7)),
        {"held_out": held_out},
    ]


def chosen(precisions: list[str], budget: str = "perplexity +0.5%") -> dict[str, Any]:
    limit = parse_budget(budget).limit(8.0)
    return {"chosen": {"precisions": precisions, "limit": limit, "factor": 1.0}}


def plan_entries(
    *, plan_mj: float = 82.0, single_mj: float = 86.0, held_out: float = 3.1e-3
) -> list[dict[str, Any]]:
    """Return the journal of a plan: FP8 for the MLP's first linears, which saves 18 of 100 mJ."""
    plan = ["fp8" if group.kind == "mlp.up" else "bf16" for group in GROUPS]
    everywhere = ["fp8"] * len(GROUPS)
    return [
        {"header": header()},
        *priced(),
        tried("all fp8", everywhere, 4.5e-3),
        tried("all int4", ["int4"] * len(GROUPS), 3e-2),
        tried("plan", plan, 3e-3),
        chosen(plan),
        {"held_out_baseline": 8.1},
        *(window(VERIFY, MODEL.key, number, MODEL_MJ) for number in range(8)),
        *verified("plan", plan_mj, held_out),
        *verified("all fp8", single_mj, 4.6e-3),
    ]


def build_plan(
    path: Path, shape: Shape | None = None, *, entries: list[dict[str, Any]] | None = None, **changes: Any
) -> Run:
    """Write a synthetic run of which a plan has results, and the profile where ``shape`` has one."""
    run = build_run(path, shape or Shape(profile=False, impact=False, execution="cuda-graph"))
    store = RunStore.open(run.path)
    store.document["settings"] |= {"stages": ["plan", "report"], "precision": "bf16"}
    store.document["stages"]["plan"] = {"state": "done", "reason": None, "seconds": 90.0}
    store.update()
    store.write_json(schema.PLAN_JSON, document(PlanRecord(entries or plan_entries(**changes))) or {})
    return load_run(path)


def lever_rows(**ratios: tuple[float, float, float]) -> dict[str, Any]:
    """Return the content of alternatives.json of decode steps, by what is changed: a ratio and its limits."""
    same = {"phase": "decode", "batch_size": 1, "windows": 5, "quality": "A", "guards": []}
    rows = [{**same, "what": "base", "value": "base", "ratio": {"value": 1.0, "low": None, "high": None}}]
    rows += [
        {**same, "what": what, "value": "3", "ratio": {"value": value, "low": low, "high": high}}
        for what, (value, low, high) in ratios.items()
    ]
    return {"base": {"batch_size": 1, "context_length": 64}, "rows": rows, "skipped": [], "modelled": False}


def add_levers(run: Run, with_plan: dict[str, Any], alone: dict[str, Any] | None = None) -> Run:
    """Write what was measured with a plan applied, and by itself; read the run again."""
    store = RunStore.open(run.path)
    run.plan["workloads"][0]["levers"] = with_plan
    store.write_json(schema.PLAN_JSON, run.plan)
    if alone is not None:
        store.write_json(schema.ALTERNATIVES_JSON, alone)
    return load_run(run.path)
