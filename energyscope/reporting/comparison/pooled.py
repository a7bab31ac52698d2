"""Pooled runs in the terminal, a pipe and JSON: a line on the whole pass, what differs, a table of components."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from typing import Any

from energyscope import format as fmt
from energyscope.comparison.basis import DYNAMIC
from energyscope.comparison.pooling import Pooled, PooledPart, PooledPass
from energyscope.reasons import reason
from energyscope.reporting.table import Column, Table

_FEW = 3  # runs: of two, the interval is 12.7 standard errors wide to either side


def pooled_table(pooled: Pooled) -> Table:
    """Return the whole pass and the components of every phase, the largest first."""
    bases = {of.basis for of in pooled.passes}
    columns = (
        Column("phase", "Phase"),
        Column("component", "Component"),
        Column("components", "Components", "count", rank=4),
        Column("basis", "Basis", rank=5 if len(bases) == 1 else 1),
        Column("energy", "Work" if bases == {DYNAMIC} else "Energy", "mJ"),
        Column("between", "Between runs (SD)", "share"),
        Column("lowest", "Lowest", "mJ", rank=2),
        Column("lowest_run", "in run", rank=6),
        Column("highest", "Highest", "mJ", rank=2),
        Column("highest_run", "in run", rank=6),
        Column("runs", "Runs", "count"),
        Column("grade", "Grade", "grade", rank=1),
        Column("note", "Note", "reasons", rank=3),
    )
    rows = [_row(of, part) for of in pooled.passes for part in (of.whole, *of.parts)]
    table = Table(columns, rows)
    several = len(pooled.passes) > 1
    return table if several else replace(table, columns=columns[1:])


def sentences(pooled: Pooled) -> Iterator[str]:
    """Yield what the whole pass takes in every phase, then what differs between the runs."""
    runs = fmt.count(len(pooled.runs), "run")
    for of in pooled.passes:
        where = f"{of.scene}: " if len(pooled.passes) > 1 else ""
        whole = of.whole
        if whole.value is None:
            yield f"{where}The whole pass cannot be pooled: fewer than two of {runs} have a valid value of it."
            continue
        takes = fmt.measured(whole.value, "mJ")
        kind = " of work" if of.basis == DYNAMIC else " (MODELLED)" if pooled.modelled else ""
        differ = _spread(whole)
        used = runs if len(whole.measured) == len(pooled.runs) else f"{len(whole.measured)} of {runs}"
        on = _boards(pooled, whole.measured)
        boards = f" on {fmt.count(len(on), 'board')}" if on else ""
        yield f"{where}The whole pass takes {takes}{kind} over {used}{boards}{differ}."
    if len(pooled.runs) < _FEW:
        yield "Two runs say little about how runs differ: the interval has one degree of freedom. Measure a third."
    yield from _differing(pooled)


def record(pooled: Pooled) -> dict[str, Any]:
    """Return what JSON holds: all of it, with each part's share between runs and grade."""
    document = asdict(pooled)
    for of, entry in zip(pooled.passes, document["passes"], strict=True):
        for part, its in zip((of.whole, *of.parts), (entry["whole"], *entry["parts"]), strict=True):
            its.update(between_share=part.between_share, quality=part.quality, runs=len(part.measured))
    return {**document, "summary": list(sentences(pooled))}


def _boards(pooled: Pooled, runs: Iterable[str]) -> set[str]:
    """Return the ids of the boards that runs were measured on."""
    return {board for run in runs if (ids := pooled.boards[run]) for board in ids.split(", ")}


def _spread(whole: PooledPart) -> str:
    """Return how runs differ beyond what their own errors explain; no words where there is no share."""
    if whole.between == 0:
        return "; runs differ no more than their own errors explain"
    share = whole.between_share
    return "" if share is None else f"; runs differ by {fmt.quantity(share, 'share')} (SD)"


def _differing(pooled: Pooled) -> Iterator[str]:
    used = dict.fromkeys(run for of in pooled.passes for run in (of.whole.measured or pooled.runs))
    of_runs = {pooled.boards[run] for run in used} - {None}
    boards = _boards(pooled, used)
    if len(of_runs) == 1:
        on = "one board" if len(boards) == 1 else "the same boards"
        yield f"All on {on}: how far a sensor's calibration is off is not in the interval."
    elif of_runs and sum(len(_boards(pooled, [run])) for run in used) > len(boards):
        yield "Runs of one board share its calibration, but count as independent: for other boards, less is known."
    if any(of.old_eager for of in pooled.passes):
        yield "Eager runs without graded work: this is all energy, idle power x the host's time with it."
    names = [name for name in pooled.differing if name != "made"]
    dates = sorted(str(made)[:10] for made in pooled.differing.get("made", ()) if made)
    if names:
        yield f"Differing between the runs: {', '.join(names)}."
    if dates and dates[0] != dates[-1]:
        yield f"Made from {dates[0]} to {dates[-1]}."


def _row(of: PooledPass, part: PooledPart) -> dict[str, Any]:
    low, high = (
        choose(part.measured.items(), key=lambda entry: entry[1].value, default=(None, None))
        for choose in (min, max)
    )
    notes = part.reasons if part.value is not None else (*part.reasons, reason("too-few-to-pool"))
    return {
        "phase": of.scene,
        "component": part.name,
        "components": part.count,
        "basis": of.basis,
        "energy": part.value,
        "between": part.between_share,
        "lowest": low[1].value if low[1] else None,
        "lowest_run": low[0],
        "highest": high[1].value if high[1] else None,
        "highest_run": high[0],
        "runs": len(part.measured),
        "grade": part.quality,
        "note": "; ".join(map(str, notes)) or None,
    }
