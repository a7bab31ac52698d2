"""Do the parts add up to the whole: the closure at every level, and sentences that read it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from energyscope.books.closure import CLOSED, OVER, TOLERANCE, UNCERTAIN, UNDER, too_wide
from energyscope.books.closure import state as judged
from energyscope.reporting import text
from energyscope.runs.intervals import Interval, interval

ADVICE = (0.93, 1.07)  # outside, no advice is given
APART = 0.05  # static and dynamic energy, each at least so far from closing


@dataclass(frozen=True)
class ClosureRow:
    """One level's closure: what the parts take as a share of the measured whole, by quantity.

    ``state`` is ``closed``, ``under-captured``, ``over-captured`` or ``uncertain``. Runs of before closures were
    judged have that of today's rule; None where it depends on an execution that is not known.
    """

    name: str
    energy: Interval
    time: Interval | None
    static: Interval | None
    dynamic: Interval | None
    with_glue: bool
    state: str | None

    @property
    def counted(self) -> str:
        """What was added up."""
        return "children and glue" if self.with_glue else "children, without glue"

    @property
    def advisable(self) -> bool:
        """Whether the energy closes well enough for advice."""
        return ADVICE[0] <= self.energy.value <= ADVICE[1]


def closures(document: Mapping[str, Any]) -> list[ClosureRow]:
    """Return the levels whose closure is known, the model first."""
    found = []
    execution = str((document.get("settings") or {}).get("execution"))
    for name, entry in (document.get("closure") or {}).items():
        if not isinstance(entry, dict):
            continue
        energy, time, static, dynamic = (
            interval(entry.get(quantity), entry.get(f"{quantity}_low"), entry.get(f"{quantity}_high"))
            for quantity in ("energy", "time", "static", "dynamic")
        )
        if energy is not None:
            glue = bool(entry.get("with_glue"))
            state = _state(entry.get("state"), energy, execution)
            found.append(ClosureRow(str(name), energy, time, static, dynamic, glue, state))
    return sorted(found, key=lambda row: row.name != "model")


def _state(noted: object, energy: Interval, execution: str) -> str | None:
    """Return the state that was noted, or today's; older runs called any interval that includes 1 closed."""
    if noted is None:
        return _today(energy, execution)
    if noted == CLOSED and too_wide(energy.low, energy.high):
        return UNCERTAIN
    return str(noted)


def _today(energy: Interval, execution: str) -> str | None:
    """Judge a closure by the rule of the books; None where executions that it may be of are judged otherwise."""
    closure = {"energy": energy.value, "energy_low": energy.low, "energy_high": energy.high}
    found = {judged(closure, one) for one in ([execution] if execution in TOLERANCE else TOLERANCE)}
    return found.pop() if len(found) == 1 else None


def closure_sentences(rows: Sequence[ClosureRow]) -> list[str]:
    """Read the closures: the model's first, then what does not close below it, then what closes by chance."""
    if not rows:
        return []
    whole, judged = rows[0], [row for row in rows[1:] if row.state is not None]
    return [_whole(whole), *_below(whole, judged), *_opposite(rows)]


def _below(whole: ClosureRow, below: Sequence[ClosureRow]) -> list[str]:
    """Name the levels below the model that do not close, and those of which that cannot be told."""
    open_ones = [f"{row.name} ({row.state}, {text.percent(row.energy.value)})"
                 for row in below if row.state in {UNDER, OVER}]  # fmt: skip
    vague = [row for row in below if row.state == UNCERTAIN]
    found = [f"Below the model, these do not close: {text.listed(open_ones)}."] if open_ones else []
    if vague and len(vague) == len(below) and whole.state == UNCERTAIN:
        found.append(f"Nor can it be told of the levels below: {text.listed([row.name for row in vague])}.")
    elif vague:
        said = [f"{row.name} ({text.percent_with_limits(row.energy)})" for row in vague]
        found.append(f"Below the model, it cannot be told whether these close: {text.listed(said)}.")
    if below and not found:
        so = "So do the levels below" if whole.state == CLOSED else "Below the model, these close"
        found.append(f"{so}: {text.listed([row.name for row in below])}.")
    return found


def _whole(row: ClosureRow) -> str:
    parts = "the components and the glue" if row.with_glue else "the components, without glue,"
    added = f"{parts} add up to {text.percent_with_limits(row.energy)} of the measured energy of the {row.name}"
    if row.state == CLOSED:
        return f"The books close: {added}."
    if row.state == UNCERTAIN:
        return f"Whether the books close cannot be told: {added}."
    if row.state == UNDER:
        left = text.percent(1 - row.energy.value)
        return f"Under-captured: {added}, so {left} of it belongs to nothing that was measured."
    if row.state == OVER:
        return (
            f"Over-captured: {added}. Too much is as wrong as too little: some joules were counted twice, or "
            "replay is dearer than the model."
        )
    why = "this run was made before closures were judged, and its execution is not known"
    return f"{added[0].upper()}{added[1:]}; {why}."


def _opposite(rows: Sequence[ClosureRow]) -> list[str]:
    """Name the levels whose energy closes only because its two parts err in opposite directions."""
    found = [
        f"{row.name} (static {text.percent(row.static.value)}, dynamic {text.percent(row.dynamic.value)})"
        for row in rows
        if row.advisable
        and row.state != UNCERTAIN
        and row.static
        and row.dynamic
        and min(abs(row.static.value - 1), abs(row.dynamic.value - 1)) > APART
        and (row.static.value - 1) * (row.dynamic.value - 1) < 0
    ]
    return [f"Static and dynamic energy err in opposite directions in {text.listed(found)}."] if found else []


def missing_time(row: ClosureRow, *, host_bound: bool = False) -> str:
    """Say so where the dynamic energy closes and only static energy, which is time, does not.

    Its cause is named where the run shows it: ``host_bound``, as launching from the host sets the model's pace.
    """
    if row.static is None or row.dynamic is None or row.state == UNCERTAIN:
        return ""
    static, dynamic = row.static.value, row.dynamic.value
    if not ADVICE[0] <= dynamic <= ADVICE[1] or ADVICE[0] <= static <= ADVICE[1]:
        return ""
    idle = "time in which the GPU waits for the host" if host_bound else "idle time"
    return (
        f" Their dynamic energy closes ({text.percent(dynamic)}), their static energy does not "
        f"({text.percent(static)}): what differs is {idle}."
    )
