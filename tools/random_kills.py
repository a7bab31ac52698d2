"""Kill a run at a random moment, resume it, and compare it with one that nobody killed; many times.

    python tools/random_kills.py OUT [--kills 200] [--workers 2] [--seed 0]    # 200 take about half an hour

Each run of the bundled tiny-gpt2 is a process of its own, killed (SIGKILL) at a moment drawn evenly from the time
that a whole run takes. A resumed run must have the rows of the whole one, and a value where that has; what it had
finished (stages, trials, phases, whole passes, generations, ablations) must be there, and not measured again;
of the killed process nothing may be left. OUT/kills.csv has a row for each.
"""

from __future__ import annotations

import argparse
import importlib
import math
import multiprocessing
import os
import random
import signal
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import count, takewhile
from pathlib import Path
from typing import Any

import pandas as pd

import energyscope
from energyscope.errors import RunError
from energyscope.grouping import group_by
from energyscope.runs import schema
from energyscope.runs.store import lacking_stages, read_document, read_journal
from energyscope.settings.benchmark import BenchmarkSettings
from energyscope.stages.phases import finished_phases
from energyscope.stages.session import whole_passes

PRECISIONS = ("fp32", "bf16")
OPTIONS: dict[str, Any] = {
    "model": "tiny-gpt2", "granularity": "coarse", "layers": "kinds", "phase": "both", "passes": 2,
    "window_s": 0.06, "component_budget_s": 0.15, "max_examples": 4, "methods": ("zero", "mean"),
    "stages": ("benchmark", "generate", "profile", "ablate", "correlate", "report"),
    "benchmark": BenchmarkSettings(precisions=PRECISIONS, trials=3, num_iters=5, warmup_steps=1),
}  # fmt: skip
KEYS = {
    schema.ENERGY_FILE: ["phase", "component"],
    schema.IMPACT_FILE: ["component", "method", "metric"],
    schema.BENCHMARK_FILE: ["precision", "batch_size", "sequence_length", "trial"],
}
VALUES = {schema.ENERGY_FILE: "energy_mj", schema.IMPACT_FILE: "value", schema.BENCHMARK_FILE: "mean_latency"}
SHARED = ("altair", "energyscope.stages.run", "transformers.models.gpt2.modeling_gpt2")  # imported before forks
FORK = multiprocessing.get_context("fork")
GONE_WITHIN_S = 2.0  # after a kill


def main() -> None:
    """Kill as often as asked for; exit with 1 if a run was not recovered."""
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("out", type=Path)
    words.add_argument("--kills", type=int, default=200)
    words.add_argument("--workers", type=int, default=2)
    words.add_argument("--seed", type=int, default=0)
    chosen = words.parse_args()
    for module in SHARED:
        importlib.import_module(module)
    begin = time.monotonic()
    whole = _started(chosen.out, "whole")
    whole.join()
    if whole.exitcode:
        sys.exit("the run that nobody kills failed")
    took_s = time.monotonic() - begin
    drawn = random.Random(chosen.seed)
    moments_s = [drawn.uniform(0.0, took_s) for _ in range(chosen.kills)]
    with ProcessPoolExecutor(chosen.workers, mp_context=FORK) as pool:  # a fork of a thread cannot run a model
        tried = partial(kill_and_resume, chosen.out, rows_of(chosen.out / "whole"))
        rows = list(pool.map(tried, range(1, chosen.kills + 1), moments_s))
    pd.DataFrame(rows).to_csv(chosen.out / "kills.csv", index=False)
    for stage, number in Counter(row["killed_in"] for row in rows).most_common():
        print(f"killed in {stage}: {number}")
    wrong = [row for row in rows if row["wrong"]]
    for row in wrong:
        print(f"{row['name']}, killed in {row['killed_in']} after {row['after_s']:.2f} s: {row['wrong']}")
    print(f"{len(rows) - len(wrong)} of {len(rows)} runs were recovered")
    sys.exit(bool(wrong))


