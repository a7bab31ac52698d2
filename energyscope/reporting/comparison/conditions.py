"""Under what the runs were made, beside each other: what differs is marked."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from energyscope.reporting import text
from energyscope.reporting.comparison.source import Source
from energyscope.reporting.figure import Table
from energyscope.runs.compare_surroundings import clock_of, driver_of
from energyscope.runs.method import method_of, passes_of
from energyscope.runs.moments import Moment
from energyscope.runs.schema import REPORT_FILE
from energyscope.runs.store import Run

Document = Mapping[str, Any]

_METHOD, _DATE = "Method", "Date"  # a date always differs


@dataclass(frozen=True)
class Condition:
    """One line of the table of conditions: what it is, each run's value, and whether they differ."""

    name: str
    values: list[str]
    differs: bool


@dataclass(frozen=True)
class RunLink:
    """A run with the place of its report beside the page, None where it has none."""

    name: str
    link: str | None


def links(source: Source, folder: Path) -> list[RunLink]:
    """Return the runs with links to their reports, relative to where the page stands."""
    return [RunLink(run.name, _link(run, folder)) for run in source.runs]


def _link(run: Run, folder: Path) -> str | None:
    report = run.path / REPORT_FILE
    if not report.is_file():
        return None
    from urllib.parse import quote

    return quote(os.path.relpath(report.resolve(), folder.resolve()))


def conditions_table(source: Source) -> list[Condition]:
    """Return the conditions that some run states."""
    found = []
    readers: list[tuple[str, Callable[[Document], str]]]
    readers = [*_READ, (_METHOD, partial(_method, _compared(source))), (_DATE, _created)]
    for name, read in readers:
        values = [read(run.document) for run in source.runs]
        if any(values):
            found.append(
                Condition(
                    name, [value or "not stated" for value in values], name != _DATE and len(set(values)) > 1
                )
            )
    return found


def _of(section: str, key: str) -> Callable[[Document], str]:
    def read(document: Document) -> str:
        value = (document.get(section) or {}).get(key)
        return "" if value is None else str(value)

    return read


def _parameters(document: Document) -> str:
    amount = (document.get("model") or {}).get("parameters")
    return f"{amount:,}" if isinstance(amount, int) else ""


def _clock(document: Document) -> str:
    clock = clock_of(document)
    return f"{clock:.0f} MHz" if clock else ""


def _limit(document: Document) -> str:
    limit = (document.get("device") or {}).get("power_limit_w")
    return f"{text.number(float(limit))} W" if isinstance(limit, int | float) else ""


def _work(document: Document) -> str:
    workload = document.get("workload") or {}
    if not workload.get("batch_size") or not workload.get("sequence_length"):
        return ""
    return f"{workload['batch_size']} x {workload['sequence_length']} tokens"


def _benchmarked(document: Document) -> str:
    found = (document.get("settings") or {}).get("benchmark") or {}
    return ", ".join(str(one) for one in found.get("precisions") or ())


def _moments(document: Document) -> str:
    return ", ".join(str(scene.get("name")) for scene in document.get("scenes") or ())


def _watts(document: Document) -> str:
    sensor = document.get("sensor") or {}
    meter, watts = sensor.get("meter"), sensor.get("watts")
    return "" if meter is None else f"{meter}, {watts} W stated" if sensor.get("modelled") else str(meter)


def _compared(source: Source) -> list[str | None]:
    """Return the phases of the passes that are compared, None for that which a run's settings name."""
    phases = [scene and Moment.of(scene).phase for scene in source.scenes]
    return list(dict.fromkeys([*phases, *(["prefill"] if source.comparison.benchmarks else [])]))


def _method(phases: Sequence[str | None], document: Document) -> str:
    """Return the revision that measures what the run's passes do: an older one where nothing concerned them.

    Of a generation alone, which is always launched eagerly, it is that of its steps.
    """
    passes = [passes_of(document, phase) for phase in phases] or [passes_of(document, "decode", eager=True)]
    found = {phase: method_of(document, phase, execution) for phase, execution in passes}
    if len(set(found.values())) == 1:
        return f"revision {next(iter(found.values()))}"
    return ", ".join(f"{phase}: revision {revision}" for phase, revision in found.items())


def _created(document: Document) -> str:
    return str(document.get("created") or "").replace("T", " ").removesuffix("Z")


_READ: Sequence[tuple[str, Callable[[Document], str]]] = (
    ("Model", _of("model", "name")),
    ("Parameters", _parameters),
    ("Weights", _of("model", "weights")),
    ("Precision", _of("settings", "precision")),
    ("Execution", _of("settings", "execution")),
    ("Batch x length", _work),
    ("Moments", _moments),
    ("Granularity", _of("settings", "granularity")),
    ("Device", _of("device", "name")),
    ("Board", _of("device", "uuid")),
    ("Driver", lambda document: driver_of(document) or ""),
    ("Power limit", _limit),
    ("Clock of the passes", _clock),
    ("Meter", _watts),
    ("PyTorch", _of("environment", "torch")),
    ("Transformers", _of("environment", "transformers")),
)


def rules() -> Table:
    """Return the verdicts and what each says."""
    return Table(
        ["verdict", "what it says"],
        [
            ["less, more", "the 95 % interval of the difference excludes zero"],
            ["no difference shown", "it includes zero: they may differ by as much as the limits say"],
            [
                "not comparable",
                "something other than the question differs, or only one run has the number",
            ],
            ["cannot be told", "a number did not reach grade C, or has no interval"],
        ],
    )
