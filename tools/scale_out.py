"""What a sweep of many cells takes on many GPUs: a simulation with measured costs, and where it meets a limit.

    python tools/scale_out.py --cells 1000 --gpus 64

Workers take cells in order. A cell costs the engine a moment, then a process starts, loads the model and measures;
some are lost half-way and measured again. The head records each result in turn, and reads all runs at the end. All
costs are arguments. Their defaults were measured: cells of GPT-2 (`energyscope sweep gpt2 --weights random
--precision bf16 --execution cuda-graph --component-budget 0.5 --engine local`) on an H200, the head's on two cores
of a virtual machine.
"""

from __future__ import annotations

import argparse
import heapq
import json
import random
import tempfile
import time
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from energyscope.runs.sweeps import Sweep, SweepCell, write_sweep

HOUR_S, KWH_J = 3600.0, 3.6e6


@dataclass(frozen=True)
class Costs:
    """What things cost: seconds, watts, files and bytes."""

    start_s: float = 15.0  # a process starts and loads its model
    measure_s: float = 46.0  # it measures
    spread: float = 0.3  # of the time to measure, from one cell to another (standard deviation, a share)
    engine_s: float = 0.6  # of an engine for each cell: a new Ray worker
    lost: float = 0.01  # the share of cells whose worker is lost half-way
    idle_w: float = 77.0  # of a GPU without work
    busy_w: float = 245.0  # of a GPU that measures, pauses included
    head_w: float = 150.0  # of the node that gives out cells
    read_s: float = 0.08  # of the head, for each run, at the end: table, laws and page
    start_files: float = 1700.0  # that a starting process opens
    start_bytes: float = 0.6e9  # of libraries that it maps
    cell_bytes: float = 130e3  # that a cell writes


@dataclass(frozen=True)
class Outcome:
    """What a sweep took: seconds, shares, joules."""

    hours: float
    ideal_hours: float
    measuring_share: float
    measured_again: int
    head_share: float
    head_limit_gpus: float
    end_s: float
    files_per_s: float
    first_read_gb: float
    gpu_kwh: float
    measuring_kwh: float
    head_kwh: float


def simulate(cells: int, gpus: int, costs: Costs, record_s: float, seed: int = 0) -> Outcome:
    """Return what a sweep takes; ``record_s`` is what the head needs to record one result."""
    draw = random.Random(seed)
    free = [0.0] * min(gpus, cells)  # when each worker is free
    waiting, again, measuring_s, results = cells, 0, 0.0, []
    heapq.heapify(free)
    while waiting:
        waiting -= 1
        began = heapq.heappop(free) + costs.engine_s + costs.start_s
        takes = max(1.0, draw.gauss(costs.measure_s, costs.spread * costs.measure_s))
        if draw.random() < costs.lost:
            ended, waiting, again = began + takes * draw.random(), waiting + 1, again + 1
        else:
            ended, measuring_s = began + takes, measuring_s + takes
            results.append(ended)
        heapq.heappush(free, ended)
    recorded = 0.0
    for ended in sorted(results):
        recorded = max(recorded, ended) + record_s
    end_s, last = cells * costs.read_s, max(free)
    total_s = max(last, recorded) + end_s
    each_s = costs.engine_s + costs.start_s + costs.measure_s
    idle_s = gpus * last - measuring_s
    return Outcome(
        hours=total_s / HOUR_S,
        ideal_hours=cells * costs.measure_s / gpus / HOUR_S,
        measuring_share=measuring_s / (gpus * last),
        measured_again=again,
        head_share=cells * record_s / last,
        head_limit_gpus=each_s / record_s,
        end_s=end_s,
        files_per_s=costs.start_files * gpus / each_s,
        first_read_gb=min(gpus, cells) * costs.start_bytes / 1e9,
        gpu_kwh=(measuring_s * costs.busy_w + idle_s * costs.idle_w) / KWH_J,
        measuring_kwh=measuring_s * costs.busy_w / KWH_J,
        head_kwh=total_s * costs.head_w / KWH_J,
    )


def time_to_record(cells: int) -> float:
    """Measure what writing sweep.json takes here, in seconds: the head does it for each result."""
    with tempfile.TemporaryDirectory() as folder:
        cell = SweepCell(
            "bf16", 8, 1024, "prefill", "done", None, 60.0, "llama-3.2-1b", "cuda-graph", label="llama"
        )
        sweep = Sweep(Path(folder), "sweep", "models", "", None, {}, [cell] * cells)
        times = []
        for _ in range(5):
            began = time.perf_counter()
            write_sweep(sweep)
            times.append(time.perf_counter() - began)
    return sorted(times)[2]


def main() -> None:
    """Print what the sweep takes, in lines or as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=int, default=1000)
    parser.add_argument("--gpus", type=int, default=64)
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    for cost in fields(Costs):
        parser.add_argument(f"--{cost.name.replace('_', '-')}", type=float, default=cost.default)
    given = vars(parser.parse_args())
    cells, gpus = given.pop("cells"), given.pop("gpus")
    as_json = given.pop("json")
    if min(cells, gpus) < 1 or not 0 <= given["lost"] < 1:
        parser.error("--cells and --gpus are 1 or more, and --lost is a share below 1")
    costs, record_s = Costs(**given), time_to_record(cells)
    outcome = simulate(cells, gpus, costs, record_s)
    if as_json:
        print(json.dumps({"cells": cells, "gpus": gpus, "record_s": record_s, **asdict(outcome)}, indent=1))
        return
    print("\n".join(in_words(cells, gpus, record_s, outcome)))


def in_words(cells: int, gpus: int, record_s: float, outcome: Outcome) -> list[str]:
    """Return what a sweep takes, in lines."""
    again, limit, hours = outcome.measured_again, outcome.head_limit_gpus, f"{outcome.hours:.2f} h"
    head = f"head: {record_s * 1e3:.0f} ms a result, busy {outcome.head_share:.1%}"
    reads = f"{outcome.first_read_gb:.0f} GB at the start, then {outcome.files_per_s:,.0f} files opened a second"
    gpus_kwh = f"GPUs {outcome.gpu_kwh:.2f} kWh, of which {outcome.measuring_kwh:.2f} while measuring"
    return [
        f"{cells} cells on {gpus} GPUs: {hours}, with nothing but measuring {outcome.ideal_hours:.2f} h",
        f"GPUs measure {outcome.measuring_share:.0%} of the time; {again} cells measured again",
        f"{head}, and {outcome.end_s:.0f} s at the end; it is the limit beyond {limit:,.0f} GPUs",
        f"shared file system, if it holds the libraries: {reads}",
        f"energy: {gpus_kwh}; head {outcome.head_kwh:.2f} kWh",
    ]


if __name__ == "__main__":
    main()
