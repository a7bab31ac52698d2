"""The comparison in sentences: what takes less or more, what changed most, what cannot be compared and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from energyscope.reporting import text
from energyscope.reporting.comparison.findings_benchmark import benchmark_said
from energyscope.reporting.comparison.shares import not_comparable, shares
from energyscope.reporting.comparison.source import Source, moment
from energyscope.reporting.comparison.words import digits_apart, reasons_in_short, value_text
from energyscope.reporting.differences import bound, by_how_much, change_text, signed
from energyscope.runs.compare import PairComparison
from energyscope.runs.compare_difference import Difference
from energyscope.runs.intervals import Interval, difference

MOST = 8
_SHARE_SHIFT = 0.02  # a part whose share of the model moved by less is no finding


@dataclass(frozen=True)
class _Moved:
    """The share of one part in the baseline and in another run, at one moment."""

    kind: str
    name: str
    scene: str | None
    before: Interval
    after: Interval

    @property
    def change(self) -> Interval:
        return difference(self.after, self.before)


def findings(source: Source) -> list[str]:
    """Return the most telling sentences, whole models first."""
    found = [_uncommon(source), *_wholes(source), *_incomparable(source)]
    found += [benchmark_said(one) for one in source.comparison.benchmarks]
    found += [one for pair in source.pairs[:2] for one in _parts(source, pair)]
    found += [one for pair in source.pairs[:3] for one in _of_work(source, pair)]
    found += list(_shares(source))
    found += [one for pair in source.pairs[:1] for one in _quality(pair)]
    said = [bound(one) for one in dict.fromkeys(found) if one]
    return said[:MOST]


def _uncommon(source: Source) -> str:
    """Say that two runs have nothing measured in common."""
    comparison = source.comparison
    if source.pairs or comparison.generations or any(one.cells for one in comparison.benchmarks):
        return ""
    return f"{text.listed(source.names, 8)} have nothing in common that was measured."


def _best_known(source: Source) -> Iterator[tuple[str, str, str, Difference, Sequence[Difference]]]:
    """Yield energies of whole models: other, baseline, what it is, the difference, what stands beside it."""
    for pair in source.pairs:
        for item in pair.whole[:1]:
            if item.relative is not None and item.name.startswith("energy per"):
                yield pair.other, pair.baseline, f"{item.name}{source.at(pair)}", item, pair.whole
    for one in source.comparison.generations:
        for item in one.rows:
            if item.name == "energy per generated token" and item.relative is not None:
                yield one.other, one.baseline, item.name, item, ()


def _wholes(source: Source) -> Iterator[str]:
    """Say what takes less, more, or is not shown to differ."""
    for other, baseline, what, item, beside in _best_known(source):
        if item.verdict != "not comparable":
            yield _sentence(item, other, baseline, source, what) + _with(beside, item)


def _incomparable(source: Source) -> Iterator[str]:
    """Say once for each run what cannot be compared, and why, with the values as they stand."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for other, baseline, what, item, _ in _best_known(source):
        if item.verdict == "not comparable":
            reasons = reasons_in_short(item).split(", ")
            why = ", ".join(one for one in reasons if not one.startswith("graded"))
            grade = next((f", {one}" for one in reasons if one.startswith("graded") and why), "")
            values = f"{value_text(item.other, item.unit)} against {value_text(item.baseline, item.unit)}"
            said = f"{values} {what.removeprefix('energy ')}{grade}"
            found.setdefault((other, baseline, why or reasons_in_short(item)), []).append(said)
    for (other, baseline, why), known in found.items():
        yield f"The joules of {other} and {baseline} get no verdict ({why}). As they stand: {'; '.join(known)}."


def _sentence(item: Difference, other: str, baseline: str, source: Source, what: str) -> str:
    """Say one difference with its verdict."""
    if item.relative is None:
        return ""
    values = f"{value_text(item.other, item.unit)} against {value_text(item.baseline, item.unit)}"
    word = "modelled " if source.all_modelled and "energy" in what else ""
    if item.verdict in {"less", "more"}:
        much = by_how_much(item.relative)
        if much.endswith("as much"):
            return f"{other} takes {much.removesuffix(' as much')} as much {word}{what} as {baseline}: {values}."
        return f"{other} takes {much} {word}{what} than {baseline}: {values}."
    if item.verdict == "no difference shown":
        shift = f"{signed((item.relative.value - 1) * 100, 1)} %"
        return f"No difference in {word}{what} is shown between {other} and {baseline}: {values} ({shift})."
    return ""


