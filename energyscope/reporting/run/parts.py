"""What a tree of measured components adds up to: by block, from the model down, and within one layer.

Every value is of one pass or step, in mJ: ``energy`` with its interval, of which ``work`` is beyond idle power x
time and ``idle`` the rest. Components, overhead between them and what is unexplained add up to the model. Parts
of a tree that is judged by its work (`EnergyTree.by_work`) stand in the order of their work, and its interval
decides whether they are ``noisy`` and their ``grade``.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from energyscope import format as fmt
from energyscope.accounting.checks import Checks, KindCheck
from energyscope.intervals import Interval, difference, finite, interval, is_rounding, ratio, total, total_of_same
from energyscope.metering.activity import BUSY, Activity, limited_by, mean_activity
from energyscope.metering.grades import GRADES, QUALITIES, grade
from energyscope.reporting.charts.theme import title_of
from energyscope.reporting.table import Column, Table
from energyscope.runs.tree import EnergyTree, Node, sum_energy, sum_intervals, sum_known

NOISY = GRADES["C"]  # relative half-width beyond which a value is unreliable
_ACTIVITY = {
    "sm": "sm_activity",
    "tensor": "tensor_activity",
    "cuda_cores": "cuda_core_activity",
    "dram": "dram_activity",
}
OVERHEAD, UNEXPLAINED, OTHER = "overhead", "unexplained", "other"
LIMITED_HINT = f"the part of the GPU that is nearest to its peak; waiting: none is at {BUSY:.0%} of it"
_HINTS = {
    "energy": "of one pass or step, with its 95 % interval",
    "work": "beyond idle power x time",
    "idle": "idle power x time",
}


def columns(*, modelled: bool, whole: str = "model", by_work: bool = False) -> list[Column]:
    """Return the columns of a table of parts: of their energy, or of their work with its grade."""
    word = "Energy (MODELLED)" if modelled else "Energy"
    if by_work:
        return [
            Column("part", "Part"),
            Column("work", "Work", "mJ", f"{_HINTS['work']}, with its 95 % interval"),
            Column("work_share", "Share", "share", f"of the work of the {whole}"),
            Column("grade", "Grade", "grade", "how well its work is known", rank=1),
            Column("idle", "Idle", "mJ", _HINTS["idle"], rank=3),
            Column("energy", "Energy", "mJ", _HINTS["energy"], rank=3),
            Column("limited_by", "Limited by", hint=LIMITED_HINT, rank=4),
            Column("count", "Parts", "count", "how many components are added up", rank=4),
        ]
    return [
        Column("part", "Part"),
        Column("energy", word, "mJ", _HINTS["energy"]),
        Column("share", "Share", "share", f"of the {whole}"),
        Column("work", "Work", "mJ", _HINTS["work"], rank=1),
        Column("idle", "Idle", "mJ", _HINTS["idle"], rank=2),
        Column("limited_by", "Limited by", hint=LIMITED_HINT, rank=4),
        Column("count", "Parts", "count", "how many components are added up", rank=4),
        Column("noisy", "Too noisy", "text", "known to no better than 10 %", rank=3),
    ]


def is_noisy(energy: Interval | None) -> bool:
    """Tell whether an energy is known to no better than 10 %."""
    half = fmt.relative(energy)
    return half is None or half > NOISY


def blocks(tree: EnergyTree, *, modelled: bool, checks: Checks | None = None) -> Table:
    """Return the energy by block, the largest first, then overhead and what is unexplained.

    Blocks are what the model and its layers are made of, each measured as a whole. They add up to the model. Where
    blocks are leaves, what is unexplained has the interval of what ``checks`` say that leaves add up to: parts
    and whole were compared pass by pass.
    """
    tops = [tree.root, *tree.root.children] if tree.root else []
    opened = [node for node in tops if node is tree.root or _is_open(node)]
    inside = [child for node in opened for child in node.children if not _is_open(child)]
    rows = _by_kind(tree, inside, opened)
    if checks is not None and not any(child.energy for node in inside for child in node.children):
        rows = [_as_checked(row, tree, checks) if row["kind"] == UNEXPLAINED else row for row in rows]
    return _table(tree, rows, modelled=modelled)


def _as_checked(row: dict[str, Any], tree: EnergyTree, checks: Checks) -> dict[str, Any]:
    """Return the row of what is unexplained as what leaves and overhead lack of the model."""
    leaves, whole = checks.leaves, tree.model_energy
    if leaves is None or not leaves.known or whole is None or checks.quantity != "energy" or tree.by_work:
        return row
    share = difference(Interval(1.0, 1.0, 1.0), leaves)
    energy = share.scaled(whole.value)
    return {**row, "share": share, "energy": energy, "noisy": is_noisy(energy)}


def types(tree: EnergyTree, *, modelled: bool) -> Table:
    """Return the energy of the smallest components that were measured by kind, the largest first, and the rest."""
    opened = [node for node in tree.nodes if any(child.energy for child in node.children)]
    return _table(tree, _by_kind(tree, tree.leaves, opened), modelled=modelled)


def _table(
    tree: EnergyTree,
    rows: list[dict[str, Any]],
    title: str = "",
    *,
    modelled: bool,
    whole: str = "model",
) -> Table:
    """Return a table of parts; where joules are time x watts, the time stands before them."""
    shown = columns(modelled=modelled, whole=whole, by_work=tree.by_work)
    took_us = tree.root and tree.root.number("time_us")
    if not modelled or not took_us or tree.model_energy is None:
        return Table(shown, rows, title)
    us_per_mj = took_us / tree.model_energy.value
    rows = [{**row, "time": row["energy"].scaled(us_per_mj)} for row in rows]
    time = Column("time", "Time", "us", "of one pass or step, with its 95 % interval")
    return Table([shown[0], time, *shown[1:]], rows, title)


def costliest(tree: EnergyTree, *, work: bool) -> tuple[list[str], Interval | None]:
    """Return the kinds of the one or two blocks that take most, and what they take of the model's energy.

    By their ``work``, or by all their energy. Two where the first takes at most twice as much as the second. Of a
    tree that is judged by its work, it is their work and their share of all work.
    """
    rows = [row for row in blocks(tree, modelled=False).rows if not row.get("rest")]
    key = "work" if work or tree.by_work else "energy"
    ranked = sorted((row for row in rows if row[key] is not None), key=lambda row: -row[key].value)
    whole = tree.judged(tree.root) if tree.root else None
    if not ranked or whole is None or whole.value <= 0:
        return [], None
    most = 1 if len(ranked) == 1 or ranked[0][key].value > 2 * ranked[1][key].value else 2
    return [row["kind"] for row in ranked[:most]], share_of(total(row[key] for row in ranked[:most]), whole)


def with_checks(table: Table, checks: Checks) -> Table:
    """Return a table of parts that says of each kind whether the model without it agrees with its replay."""
    hint = (
        f"whether it takes as much of the model's {checks.name} in replay as the model saves where it is left out"
    )
    column = Column("check", "Check", hint=hint, rank=3)
    rows = [{**row, "check": _check(checks.kinds.get(row["kind"]))} for row in table.rows]
    return replace(table, columns=[*table.columns, column], rows=rows) if checks.kinds else table


def _check(check: KindCheck | None) -> str | None:
    if check is None or check.replayed is None or check.saved is None:
        return None
    if not check.disagrees:
        return check.verdict
    replayed, saved = fmt.quantity(check.replayed.value, "share"), fmt.measured(check.saved, "share")
    return f"{replayed} in replay, {saved} left out"


def checks_of_table(tree: EnergyTree, differential: Mapping[str, Any]) -> Checks:
    """Return the checks of a run that was recorded before leaves were added up: those of all energy."""
    whole = tree.model_energy
    opened = [node for node in tree.nodes if node.children]
    summed = [*((node, node.energy) for node in tree.leaves), *((node, node.glue) for node in opened)]
    if whole is None or whole.value <= 0:
        return Checks()
    energy = sum_intervals(summed) if opened and all(value is not None for _, value in summed) else None
    kinds = {}
    for kind, entry in differential.items():
        outermost = [
            node for node in tree.nodes if node.kind == kind and node.number("differential_mj") is not None
        ]
        replayed, saved = (
            sum_energy(outermost),
            interval(entry.get("energy_mj"), entry.get("low"), entry.get("high")),
        )
        if replayed is not None and saved is not None:
            kinds[kind] = KindCheck(share_of(replayed, whole), saved.scaled(1 / whole.value))
    return Checks(leaves=None if energy is None else share_of(energy, whole), kinds=kinds)


def _by_kind(tree: EnergyTree, nodes: Sequence[Node], opened: Sequence[Node]) -> list[dict[str, Any]]:
    """Return nodes by kind, the largest first, and what ``opened`` nodes take beside their parts."""
    if tree.root is None:
        return []
    kinds = dict.fromkeys(node.kind for node in nodes)
    whole = _Whole.of(tree)
    rows = [row for kind in kinds if (row := _row([node for node in nodes if node.kind == kind], whole, 1.0))]
    rows.sort(key=lambda row: -whole.size(row))
    return rows + list(_rests(opened, whole, 1.0))


def from_model_down(tree: EnergyTree, *, modelled: bool) -> Table:
    """Return the model, its parts and the blocks of its layers, in depth-first order."""
    root = tree.root
    rows = (
        list(_descend([root], _Whole.of(tree), 1.0, 0, 2)) if root is not None and root.energy is not None else []
    )
    return _table(tree, rows, "From the model to its blocks", modelled=modelled)


def one_layer(tree: EnergyTree, *, modelled: bool) -> Table:
    """Return the mean layer with its blocks and their parts, in depth-first order; empty where none has parts."""
    layers = [node for node in tree.nodes if node.level == "layer" and node.energy is not None and node.children]
    sums = sum_energy(layers), sum_known(node.dynamic for node in layers)
    if not layers or sums[0] is None:
        return _table(tree, [], modelled=modelled)
    energy, work = (None if item is None else Interval(item.value / len(layers)) for item in sums)
    rows = list(_descend(layers, _Whole(energy, work, tree.by_work, layer=True), 1 / len(layers), 0, 9))
    rows[0] = {**rows[0], "part": f"one of {len(layers)} layers, their mean" if len(layers) > 1 else "the layer"}
    return _table(tree, rows, modelled=modelled, whole="layer")


def _is_open(node: Node) -> bool:
    """Tell whether a node is a layer in which something was measured."""
    return node.level == "layer" and any(child.energy for child in node.children)


@dataclass(frozen=True)
class _Whole:
    """What shares are of: the model, or the mean ``layer``, which is judged by its work or by all its energy."""

    energy: Interval | None
    work: Interval | None
    by_work: bool
    layer: bool = False

    @classmethod
    def of(cls, tree: EnergyTree) -> _Whole:
        root = tree.root
        return cls(root.energy, root.dynamic, tree.by_work) if root else cls(None, None, by_work=False)

    def size(self, row: Mapping[str, Any] | None) -> float:
        """Return what a row is ranked by: its work, or all its energy; below all others where that is unknown."""
        value = row and row["work" if self.by_work else "energy"]
        return value.value if value else -math.inf


def _descend(
    nodes: Sequence[Node], whole: _Whole, scale: float, depth: int, deepest: int
) -> Iterator[dict[str, Any]]:
    """Yield a row for like components together, then what is in them: by kind, or by name within a layer."""
    row = _row(nodes, whole, scale)
    if row is None:
        return
    yield {**row, "depth": depth}
    if depth >= deepest:
        return
    groups: dict[str, list[Node]] = {}
    for child in (child for node in nodes for child in node.children):
        groups.setdefault(child.group if whole.layer else child.kind, []).append(child)
    kinds = Counter(group[0].kind for group in groups.values())
    for group in sorted(groups.values(), key=lambda group: -whole.size(_row(group, whole, scale))):
        rows = list(_descend(group, whole, scale, depth + 1, deepest))
        if rows and whole.layer and depth:
            rows[0] = {**rows[0], "part": rows[0]["part"].replace(f"{nodes[0].kind}.", "", 1)}
        if rows and kinds[group[0].kind] > 1:
            rows[0] = {**rows[0], "part": f"{rows[0]['part']} ({group[0].tail})"}
        yield from rows
    measured = [node for node in nodes if any(child.energy for child in node.children)]
    for rest in _rests(measured, whole, scale):
        yield {**rest, "depth": depth + 1}


def _row(nodes: Sequence[Node], whole: _Whole, scale: float) -> dict[str, Any] | None:
    """Return what like components take together, times a scale; None where none has a value."""
    measured = [node for node in nodes if node.energy is not None]
    energy = sum_energy(measured)
    if energy is None:
        return None
    work = sum_known(node.dynamic for node in measured)
    static = sum_known(node.static for node in measured)
    idle = static and Interval(static.value)  # the host's pace is in every part: its errors do not average out
    shares = {
        "share": _share(measured, "share_of_total", "share_ci", energy.scaled(scale), whole),
        "work_share": _share(measured, "dynamic_share", "dynamic_share_ci", work and work.scaled(scale), whole),
    }
    if not whole.by_work:
        work = work and Interval(work.value)  # energy has the interval, and a terminal no room for two
    count = len(measured)
    shown = round(count * scale) or 1
    return {
        "part": title_of(measured[0].kind) + (f" \u00d7{shown}" if shown > 1 else ""),
        "kind": measured[0].kind,
        "component": measured[0].name if count == 1 else None,
        "nodes": measured,
        "energy": energy.scaled(scale),
        "work": work and work.scaled(scale),
        "idle": idle and idle.scaled(scale),
        **shares,
        "limited_by": limited_by(activity(measured)),
        "count": count,
        "noisy": is_noisy(work if whole.by_work else energy),
        "grade": _grade(measured, work) if whole.by_work else None,
    }


def _share(
    nodes: Sequence[Node], column: str, limits: str, part: Interval | None, whole: _Whole
) -> Interval | None:
    """Return what like components take of all energy or of all work; ``part`` is theirs.

    Of one measurement, the share of the model is that of its row: both were compared pass by pass.
    """
    recorded = [share for node in nodes if (share := node.interval(column, limits)) and share.known]
    if not whole.layer and len(recorded) == len(nodes) and len({node.source for node in nodes}) == 1:
        return total_of_same(recorded)
    return part and share_of(part, whole.work if column == "dynamic_share" else whole.energy)


def _grade(nodes: Sequence[Node], work: Interval | None) -> str:
    """Return the grade of the work of several components: by the half-width of the sum.

    It is no better than that of a component whose windows were few or disturbed: the grade of such a one is below
    what its own half-width allows.
    """
    enough = 5  # windows of each component, whose own grade says where there were fewer
    grades = [
        (str(node.row.get("dynamic_quality")), grade(fmt.relative(node.dynamic), enough)[0]) for node in nodes
    ]
    lowered = [own for own, allowed in grades if own != allowed and own in QUALITIES]
    return max([grade(fmt.relative(work), enough)[0], *lowered], key=QUALITIES.index)


def activity(nodes: Sequence[Node]) -> Activity | None:
    """Return what the GPU was busy with over components, each weighed by its time; None where one does not say."""
    timed = [node for node in nodes if node.number("time_us") != 0]  # what launches nothing is left out
    times = [node.number("time_us") for node in timed]
    activities = [_activity(node) for node in timed]
    known = [time_us for time_us in times if time_us is not None]
    if len(known) < len(times) or any(getattr(one, key) is None for one in activities for key in _ACTIVITY):
        return None
    return mean_activity(activities, known)


def _activity(node: Node) -> Activity:
    shares: dict[str, Any] = {key: node.number(column) for key, column in _ACTIVITY.items()}
    return Activity(**shares)


def _rests(nodes: Sequence[Node], whole: _Whole, scale: float) -> Iterator[dict[str, Any]]:
    """Yield what nodes take beside their parts: overhead and what is unexplained, else both together."""
    split, unsplit = [node for node in nodes if node.glue], [node for node in nodes if not node.glue]
    rests = {
        OVERHEAD: [(node, node.glue, node.glue_work) for node in split],
        UNEXPLAINED: [(node, node.unexplained, node.unexplained_work) for node in split],
        OTHER: [(node, node.self_energy, node.self_work) for node in unsplit],
    }
    for kind, entries in rests.items():
        known = [(node, energy, work) for node, energy, work in entries if energy is not None]
        energy = sum_intervals((node, energy) for node, energy, _ in known)
        work = sum_known(work for *_, work in known)
        if energy is None or (kind != OVERHEAD and is_rounding(energy, whole.energy)):
            continue
        idle = None if work is None else Interval(energy.value - work.value)
        if not whole.by_work:
            work = work and Interval(work.value)
        yield {
            "part": title_of(kind),
            "kind": kind,
            "component": None,
            "energy": energy.scaled(scale),
            "share": share_of(energy.scaled(scale), whole.energy),
            "work_share": work and share_of(work.scaled(scale), whole.work),
            "work": work and work.scaled(scale),
            "idle": idle and idle.scaled(scale),
            "count": len(nodes),
            "noisy": is_noisy(work if whole.by_work else energy),
            "rest": True,
        }


def share_of(part: Interval, whole: Interval | None) -> Interval | None:
    """Return a part's share of the whole; to first order where a limit is not positive."""
    if whole is None or whole.value <= 0:
        return None
    if not whole.known:
        return part.scaled(1 / whole.value)
    exact = ratio(part, whole)
    if exact is not None and exact.known:
        return exact
    share = part.value / whole.value
    down, up = (whole.above, whole.below) if share >= 0 else (whole.below, whole.above)
    below = math.hypot(part.below, share * down) / whole.value
    above = math.hypot(part.above, share * up) / whole.value
    return Interval(share, finite(share - below), finite(share + above))
