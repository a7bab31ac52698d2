"""Profile a configuration again and again on one board: by how much do equal runs differ (A/A)?

    python tools/repeatability.py OUT [NAME ...] [--profiles N]    # ten of one take about 15 minutes on an H200
    python tools/repeatability.py OUT [NAME ...] --again           # measures nothing: tables from the journals

Each profile is a process of its own, with weights, tokens and order of its own seed. Finished profiles are kept,
so that ten of them may be taken in several calls, on the same board. OUT/NAME.csv has a row for every measurement
of every run, and OUT/NAME each run.json and journal. `tools/study.py` judges those in
`reports/repeatability-h100` and `-h200`.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import shutil
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd

import energyscope
from energyscope.runs.schema import FINISHED_JOURNAL_FILE, RUN_FILE
from energyscope.runs.store import Run, RunStore, read_journal
from energyscope.runs.tree import energy_tree
from energyscope.stages import phases

GPT2: dict[str, Any] = {"model": "gpt2", "phase": "prefill"}
LLAMA: dict[str, Any] = {"model": "llama-3.2-1b", "phase": "decode", "context_lengths": (1024,)}
# Five windows of each: where the host sets the pace, more do not narrow the interval of all energy.
EAGER: dict[str, Any] = {"execution": "eager", "component_budget_s": 2.6}
CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "gpt2-graph": {**GPT2, "execution": "cuda-graph"},
    "gpt2-eager": {**GPT2, **EAGER},
    "llama-3.2-1b-decode-graph": {**LLAMA, "execution": "cuda-graph"},
    "llama-3.2-1b-decode-eager": {**LLAMA, **EAGER},
}
COMMON: dict[str, Any] = {"weights": "random", "precision": "bf16", "layers": "kinds", "stages": ("profile",)}
RUNS = "runs"  # in OUT/NAME, until their rows and journals are collected


def main() -> None:
    """Take what is missing of each named configuration."""
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("out", type=Path)
    words.add_argument("names", nargs="*", default=list(CONFIGURATIONS), metavar="NAME")
    words.add_argument("--profiles", type=int, default=10)
    words.add_argument("--again", action="store_true")
    chosen = words.parse_args()
    if unknown := set(chosen.names) - set(CONFIGURATIONS):
        sys.exit(f"no configuration {', '.join(sorted(unknown))}: there are {', '.join(CONFIGURATIONS)}")
    for name in chosen.names:
        if chosen.again:
            tabulate(chosen.out / name)
            continue
        for number in range(1, chosen.profiles + 1):
            take(chosen.out / name, number, CONFIGURATIONS[name] | COMMON)


def take(folder: Path, number: int, options: dict[str, Any]) -> None:
    """Profile once, in a process of its own, and collect its rows; nothing if it was done before."""
    journal = folder / f"{number:02d}.jsonl.gz"
    if journal.exists():
        return
    begin = time.monotonic()
    run = folder / RUNS / f"{number:02d}"
    shutil.rmtree(run, ignore_errors=True)  # one that was cut off
    # The child shares what this process has imported, and nothing of CUDA, which is not used here.
    child = multiprocessing.get_context("fork").Process(target=_profile, args=(folder, number, options))
    child.start()
    child.join()
    if child.exitcode or not (run / FINISHED_JOURNAL_FILE).exists():
        sys.exit(f"profile {number} of {folder.name} failed: see {run}")
    if (first := folder / "01.json").exists() and board_of(run / RUN_FILE) != board_of(first):
        sys.exit(f"{folder} holds profiles of another board: boards differ by several percent, choose another OUT")
    shutil.copy(run / RUN_FILE, folder / f"{number:02d}.json")
    shutil.copy(run / FINISHED_JOURNAL_FILE, journal)
    shutil.rmtree(run)
    tabulate(folder)
    print(f"{folder.name} {number}: {time.monotonic() - begin:.0f} s", flush=True)


def _profile(folder: Path, number: int, options: dict[str, Any]) -> None:
    energyscope.run(**options, seed=number, root=folder / RUNS, name=f"{number:02d}")


def board_of(document: Path) -> str:
    """Return the UUID of the board that a run.json names."""
    return str((json.loads(document.read_text(encoding="utf-8")).get("device") or {}).get("uuid"))


def tabulate(folder: Path) -> None:
    """Write the table of a configuration from its documents and journals."""
    tables = []
    for journal in sorted(folder.glob("*.jsonl.gz")):
        number = journal.name.partition(".")[0]
        with TemporaryDirectory() as place:
            run = Path(place)
            shutil.copy(folder / f"{number}.json", run / RUN_FILE)
            shutil.copy(journal, run / FINISHED_JOURNAL_FILE)
            phases.write(RunStore.open(run), read_journal(run))
            rows = measurements(energyscope.load_run(run))
            rows.insert(0, "board", board_of(run / RUN_FILE))
            rows.insert(0, "run", int(number))
            tables.append(rows)
    if tables:
        pd.concat(tables).to_csv(folder.parent / f"{folder.name}.csv", index=False)


def measurements(run: Run) -> pd.DataFrame:
    """Return a run's energy table with one row for each measurement: layers that share one have it once."""
    assert run.energy is not None
    first: dict[str, str] = {}
    for node in energy_tree(run.energy).nodes:
        first.setdefault(node.source, node.name)
    return run.energy[run.energy["component"].isin(first.values())].copy()


if __name__ == "__main__":
    main()