def _with(beside: Sequence[Difference], item: Difference) -> str:
    """Say how time and power go with a difference of energy."""
    if item.verdict not in {"less", "more"}:
        return ""
    found = [one for one in beside if one.name in {"latency", "mean power"} and one.relative]
    said = [f"{one.name} {signed((one.relative.value - 1) * 100, 1)} %" for one in found if one.relative]
    alone = "" if all(one.change and one.change.known for one in found) else ", without intervals"
    return f" With it{alone}: {text.listed(said)}." if said else ""


def _parts(source: Source, pair: PairComparison) -> Iterator[str]:
    """Say which part changed most, among those with a verdict."""
    leaves = {node.kind for tree in source.trees.values() for node in tree.leaves}
    judged = [part for part in pair.largest if part.verdict in {"less", "more"} and part.kind in leaves]
    if not judged:
        return
    first = judged[0]
    change = first.together or first.change
    shift = change_text(replace(first, change=change))[0]
    each = f", {first.count} of them together" if first.count > 1 else ""
    verdicts = [part.verdict for part in pair.parts]
    words = {
        "less": "less",
        "more": "more",
        "no difference shown": "no difference shown",
        "not comparable": "no verdict",
    }
    counted = text.listed([f"{words[one]} at {verdicts.count(one)}" for one in words if one in verdicts], 4)
    by = "kinds" if pair.alignment == "kind" else "components"
    known = " with a verdict" if "not comparable" in verdicts else ""
    whose = f" of {pair.other}" if source.several else ""
    most = f"{first.name} changed most{source.at(pair)}: {shift}{each}"
    yield f"Of the {by}{whose}{known}, {most}. Over all: {counted}."


def _of_work(source: Source, pair: PairComparison) -> Iterator[str]:
    """Say what a token costs where shapes differ, what a FLOP costs where models do."""
    other_shape = any(one.startswith(("batch size:", "sequence length:")) for one in pair.obstacles)
    other_model = any(one.startswith("model:") for one in pair.notes)
    asked = {"energy per token"} if other_shape else {"energy per FLOP"} if other_model else set[str]()
    for item in pair.normalised:
        if item.name in asked and item.relative:
            yield _sentence(item, pair.other, pair.baseline, source, f"{item.name}{source.at(pair)}")


def _shares(source: Source) -> Iterator[str]:
    """Say which comparable share moved most over all runs and moments, if that one is shown to move."""
    moved: list[_Moved] = []
    weak = apart = False
    for scene in source.scenes:
        found = shares(source, scene)
        base = found.get(source.names[0], {})
        for name in (one for one in source.names[1:] if one in found):
            reasons = not_comparable(source, scene, (source.names[0], name))
            for kind in (one for one in base if one in found[name]):
                (before, weak_before), (after, weak_after) = base[kind], found[name][kind]
                if kind in reasons:
                    apart = True
                elif weak_before or weak_after:
                    weak = True
                else:
                    moved.append(_Moved(kind, name, scene, before, after))
    first = max(moved, key=lambda one: abs(one.change.value), default=None)
    if first is None or abs(first.change.value) < _SHARE_SHIFT:
        return
    if first.change.known and not first.change.excludes(0.0):
        return
    at = f" ({moment(first.scene)})" if len(source.scenes) > 1 else ""
    graded = " with at most a tenth of their components below grade C" if weak else ""
    of = f"Of the {'comparable ' if apart else ''}parts{graded}, the" if apart or weak else "The"
    yield (
        f"{of} share of {first.kind} moved most{at}: {text.percent(first.before.value)} of {source.names[0]}, "
        f"{text.percent(first.after.value)} of {first.name}."
    )


def _quality(pair: PairComparison) -> Iterator[str]:
    for item in pair.whole:
        if item.name in {"accuracy", "perplexity"} and item.baseline and item.other:
            digits = digits_apart([item.other.value, item.baseline.value])
            values = f"{text.number(item.other.value, digits)} against {text.number(item.baseline.value, digits)}"
            why = "" if item.verdict in {"less", "more"} else f" ({item.reason})"
            yield f"{item.name.capitalize()}: {values}{why}."
