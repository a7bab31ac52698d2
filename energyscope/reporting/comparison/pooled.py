"""Pooled runs in the terminal, a pipe and JSON: a line on the whole, what differs, a table of components."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from typing import Any

from energyscope import format as fmt
from energyscope.comparison.basis import DYNAMIC, TOTAL, Basis
from energyscope.comparison.difference import PER_TOKEN
from energyscope.comparison.pooling import Pooled, PooledPart
from energyscope.reasons import reason
from energyscope.reporting.table import Column, Table

_GENERATION = "generation"
_FEW = 3  # runs: of two, the interval is 12.7 standard errors wide to either side


def pooled_table(pooled: Pooled) -> Table:
    """Return the whole pass and the components of every phase, the largest first; then tokens of a generation."""
    bases = {of.basis for of in pooled.passes} | ({TOTAL} if pooled.generation else set())
    energy = "Energy (MODELLED)" if pooled.modelled else "Work" if bases == {DYNAMIC} else "Energy"
    columns = (
        Column("phase", "Phase"),
        Column("component", "Component"),
        Column("components", "Components", "count", rank=4),
        Column("basis", "Basis", rank=5 if len(bases) == 1 else 1),
        Column("energy", energy, "mJ"),
        Column("between", "Between runs (SD)", "share"),
        Column("lowest", "Lowest", "mJ", rank=2),
        Column("lowest_run", "in run", rank=6),
        Column("highest", "Highest", "mJ", rank=2),
        Column("highest_run", "in run", rank=6),
        Column("runs", "Runs", "count"),
        Column("grade", "Grade", "grade", rank=1),
        Column("note", "Note", "reasons", rank=3),
    )
    rows = [_row(of.scene, of.basis, part) for of in pooled.passes for part in (of.whole, *of.parts)]
    rows += [_row(_GENERATION, TOTAL, part) for part in pooled.generation]
    table = Table(columns, rows)
    several = len(pooled.passes) > 1 or bool(pooled.generation)
    return table if several else replace(table, columns=columns[1:])


def sentences(pooled: Pooled) -> Iterator[str]:
    """Yield what the whole pass takes in every phase, and a generated token; then what differs."""
    for of in pooled.passes:
        where = f"{of.scene}: " if len(pooled.passes) > 1 else ""
        yield where + _sentence(pooled, "The whole pass", of.whole, work=of.basis == DYNAMIC)
    for part in pooled.generation:
        if part.name == PER_TOKEN:
            yield _sentence(pooled, "A generated token", part, work=False)
    if len(pooled.runs) < _FEW:
        yield "Two runs say little about how runs differ: the interval has one degree of freedom. Measure a third."
    yield from _differing(pooled)


def _sentence(pooled: Pooled, what: str, part: PooledPart, *, work: bool) -> str:
    runs = fmt.count(len(pooled.runs), "run")
    if part.value is None:
        return f"{what} cannot be pooled: fewer than two of {runs} have a valid value of it."
    takes = fmt.measured(part.value, "mJ")
    kind = " of work" if work else " (MODELLED)" if pooled.modelled else ""
    used = runs if len(part.measured) == len(pooled.runs) else f"{len(part.measured)} of {runs}"
    on = _boards(pooled, part.measured)
    boards = f" on {fmt.count(len(on), 'board')}" if on else ""
    return f"{what} takes {takes}{kind} over {used}{boards}{_spread(part)}."


def record(pooled: Pooled) -> dict[str, Any]:
    """Return what JSON holds: all of it, with each part's share between runs and grade."""
    document = asdict(pooled)
    parts = [*(part for of in pooled.passes for part in (of.whole, *of.parts)), *pooled.generation]
    entries = [*(its for of in document["passes"] for its in (of["whole"], *of["parts"])), *document["generation"]]
    for part, its in zip(parts, entries, strict=True):
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


def _row(phase: str | None, basis: Basis, part: PooledPart) -> dict[str, Any]:
    low, high = (
        choose(part.measured.items(), key=lambda entry: entry[1].value, default=(None, None))
        for choose in (min, max)
    )
    notes = part.reasons if part.value is not None else (*part.reasons, reason("too-few-to-pool"))
    return {
        "phase": phase,
        "component": part.name,
        "components": part.count,
        "basis": basis,
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
