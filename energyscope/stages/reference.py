"""The reference workload's joules on a board: measured by the doctor, kept for each board, carried by its runs."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import torch

from energyscope import user_files
from energyscope.adapters import Adapter
from energyscope.diagnostics.reference_layer import ReferenceShape, reference_layer, reference_shape
from energyscope.loading import LoadedModel
from energyscope.metering.group import MeterGroup
from energyscope.metering.interval import repeatable
from energyscope.progress import Progress, silent
from energyscope.reasons import reason
from energyscope.runs.schema import EnergyRow
from energyscope.stages.profile import ProfileSettings, profile
from energyscope.stages.sampling_budget import SamplingBudget
from energyscope.workloads import Workload

FILE = "references.json"
STAGE = "reference"
TAKES_S = 40.0  # about, where the interval of the sensor's samples is known
WINDOW_S = 1.5  # so long that hardly any period of the layer beats with the sensor, which would need pauses
LEAST_GRADES = ("A", "B")  # a worse one says nothing about boards, which differ by some percent
# What a measurement depends on beside the board, by its name in words: of another one, runs do not carry it.
CONDITIONS = {
    "workload": "workload",
    "meter": "meter",
    "torch": "PyTorch",
    "driver": "driver",
    "power_limit_w": "power limit",
    "threads": "CPU threads",
}

Facts = Mapping[str, Any]


def sampling_budget(meter: MeterGroup) -> SamplingBudget:
    """Return how the workload is sampled: five windows with idle pauses between, and up to two more."""
    window_s = max(WINDOW_S, meter.window_s)
    return SamplingBudget(target_interval=0.004, budget_s=7.2 * window_s, window_s=window_s, settle_capped=True)


def measure_reference(
    meter: MeterGroup, device: torch.device, facts: Facts, *, progress: Progress = silent
) -> dict[str, Any]:
    """Measure the reference workload on a started meter's board, keep what it takes, and return it.

    ``facts`` are those of the device (`energyscope.stages.facts.device_facts`). On a GPU it runs in a CUDA graph.

    Returns:
        As `record_of`. Where it is too noisy or cannot be measured, nothing is kept, and ``energy_mj`` is None
        with a ``reason``.

    Raises:
        MeterError: the meter was lost.

    """
    shape = reference_shape(device)
    layer, states = reference_layer(shape, device)
    loaded = LoadedModel(
        name=shape.name,
        model=layer,
        adapter=Adapter(shape.name, (), "embedding", layers=(), parts=()),
        tokenizer=None,
        tokenizer_reason=reason("not-asked-for"),
        precision=str(shape.dtype).removeprefix("torch."),
        device=device,
        weights="random",
        source="in memory",
        seconds=0.0,
    )
    attribution = profile(
        loaded,
        Workload({"states": states}, "synthetic", batch_size=shape.sequences, sequence_length=shape.tokens),
        meter,
        ProfileSettings(
            sampling_budget=sampling_budget(meter), execution="cuda-graph" if device.type == "cuda" else "eager"
        ),
        journal=lambda _: None,
        progress=lambda _, label, done, total: progress(STAGE, label, done, total),
    )
    record = record_of(attribution.rows[0], shape, facts, meter.name)
    if record["energy_mj"] is not None:
        user_files.add(FILE, {record["board"]: record})
    return record


def record_of(row: EnergyRow, shape: ReferenceShape, facts: Facts, meter: str) -> dict[str, Any]:
    """Return what a measurement says: conditions, energy and work of a pass (mJ) with 95 % intervals, and more.

    The intervals have in them what equal measurements on one board differ by. Where the row is worse than grade B,
    ``energy_mj`` is None, and ``reason`` says why.
    """
    record = {
        "board": board_of(facts),
        **conditions_of(facts, meter, shape),
        "measured": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
    }
    if row.quality not in LEAST_GRADES:
        return {**record, "energy_mj": None, "reason": row.reasons}
    low, high = repeatable(row.energy_mj, row.energy_ci_low_mj, row.energy_ci_high_mj)
    dynamic_low, dynamic_high = repeatable(row.dynamic_mj, row.dynamic_ci_low_mj, row.dynamic_ci_high_mj)
    return {
        **record,
        "energy_mj": row.energy_mj,
        "low_mj": low,
        "high_mj": high,
        "dynamic_mj": row.dynamic_mj,
        "dynamic_low_mj": dynamic_low,
        "dynamic_high_mj": dynamic_high,
        "time_us": row.time_us,
        "power_w": row.power_w,
        "windows": row.windows,
        "sm_clock_mhz": row.clock_mhz,
        "at_power_limit": row.at_power_limit,
    }


def board_of(facts: Facts) -> str:
    """Return what a reference is kept by: a GPU's UUID; a processor has none, and goes by its machine.

    Run files hold it, and do not say what the machine is called.
    """
    return str(facts["uuid"] or f"{facts['name']} {hashlib.sha256(platform.node().encode()).hexdigest()[:12]}")


def conditions_of(facts: Facts, meter: str, shape: ReferenceShape) -> dict[str, Any]:
    """Return what a measurement of the workload depends on beside the board."""
    threads = torch.get_num_threads() if facts["type"] == "cpu" else None
    values = (shape.name, meter, torch.__version__, facts.get("driver"), facts.get("power_limit_w"), threads)
    return dict(zip(CONDITIONS, values, strict=True))


def kept_reference(facts: Facts) -> dict[str, Any] | None:
    """Return what was measured last on a board, under whatever conditions; None where nothing was."""
    known = user_files.read(FILE).get(board_of(facts))
    return known if isinstance(known, dict) else None


def outdated(reference: Facts, facts: Facts, meter: str, device: torch.device) -> list[str]:
    """Return the names of the conditions that are others now than when a reference was measured."""
    now = conditions_of(facts, meter, reference_shape(device))
    return [name for key, name in CONDITIONS.items() if reference.get(key) != now[key]]


def carried_reference(facts: Facts, meter: str, device: torch.device) -> dict[str, Any] | None:
    """Return the reference that a run carries: its board's, if it was measured under the run's conditions."""
    kept = kept_reference(facts)
    return None if kept is None or outdated(kept, facts, meter, device) else kept