def kill_and_resume(out: Path, whole: dict[str, list[Any]], number: int, after_s: float) -> dict[str, Any]:
    """Return a row: where a run was killed, and what is wrong with what came of it (empty: nothing)."""
    path = out / f"{number:03d}"
    process = _started(out, path.name)
    process.join(after_s)
    killed_in = "nothing: it was done" if process.exitcode is not None else _stage(path)
    if process.exitcode is None:
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        process.join()
    row = {"name": path.name, "after_s": after_s, "killed_in": killed_in}
    if left := _left_of(process.pid):
        return {**row, "wrong": f"left behind: {left}"}
    before = finished_entries(path)
    again = _started(out, path.name, resumed=before is not None)
    again.join()
    return {**row, "wrong": f"rc {again.exitcode}" if again.exitcode else wrong_with(path, before or [], whole)}


def wrong_with(path: Path, before: list[Any], whole: dict[str, list[Any]]) -> str:
    """Return what a resumed run lacks, or measured twice; nothing where it is as if nobody had killed it."""
    if lacking := lacking_stages(path):
        return f"lacks {', '.join(lacking)}"
    after = read_journal(path)
    for place, finished in group_by(before, _place).items():
        if [entry for entry in after if _place(entry) == place][: len(finished)] != finished:
            return f"of {place} {len(finished)} entries were finished, and now there are other ones"
    for file, rows in rows_of(path).items():
        found, expected = Counter(rows), Counter(whole[file])
        if others := sorted(((found - expected) + (expected - found)).elements()):
            return f"rows of {file} are not those of the whole run, or not the same have values: {others}"
    return ""


def _place(entry: Any) -> tuple[Any, ...]:
    """Name the sequence of an entry: rows of a benchmark are one of their own, since models are tried again."""
    return entry.get("stage"), entry.get("scene"), "row" in entry


def finished_entries(path: Path) -> list[Any] | None:
    """Return the entries of what a run has finished; None where there is no run yet."""
    try:
        stages = read_document(path)["stages"]
        entries = read_journal(path)
    except (RunError, KeyError):
        return None
    done = {name for name, state in stages.items() if state["state"] == "done"}
    phases = finished_phases(entries)
    passes = {
        scene: whole_passes(own)
        for scene, own in group_by(entries, lambda entry: entry.get("scene")).items()
        if scene not in phases
    }
    blocks = whole_blocks(entries)
    return [
        entry
        for entry in entries
        if entry.get("stage") in {*done, "generate", "ablate"}
        or (entry.get("stage") == "benchmark" and "row" in entry and entry["pass"] <= blocks)
        or (entry.get("stage") == "profile" and entry.get("pass", -1) < passes.get(entry["scene"], math.inf))
    ]


def whole_blocks(entries: list[Any]) -> int:
    """Return how many blocks of the benchmark, from the first on, have a trial of each precision."""
    passes = Counter(entry["pass"] for entry in entries if entry.get("stage") == "benchmark" and "row" in entry)
    return sum(1 for _ in takewhile(lambda number: passes[number] == len(PRECISIONS), count(1)))


def rows_of(path: Path) -> dict[str, list[Any]]:
    """Return what names the rows of each table of a run, in order, and whether each has a value."""
    found = {}
    for file, keys in KEYS.items():
        table = pd.read_csv(path / file)
        known = table[VALUES[file]].notna()
        found[file] = sorted(map(str, zip(table[keys].to_numpy().tolist(), known, strict=True)))
    return found


def _stage(path: Path) -> str:
    """Return in which stage a run is, by its document."""
    try:
        stages = read_document(path)["stages"]
    except (RunError, KeyError):
        return "before it began"
    return next((name for name, state in stages.items() if state["state"] == "running"), "between stages")


def _left_of(session: int | None) -> list[int]:
    """Return the processes of a killed run that are still there after a while."""
    deadline = time.monotonic() + GONE_WITHIN_S
    while (left := _processes_of(session)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


def _processes_of(session: int | None) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and os.getsid(int(entry.name)) == session:
                found.append(int(entry.name))
        except (ProcessLookupError, PermissionError):
            continue
    return found


def _started(out: Path, name: str, *, resumed: bool = False) -> multiprocessing.process.BaseProcess:
    """Start a run in a process of its own, which shares what this one has imported."""
    process = FORK.Process(target=_run, args=(out, name, resumed))
    process.start()
    return process


def _run(out: Path, name: str, resumed: bool) -> None:
    os.setsid()
    if resumed:
        energyscope.resume(out / name)
    else:
        energyscope.run(**OPTIONS, root=out, name=name)


if __name__ == "__main__":
    main()
