"""A sweep in the terminal, a line for each cell; and a line for each sweep and each laws below a root."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from energyscope import format as fmt
from energyscope import reasons
from energyscope.intervals import interval
from energyscope.metering.grades import GRADES
from energyscope.reporting.scaling.laws import Laws
from energyscope.reporting.scaling.terminal import laws_brief
from energyscope.reporting.table import Column, Table
from energyscope.reporting.terminal_text import printable
from energyscope.runs.schema import LAWS_JSON
from energyscope.runs.store import Run
from energyscope.runs.sweeps import Sweep, sweep_rows

if TYPE_CHECKING:
    from rich.console import RenderableType

_NOISY = GRADES["C"]  # relative half-width beyond which the grade is invalid
_NARROWER = "intervals wider than 10 %, which a larger --component-budget narrows"


def sweep_text(sweep: Sweep, width: int) -> RenderableType:
    """Return what a sweep measured: warnings, its cells, what is missing, what to do next, and its laws."""
    from rich.console import Group
    from rich.text import Text

    runs = sweep.runs()
    modelled = any(run.modelled for run in runs.values())
    parts: list[RenderableType] = []
    if modelled:
        parts.append(Text("MODELLED: every joule is time x stated watts", style="bold yellow"))
    if any((run.document.get("model") or {}).get("weights") == "random" for run in runs.values()):
        parts.append(Text("random weights: energy depends on values to some degree", style="yellow"))
    rows = sweep_rows(sweep)
    parts.append(sweep_table(sweep, rows, modelled=modelled).filled().rich(width))
    parts += [Text(printable(line), overflow="fold") for line in _remarks(sweep, rows, runs)]
    return Group(*parts, *([laws_brief(Laws.load(sweep.path))] if (sweep.path / LAWS_JSON).is_file() else []))


def sweep_table(sweep: Sweep, rows: Sequence[Mapping[str, Any]], *, modelled: bool) -> Table:
    """Return a line for each cell; watts that were stated are none that were measured, and stand nowhere."""
    step = sweep.cells[0].phase == "decode"
    several = [len({row[name] for row in rows}) > 1 for name in ("model", "execution", "board", "held_to")]
    columns = [
        *([Column("model", "Model")] if several[0] else []),
        *([Column("execution", "Execution")] if several[1] else []),
        Column("precision", "Precision"),
        Column("batch_size", "Batch", "count"),
        Column("tokens", "Context" if step else "Tokens", "count"),
        *([Column("held_to", "Held to")] if several[3] else []),
        Column("energy", "Energy (MODELLED)" if modelled else "Energy", "mJ"),
        Column("energy_per_token_mj", "Per token", "mJ", rank=2),
        Column("time_us", "Time", "us", rank=1),
        Column("power", "Power", "W", rank=4),
        Column("closure", "Adds up to", "share", "what parts and overhead take, of the measured model", rank=5),
        Column("quality", "Grade", "grade", rank=3),
        *([Column("board", "Board", "code", rank=6)] if several[2] else []),
        Column("lacking", "State"),
    ]
    cells = [
        {
            **row,
            "energy": interval(row["energy_mj"], row["energy_ci_low_mj"], row["energy_ci_high_mj"]),
            "power": None if modelled else row["power_w"],
            "lacking": None if row["state"] == "done" else row["state"],
        }
        for row in rows
    ]
    return Table(columns, cells, f"{sweep.model}, {'decode steps' if step else 'forward passes'}")


def _remarks(sweep: Sweep, rows: Sequence[Mapping[str, Any]], runs: Mapping[str, Run]) -> Iterator[str]:
    lost = [cell for cell in sweep.cells if cell.state != "done"]
    for cell in lost:
        yield f"{cell.name}: {cell.state}" + (f": {reasons.words(cell.reason)}" if cell.reason else "")
    path = shlex.quote(str(sweep.path))
    if lost:
        retry = "" if {cell.state for cell in lost} & {"waiting", "interrupted"} else " --retry"
        yield f"energyscope sweep --resume {path}{retry} measures what is missing"
    if len(sweep.cells) == 1:
        yield "One cell gives no law: sweep two lengths or batch sizes at least."
    weak = Counter(_why(row, runs[row["cell"]]) for row in rows if row["quality"] == "invalid")
    for why, count in weak.items():
        yield f"{fmt.count(count, 'cell')} too noisy: {why}"
    yield f"Sweep: {sweep.path} (each cell is a run in it)"
    alike = len({row["model"] for row in rows}) == len({row["held_to"] for row in rows}) == 1
    if len(runs) > 1 and alike:  # predictions are of one limit
        length = "--context-length" if sweep.cells[0].phase == "decode" else "--sequence-length"
        model = shlex.quote(sweep.model)
        yield f"Other shapes: energyscope predict {model} --from {path} {length} N --batch-size N"


def _why(row: Mapping[str, Any], run: Run) -> str:
    """Say why a cell is graded invalid: its interval is too wide, or what its row says."""
    half = fmt.relative(interval(row["energy_mj"], row["energy_ci_low_mj"], row["energy_ci_high_mj"]))
    if half is not None and half > _NOISY:
        return _NARROWER
    whole = None if run.energy is None else run.energy[run.energy["kind"] == "model"]
    noted = None if whole is None or whole.empty else reasons.words(whole.iloc[0].get("reasons"))
    return noted or "no reason was noted"
