"""How a run lies beside the laws of the sweep, or of the set of runs, that it is a cell of.

All of it is read from the laws.json that names the run; nothing is fitted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from energyscope.reporting.data.scaling_cells import (
    OwnGroup,
    invalid_cells,
    own_groups,
    why_none,
)
from energyscope.reporting.data.scaling_table import WEAK, kinds_table, shows_difference, shows_weak
from energyscope.reporting.data.scaling_words import group_said, unit_of
from energyscope.reporting.figure import Table
from energyscope.reporting.laws import names
from energyscope.reporting.laws.document import (
    Found,
    checked,
    fitted,
    item,
    law_at,
    line_over,
    said_by,
    said_over,
    shows_growth,
    whole_of,
    worked,
)
from energyscope.reporting.laws.law_tables import lawless
from energyscope.reporting.laws.sources import relative_link
from energyscope.reporting.laws.weak_cells import invalid_shapes
from energyscope.runs.intervals import Interval, finite
from energyscope.runs.laws import NamingLaws, laws_naming
from energyscope.runs.laws_flaws import flaw
from energyscope.runs.schema import REPORT_FILE, SWEEP_FILE

if TYPE_CHECKING:
    from energyscope.runs.store import Run


@dataclass(frozen=True)
class LawCell:
    """A cell of a law: the energy of its whole model and what laws say of it (mJ).

    ``line`` is None where nothing checks it. ``own``: it is the run's; ``invalid``: it is below grade C.
    """

    at: str
    flops: float
    energy: Interval
    line: float | None
    roofline: float | None
    own: bool
    invalid: bool


@dataclass(frozen=True)
class OwnLaw:
    """A law that the run is a cell of.

    ``label`` tells it from the others, ``about`` says which cells it joins; ``line`` and ``roofline`` are pairs of
    FLOPs and mJ, empty where there is no such law of the whole model, and ``reason`` says why none at all.
    ``flat``: the interval of k holds 0, so that there is a law and no line.
    ``compared``: the table holds a difference; ``unit`` is what energies and FLOPs are of, a pass or a step.
    """

    label: str
    about: str
    unit: str
    reason: str | None
    said: list[str]
    table: Table | None
    compared: bool
    notes: list[str]
    cells: list[LawCell]
    line: list[tuple[float, float]]
    flat: bool
    roofline: list[tuple[float, float]]


@dataclass(frozen=True)
class LawsLink:
    """A set of laws by its name, with a link to its page as seen from the run's; None where it has no page."""

    name: str
    link: str | None
    sweep: bool


@dataclass(frozen=True)
class ScalingData:
    """The laws that a run is a cell of: those of one set. Without ``groups``, ``reason`` says why none is told.

    ``others`` are further sets that it belongs to, ``unread`` those that name it but cannot be read for it,
    ``word`` is what joules are called.
    """

    laws: LawsLink
    groups: list[OwnLaw]
    reason: str
    others: list[LawsLink]
    unread: list[LawsLink]
    modelled: bool
    word: str


def scaling_data(run: Run) -> ScalingData | None:
    """Return how a run lies beside its laws; None where none near it names it.

    Of several sets, it is one that has the run as it is now and a law of it; of these the nearest, and of those
    beside each other the one that joins it with most cells.
    """
    if run.energy is None or run.energy.empty:
        return None
    found = [_named(named, run) for named in laws_naming(run.path)]
    if not found:
        return None
    chosen = max(found, key=_rank)
    return ScalingData(
        laws=_link(chosen.named, run),
        groups=chosen.laws,
        reason=chosen.reason,
        others=[_link(one.named, run) for one in found if one is not chosen and one.own],
        unread=[_link(one.named, run) for one in found if one is not chosen and one.broken],
        modelled=bool(chosen.named.document.get("modelled")),
        word=names.energy_word(chosen.named.document),
    )


@dataclass(frozen=True)
class _Named:
    named: NamingLaws
    reason: str
    broken: bool = False
    own: list[OwnGroup] = field(default_factory=list)
    laws: list[OwnLaw] = field(default_factory=list)


