"""What runs predict of a shape that was not measured, for the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from energyscope import format as fmt
from energyscope import reasons
from energyscope.grouping import group_by
from energyscope.intervals import from_entry
from energyscope.reporting.run.report import execution_name, precision_name
from energyscope.reporting.scaling.laws import LAW_NAMES, SUM, WAYS, law_name, shape_name, subject_name
from energyscope.reporting.table import Column, Table
from energyscope.reporting.terminal_text import printable

if TYPE_CHECKING:
    from rich.console import RenderableType

Prediction = Mapping[str, Any]
_BEYOND = {
    "outside": "beyond",
    "inside": "within",
    "all": "within and beyond",
}  # where held-out cells lie, if not within
_MOST = 6  # sources that are named


def prediction_text(prediction: Prediction, width: int) -> RenderableType:
    """Return a prediction, as `energyscope predict --json` has it: heading, table, and what to know of it."""
    from rich.console import Group
    from rich.text import Text

    shape = shape_name(prediction, prediction["phase"])
    setting = f"{precision_name(prediction['precision'])}, {execution_name(prediction['execution'])}"
    what = f"{prediction['model']}, {prediction['phase']}, {shape}, {setting}: {_whole(prediction)}predicted"
    parts: list[RenderableType] = [Text(printable(what), style="bold")]
    if prediction["modelled"]:
        parts.append(Text("MODELLED: every joule is time x stated watts", style="bold yellow"))
    parts.append(Text(printable(f"from {_sources(prediction['from'])}"), style="dim"))
    table = prediction_table(prediction)
    remarked = [column for column in table.columns if column.key != "note"]  # below the table, each thing once
    parts.append(replace(table, columns=remarked).filled().rich(width))
    return Group(*parts, *(Text(printable(line), style="dim") for line in _remarks(prediction)))


def _whole(prediction: Prediction) -> str:
    energy = from_entry((prediction["whole"] or {}).get("energy_mj"))
    modelled = " (MODELLED)" if prediction["modelled"] else ""
    return "" if energy is None else f"{fmt.measured(energy, 'mJ')}{modelled} "


def prediction_table(prediction: Prediction) -> Table:
    """Return the whole model, the sum of its parts, and the parts, each with its held-out error."""
    columns = [
        Column("part", "Part"),
        Column(
            "energy", "Energy (MODELLED)" if prediction["modelled"] else "Energy", "mJ", "with its 95 % interval"
        ),
        Column("most", "At most", "mJ", "where no lower limit is known"),
        Column("time", "Time", "us", rank=1),
        Column("error", "Held-out error", "share", "median of cells left out"),
        Column("n", "Cells", "count", "left out", rank=4),
        Column("where", "Checked", hint="where the cells that were left out lie", rank=5),
        Column("data", "Data", hint="whether this shape lies within the cells that the law is of"),
        Column("law", "Law", rank=3),
        Column("note", "Note", "reasons"),
    ]
    return Table(columns, [_row(row) for row in _rows(prediction)])


def _rows(prediction: Prediction) -> list[Prediction]:
    first = [row for row in (prediction["whole"], prediction["sum"]) if row]
    return [*first, *prediction["parts"], *prediction["groups"]]


def _row(row: Prediction) -> dict[str, Any]:
    energy, time, held_out = from_entry(row["energy_mj"]), from_entry(row["time_us"]), row["held_out"]
    only_high = energy is not None and energy.low is None and energy.high is not None
    notes = (*row["flags"], row["extrapolated"] and row["why"], held_out["reason"])
    return {
        "part": _name(row),
        "energy": energy,
        "most": energy.high if only_high and energy else None,
        "time": None if time is None else time.value,
        "error": held_out["median"],
        "n": held_out["cells"] or None,
        "where": _BEYOND.get(held_out["where"]),
        "data": "outside" if row["extrapolated"] else "within",
        "law": law_name(row["law"]),
        "note": reasons.join(str(note) for note in notes if note) or None,
    }


def _sources(cells: Sequence[Prediction]) -> str:
    names = [f"{cell['run']} ({cell['batch_size']:,} x {cell['tokens']:,})" for cell in cells]
    return f"{fmt.count(len(names), 'cell')}: {fmt.listed(names, _MOST)}"


def _name(row: Prediction) -> str:
    return law_name(SUM) or "" if row["law"] == SUM else subject_name(row["subject"])


def _remarks(prediction: Prediction) -> Iterator[str]:
    """Yield what must be known, each thing once with the parts that it holds for."""
    rows = _rows(prediction)
    yield f"Held-out error: median over {WAYS.get(prediction['left_out_by'], prediction['left_out_by'])} left out."
    for law, (name, formula) in LAW_NAMES.items():
        if law != SUM and any(row["law"] == law for row in rows):
            yield f"{name}: {formula}"
    unjudged = {_name(row): row["held_out"]["reason"] for row in rows if row["held_out"]["median"] is None}
    not_predicted = {
        subject_name(subject) if subject != SUM else law_name(SUM) or "": why
        for subject, why in prediction["left_out"].items()
    }
    yield from _once("outside of the data", [(name, why) for name, why in _beyond(rows).items()])
    yield from _once("", [(_name(row), flag) for row in rows for flag in row["flags"]])
    yield from _once("held-out error unknown", list(unjudged.items()))
    yield from _once("not predicted", list(not_predicted.items()))
    for note in prediction["notes"]:
        yield f"note: {reasons.words(note)}"


def _once(what: str, pairs: Sequence[tuple[str, Any]]) -> Iterator[str]:
    """Yield a line for each reason, with the parts that it holds for."""
    for why, group in group_by(pairs, lambda pair: str(pair[1] or "")).items():
        parts = fmt.listed([name for name, _ in group], 12)
        head = f"{what} ({parts})" if what else parts
        yield f"{head}: {reasons.words(why) or 'no reason was noted'}"


def _beyond(rows: Sequence[Prediction]) -> dict[str, str]:
    """Return why rows lie outside: what most of them have in common (the shape), or else a row's first reason."""
    why = {_name(row): reasons.split(row["why"]) for row in rows if row["extrapolated"] and row["why"]}
    count = Counter(reason for every in why.values() for reason in every)
    shared = {
        name: [reason for reason in every if count[reason] > max(1, len(why) / 2)] for name, every in why.items()
    }
    return {name: reasons.join(shared[name] or every[:1]) for name, every in why.items()}
