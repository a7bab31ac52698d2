"""The list of runs for the terminal: what was run, on what, how far it came, and what a pass cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from energyscope.reporting import text
from energyscope.reporting.data.benchmark import benchmark_data
from energyscope.reporting.terminal_text import Dotted, printable
from energyscope.runs.intervals import Interval
from energyscope.runs.tree import energy_tree
from energyscope.runs.writing import is_written

if TYPE_CHECKING:
    from energyscope.runs.store import Run

_RUNNING = {True: "running", False: "broken off", None: "running or broken off"}


def runs_table(runs: Sequence[Run]) -> Table:
    """Return what was run, on what, and what a forward pass cost; a few lines for each run, 80 columns wide."""
    title = Text(text.count(len(runs), "run"))
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("run", "model and device", "measured"):
        table.add_column(name, overflow="fold")
    table.add_column("energy per pass", justify="right", no_wrap=True)
    for run in runs:
        document = run.document
        device, settings = document.get("device") or {}, document.get("settings") or {}
        created = str(document.get("created") or "").replace("T", " ").removesuffix("Z")
        model = (document.get("model") or {}).get("name") or settings.get("model")
        measured = [settings.get("precision"), _execution(settings), _sampling(settings)]
        table.add_row(
            Group(Dotted(run.name), Text(created, style="dim")),
            _lines(model, device.get("name") or device.get("type")),
            _lines(", ".join(str(word) for word in measured if word), _stages(run)),
            _model_energy(run),
        )
    return table


def _lines(first: object, second: object) -> Text:
    return Text.assemble(printable(first or ""), "\n", (printable(second or ""), "dim"))


def _execution(settings: Mapping[str, object]) -> object:
    """Return the execution, and of a run in both which one its energy is of."""
    asked = settings.get("execution")
    return "both (energy: eager)" if asked == "both" else asked


def _sampling(settings: Mapping[str, object]) -> object:
    """Return the way of measuring where it is not the usual one."""
    return None if settings.get("sampling") == "replay" else settings.get("sampling")


def _stages(run: Run) -> str:
    stages = run.document.get("stages") or {}
    states = {name: str((entry or {}).get("state")) for name, entry in stages.items() if name != "report"}
    if "running" in states.values():
        now = _RUNNING[is_written(run.path)]
        states = {name: now if state == "running" else state for name, state in states.items()}
    unfinished = [f"{name} {state}" for name, state in states.items() if state not in {"done", "skipped"}]
    done = ", ".join(name for name, state in states.items() if state == "done")
    return "; ".join(unfinished) or done


def _benchmarked(run: Run) -> Interval | None:
    """Return what an inference took in the benchmark, where that is all that was measured: its baseline's."""
    data = benchmark_data(run) if run.benchmark is not None else None
    cells = data.at(data.shapes[0]) if data is not None and data.shapes else []
    return next((cell.energy_mj for cell in cells if data is not None and cell.precision == data.baseline), None)


def _model_energy(run: Run) -> str:
    energy = _benchmarked(run) if run.energy is None or run.energy.empty else energy_tree(run.energy).model_energy
    if energy is None:
        return text.UNKNOWN
    written = text.quantity(energy.value, "mJ") + (" MODELLED" if run.modelled else "")
    return f"{written}\n{text.limits(energy, 'mJ')}" if energy.known else written