def _named(named: NamingLaws, run: Run) -> _Named:
    """Return what laws say of a run that they name, or why they say nothing."""
    broken = flaw(named.document)  # a neighbour's file, altered by hand
    if broken:
        return _Named(named, f"but its laws.json cannot be read for this run: {broken}", broken=True)
    own = own_groups(named, run)
    return _Named(named, "" if own else why_none(named, run), own=own, laws=_laws(named.document, own))


def _rank(one: _Named) -> tuple[bool, bool, bool, int, int]:
    joined = max((len(own.group["cells"]) for own in one.own), default=0)
    told = any(law.reason is None for law in one.laws)
    return bool(one.own), told, not one.broken, -one.named.parents, joined


def _link(named: NamingLaws, run: Run) -> LawsLink:
    page, sweep = named.folder / REPORT_FILE, (named.folder / SWEEP_FILE).is_file()
    name = str(named.document.get("name") or named.folder.name)
    return LawsLink(name, relative_link(page, run.path.resolve()) if page.is_file() else None, sweep)


def _laws(document: Found, own: Sequence[OwnGroup]) -> list[OwnLaw]:
    boards = {name: board for one in own for name, board in _board(one.group).items()}
    labels = names.labels([one.group for one in own], boards)
    return [_law(document, one, label) for one, label in zip(own, labels, strict=True)]


def _board(group: Found) -> dict[str, str]:
    """Return the name of a group's board; where it is the only one that is shown, it needs no number."""
    return {str(group.get("board")): str(group.get("device") or group.get("board"))}


def _law(document: Found, own: OwnGroup, label: str) -> OwnLaw:
    group, whole = own.group, whole_of(own.group) or {}
    reason = group.get("reason")
    line, roofline = checked(whole.get("two_term")), fitted(whole.get("roofline"))
    flat = line is not None and not shows_growth(line)
    points, table = worked(whole), None if reason else kinds_table(own)
    return OwnLaw(
        label=label,
        about=_about(own),
        unit=unit_of(group),
        reason=str(reason) if reason else None,
        said=group_said(document, own),
        table=table,
        compared=shows_difference(table),
        notes=[] if reason else _notes(document, own, marked=shows_weak(table)),
        cells=_cells(document, own),
        line=line_over(line, points) if line and not flat else [],
        flat=flat,
        roofline=said_over(roofline, points) if roofline else [],
    )


def _about(own: OwnGroup) -> str:
    """Say of what a law is, which cells it joins, and how many of them are the run's."""
    cells, mine = own.group["cells"], len(own.cells)
    joined = f"{'one' if mine == 1 else mine} of {len(cells)} cells" if len(cells) > 1 else "the only cell"
    batches, tokens = (names.span([one[field] for one in cells]) for field in ("batch_size", "tokens"))
    return f"{names.full_label(own.group, _board(own.group))}: {joined}, batch {batches}, {tokens} tokens"


def _notes(document: Found, own: OwnGroup, *, marked: bool) -> list[str]:
    """Say which kinds have no law, what the table's mark is, and how many cells are graded invalid."""
    bad, cells = len(invalid_cells(document, own.group)), len(own.group["cells"])
    mine = ", this run among them" if any(cell.invalid for cell in own.cells) else ""
    graded = f"graded invalid, and used with their intervals: the whole model in {bad} of {cells} cells{mine}"
    return [*([WEAK] if marked else []), *lawless(own.group, names.kind_name), *([graded] if bad else [])]


def _cells(document: Found, own: OwnGroup) -> list[LawCell]:
    """Return the cells of the whole model that have FLOPs and a positive energy."""
    whole = whole_of(own.group) or {}
    points, law = whole.get("points") or [], checked(whole.get("two_term"))
    mine = {cell.point_in(whole): cell for cell in own.cells}
    bad = invalid_shapes(document, own.group)
    found = []
    for index, roofline in enumerate(said_by(fitted(whole.get("roofline")), points)):
        point = points[index]
        energy, flops = item(point.get("energy_mj")), finite(point.get("flops"))
        if energy is None or energy.value <= 0 or not flops or flops < 0:
            continue
        at, line = names.shape_name(point, own.group.get("phase")), law_at(law, flops) if law else None
        weak = mine[index].invalid if index in mine else (point["batch_size"], point["tokens"]) in bad
        found.append(LawCell(at, flops, energy, line, roofline, index in mine, weak))
    return found
