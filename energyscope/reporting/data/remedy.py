"""Why most rows of a run are below grade C, and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

from energyscope.reporting import text
from energyscope.reporting.data.execution import TRIGGERED, execution_of
from energyscope.runs.intervals import Interval, finite, interval

if TYPE_CHECKING:
    from energyscope.runs.store import Run

WIDEST = 0.10  # relative 95 % half-width that grade C bears
FEWEST_WINDOWS = 3  # that any grade takes
_Row = Mapping[str, Any]


def remedy(run: Run) -> str:
    """Say why most of a run's rows are invalid and what to do; empty where most are not, or none were replayed."""
    records = [] if run.energy is None else run.energy.to_dict("records")
    rows = [{str(name): value for name, value in row.items()} for row in records]
    weak = [row for row in rows if row.get("quality") == "invalid"]
    if 2 * len(weak) <= len(rows) or execution_of(run).sampling == TRIGGERED:
        return ""
    wide = [half for row in weak if (half := _half_width(row)) is not None and half > WIDEST]
    few = sum(_of_few_windows(row) for row in weak)
    drift = _drift(run.document)
    causes = [*_wide(wide), *([f"{few} of fewer than {FEWEST_WINDOWS} windows"] if few else []), *drift]
    why = f" ({'; '.join(causes)})" if causes else ""
    said = f"{len(weak)} of {text.count(len(rows), 'row')} are below grade C{why}."
    return f"{said} {_what_to_do(run.document, busy=bool(wide or drift))}"


def _half_width(row: _Row) -> float | None:
    """Return the relative half-width of a row's interval; None where there is none."""
    names = ("energy_mj", "energy_ci_low_mj", "energy_ci_high_mj")
    found = interval(*(row.get(name) for name in names))
    if found is None or found.low is None or found.high is None or not found.value:
        return None
    return (found.high - found.low) / 2 / abs(found.value)


def _of_few_windows(row: _Row) -> bool:
    windows = finite(row.get("windows"))
    return windows is not None and windows < FEWEST_WINDOWS


def _wide(halves: Sequence[float]) -> list[str]:
    if not halves:
        return []
    limit, middle = text.percent(WIDEST), text.percent(median(halves))
    return [f"{len(halves)} known to no better than {limit} either way, half of them to {middle} or worse"]


def _drift(document: Mapping[str, Any]) -> list[str]:
    entry = document.get("drift") or {}
    change: Interval | None = interval(entry.get("change"))
    if change is None or not entry.get("significant"):
        return []
    return [f"the model's energy drifted by {text.signed_percent(change.value)} meanwhile"]


def _what_to_do(document: Mapping[str, Any], *, busy: bool) -> str:
    """Name the options that take more windows, with what the run had; where it shows, that the machine is busy."""
    settings = document.get("settings") or {}
    passes, budget = finite(settings.get("passes")), finite(settings.get("component_budget_s"))
    more = "--component-budget (seconds of windows of one component"
    more += f", here {budget:g})" if budget is not None else ")"
    more += " and --passes (windows of it at the least"
    more += f", here {passes:g})" if passes is not None else ")"
    if busy:
        return f"A busy machine makes values scatter so: close other programs, and measure longer with {more}."
    return f"Measure longer with {more}."
