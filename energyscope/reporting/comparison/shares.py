"""Shares of the model's energy side by side: kinds of components, glue and what is unexplained, as measured."""

from __future__ import annotations

from collections.abc import Iterable

from energyscope.reporting import text
from energyscope.reporting.comparison.drawing import Bar, grouped
from energyscope.reporting.comparison.source import Source, moment
from energyscope.reporting.comparison.words import intervals_said, lower, value_with_limits
from energyscope.reporting.data.energy import GLUE, UNATTRIBUTED, UNEXPLAINED, KindEnergy, energy_by_kind, share_of
from energyscope.reporting.differences import change_text
from energyscope.reporting.figure import Figure, Table
from energyscope.runs.compare_difference import compared
from energyscope.runs.intervals import Interval, total
from energyscope.runs.tree import EnergyTree

_RESTS = (GLUE, UNEXPLAINED, UNATTRIBUTED)
_OF_PARENTS = (GLUE, UNATTRIBUTED)  # hold what a run has no part for
Share = tuple[Interval, bool]  # a share of the model, and whether more than a tenth of its parts is invalid


def share_figures(source: Source) -> list[Figure]:
    """Return a chart for each moment of which at least two runs have shares."""
    made = [_figure(source, scene, index) for index, scene in enumerate(source.scenes)]
    return [figure for figure in made if figure]


def shares(source: Source, scene: str | None) -> dict[str, dict[str, Share]]:
    """Return shares by run and kind; runs with other kinds of parts are compared by families of them."""
    trees = {name: tree for (name, at), tree in source.trees.items() if at == scene}
    found = {name: _kinds(tree) for name, tree in trees.items()}
    leaves = {frozenset(kind for kind in kinds if kind not in _RESTS) for kinds in found.values()}
    if len(leaves) > 1:
        found = {name: _kinds(tree, families=True) for name, tree in trees.items()}
    return {name: kinds for name, kinds in found.items() if kinds}


def not_comparable(source: Source, scene: str | None, pair: tuple[str, str]) -> dict[str, str]:
    """Return by family, and for glue, why the shares of two runs are not comparable.

    What one run measures as a part of its own may be in the glue of a run that has no such part.
    """
    first, second = (_parts(source.trees.get((name, scene))) for name in pair)
    alone = ((pair[0], first - second), (pair[1], second - first))
    families = {_family(kind) for _, kinds in alone for kind in kinds}
    reasons = {
        family: _only([(name, {kind for kind in kinds if _family(kind) == family}) for name, kinds in alone])
        for family in families
    }
    return reasons | dict.fromkeys(_OF_PARENTS, _only(alone)) if reasons else {}


def _parts(tree: EnergyTree | None) -> set[str]:
    return {kind for kind in (_kinds(tree) if tree else ()) if kind not in _RESTS}


def _family(kind: str) -> str:
    return kind.partition(".")[0]


def _only(alone: Iterable[tuple[str, set[str]]]) -> str:
    return "; ".join(
        f"{text.listed(sorted(kinds), 6)} {'is a part' if len(kinds) == 1 else 'are parts'} in {name} only"
        for name, kinds in alone
        if kinds
    )


def _kinds(tree: EnergyTree, *, families: bool = False) -> dict[str, Share]:
    groups: dict[str, list[KindEnergy]] = {}
    for entry in energy_by_kind(tree):
        groups.setdefault(_family(entry.kind) if families else entry.kind, []).append(entry)
    found = {}
    for kind, entries in groups.items():
        share = share_of(total([entry.energy for entry in entries]), tree.model_energy)
        if share is not None:
            found[kind] = (share, any(entry.invalid * 10 > entry.count for entry in entries))
    return found


def _figure(source: Source, scene: str | None, index: int) -> Figure | None:
    found = shares(source, scene)
    if len(found) < 2:
        return None
    kinds = list(dict.fromkeys(kind for held in found.values() for kind in held))
    sizes = {kind: max(held[kind][0].value for held in found.values() if kind in held) for kind in kinds}
    places = {kind: place for place, kind in enumerate(_RESTS, 1)}
    kinds.sort(key=lambda kind: (places.get(kind, 0), -sizes[kind]))
    names = [name for name in source.names if name in found]
    bars = [
        Bar(
            kind,
            name,
            found[name][kind][0].scaled(100),
            value_with_limits(found[name][kind][0], "share"),
            found[name][kind][1],
        )
        for kind in kinds
        for name in names
        if kind in found[name]
    ]
    families = any("." in node.kind for tree in source.trees.values() for node in tree.leaves) and not any(
        "." in kind for kind in kinds
    )
    title = "Shares of the model" + (f", {moment(scene)}" if len(source.scenes) > 1 else "")
    summary = f"{title}: " + "; ".join(f"{bar.series} {bar.item} {bar.said}" for bar in bars[:8])
    joined = " The runs have other parts, so kinds are joined into families." if families else ""
    weak = any(bar.weak for bar in bars)
    reasons = {name: not_comparable(source, scene, (names[0], name)) for name in names[1:]}
    apart = (
        " Not comparable: glue and each family of which one run has a part that the other has not and may have in "
        "its glue."
        if any(reasons.values())
        else ""
    )
    hollow = " Hollow, dashed: more than a tenth of the components is below grade C." if weak else ""
    return Figure(
        name=f"shares-{index}",
        section="shares",
        title=title,
        caption=f"Of each model's own measured energy, {intervals_said(bar.value for bar in bars)}. "
        "Glue is what parents do besides calling their parts; nothing is renormalised, so what is unexplained may "
        f"be negative and shares need not add up to 100\u00a0%.{joined}{apart}{hollow}",
        summary=summary,
        chart=grouped(bars, names, f"Share of {lower(source.word)} (%)", summary),
        table=_table(found, kinds, names, reasons),
    )


def _table(
    found: dict[str, dict[str, Share]], kinds: list[str], names: list[str], reasons: dict[str, dict[str, str]]
) -> Table:
    rows = []
    for kind in kinds:
        row = [
            kind,
            *(
                value_with_limits(found[name][kind][0], "share") if kind in found[name] else "\u2013"
                for name in names
            ),
        ]
        base = found[names[0]].get(kind)
        for name in names[1:]:
            other = found[name].get(kind)
            why = reasons[name].get(kind)
            item = compared(kind, "share", base and base[0], other and other[0], ())
            change = f"not comparable: {why}" if why else " ".join(change_text(item)).strip()
            row.append(change if item.change else "\u2013")
        rows.append(row)
    changes = [f"{name} - {names[0]}" for name in names[1:]]
    return Table(["part", *names, *changes], rows)
