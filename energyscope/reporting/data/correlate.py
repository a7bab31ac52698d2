"""Energy against impact: the scatter's points, the correlations and the quadrants' sums."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from energyscope.relating.resampling import clusters_of
from energyscope.relating.wording import COMPARED
from energyscope.reporting import text
from energyscope.reporting.data.impact import method_title, metric_title
from energyscope.reporting.data.matrix import Matrix, matrix_data
from energyscope.reporting.data.relations import Panel, advice_panel, coefficient, p_text, panels
from energyscope.runs.intervals import Interval, finite, interval

__all__ = ["UNDECIDED", "coefficient_text", "column_title", "correlation_data", "impact_title", "p_text"]

UNDECIDED = "undecided"
TOO_FEW = "too few: a correlation needs"  # in every such sentence of older documents
_EXTREME = re.compile(r"When .* is (highest|lowest) for ")  # how such a sentence of older documents begins
_UNTESTED = "; no p-value: points of one kind are not independent"
_POOLED_P = re.compile(r"; permutation p = \d[\d.]*(?:e[-+]?\d+)?(?=\))")


@dataclass(frozen=True)
class Point:
    """One leaf component: its energy (mJ per forward pass), its impact, and the quadrant it lies in.

    ``stability`` is the share of resamples in which it stays there; the ranks are intervals, from 1 for most.
    ``invalid``: its energy is below grade C.
    """

    component: str
    kind: str
    layer: int | None
    energy: Interval
    impact: Interval
    quadrant: str
    stability: float | None = None
    energy_rank: tuple[int, int] | None = None
    impact_rank: tuple[int, int] | None = None
    invalid: bool = False


@dataclass(frozen=True)
class Correlation:
    """One coefficient with its bootstrap interval and permutation p-value; None with ``reason`` where unknown.

    Where several kinds are pooled there is no p-value: points of one kind are not independent.
    """

    x: str
    y: str
    method: str
    n: int
    value: Interval | None
    p_value: float | None
    reason: str | None

    @property
    def shown(self) -> bool:
        """Whether the interval excludes zero."""
        return self.value is not None and self.value.excludes(0.0)


@dataclass(frozen=True)
class CorrelationData:
    """What the correlation section shows; ``left_out`` points lack a value.

    ``unrelated`` says why the points have no correlation at all; empty where they have one.
    """

    impact: str
    points: list[Point]
    correlations: list[Correlation]
    energy_threshold_mj: float | None
    impact_threshold: float | None
    rule: str
    quadrants: dict[str, list[Point]]
    findings: list[str]
    left_out: int
    advice: Panel | None = None
    panels: Sequence[Panel] = ()
    matrix: Matrix | None = None
    unrelated: str = ""

    @property
    def chosen(self) -> list[Correlation]:
        """The correlations with the impact that the points show; none where none is known."""
        return _some_known([item for item in self.correlations if item.y == self.impact])

    @property
    def others(self) -> list[Correlation]:
        """The correlations with other impacts; none where none is known."""
        return _some_known([item for item in self.correlations if item.y != self.impact])


def correlation_data(document: Mapping[str, Any], invalid: Collection[str] = ()) -> CorrelationData:
    """Gather the correlation section from correlation.json; ``invalid`` names components below grade C."""
    entries = list(document.get("points") or [])
    points = [point for entry in entries if (point := _point(entry, invalid)) is not None]
    limits = document.get("quadrants") or {}
    pooled = _pooled(entries)
    correlations = [_correlation(entry, pooled=pooled) for entry in document.get("correlations") or []]
    impact = str(document.get("impact") or "impact")
    unrelated = str(document.get("unrelated") or "") or _unrelated(correlations, impact, len(invalid))
    quadrants: dict[str, list[Point]] = {}
    for point in sorted(points, key=lambda point: -point.energy.value):
        quadrants.setdefault(point.quadrant, []).append(point)
    return CorrelationData(
        impact=impact,
        points=points,
        correlations=correlations,
        energy_threshold_mj=finite(limits.get("energy_threshold_mj")),
        impact_threshold=finite(limits.get("impact_threshold")),
        rule=str(limits.get("rule") or ""),
        quadrants=dict(sorted(quadrants.items(), key=lambda item: (item[0] == UNDECIDED, item[0]))),
        findings=_findings(document, unrelated, len(entries), pooled=pooled),
        left_out=len(entries) - len(points),
        advice=advice_panel(document),
        panels=panels(document, related=not unrelated),
        matrix=matrix_data(document),
        unrelated=unrelated,
    )


def _some_known(items: list[Correlation]) -> list[Correlation]:
    return items if any(item.value is not None for item in items) else []


def _unrelated(correlations: Sequence[Correlation], impact: str, invalid: int) -> str:
    """Say of an older document why its points have no correlation; empty where one is known."""
    chosen = [item for item in correlations if item.y == impact]
    if not chosen or _some_known(chosen):
        return ""
    below = f" ({text.count(invalid, 'component')} of this run below grade C, not compared)" if invalid else ""
    return f"Energy cannot be related to {impact}: {chosen[0].reason or 'no reason was noted'}{below}."


def _pooled(entries: Sequence[Mapping[str, Any]]) -> bool:
    """Tell whether points of several kinds were correlated together, which leaves no p-value."""
    return clusters_of([str(entry.get("kind")) for entry in entries]) is not None


def _findings(document: Mapping[str, Any], unrelated: str, compared: int, *, pooled: bool) -> list[str]:
    """Return the findings; those of an older document that only repeat that points are too few as one.

    An older document does not say of which components one has the highest impact, and it has p-values where
    kinds are pooled, which are not shown.
    """
    said = [_limited(str(sentence), compared) for sentence in document.get("findings") or []]
    said = [_POOLED_P.sub(_UNTESTED, sentence) for sentence in said] if pooled else said
    if not unrelated or unrelated in said:
        return said
    again = [index for index, sentence in enumerate(said) if TOO_FEW in sentence]
    return [unrelated if index in again[:1] else sentence
            for index, sentence in enumerate(said) if index not in again[1:]]  # fmt: skip


def _limited(sentence: str, compared: int) -> str:
    """Say of how many components one has the highest impact, where a sentence does not."""
    if not compared or not _EXTREME.match(sentence):
        return sentence
    return f"Of the {text.count(compared, 'component')} {COMPARED}, w{sentence[1:]}"


def _point(entry: Mapping[str, Any], invalid: Collection[str]) -> Point | None:
    energy = interval(entry.get("energy_mj"), entry.get("energy_ci_low_mj"), entry.get("energy_ci_high_mj"))
    impact = interval(entry.get("impact"), entry.get("impact_ci_low"), entry.get("impact_ci_high"))
    if energy is None or impact is None:
        return None
    layer = finite(entry.get("layer"))
    return Point(
        component=str(entry.get("component")),
        kind=str(entry.get("kind")),
        layer=None if layer is None else int(layer),
        energy=energy,
        impact=impact,
        quadrant=str(entry.get("quadrant") or UNDECIDED),
        stability=finite(entry.get("stability")),
        energy_rank=_ranks(entry, "energy"),
        impact_rank=_ranks(entry, "impact"),
        invalid=str(entry.get("component")) in invalid,
    )


def _ranks(entry: Mapping[str, Any], axis: str) -> tuple[int, int] | None:
    low, high = (finite(entry.get(f"{axis}_rank_{end}")) for end in ("low", "high"))
    return None if low is None or high is None else (int(low), int(high))


def rank_text(ranks: tuple[int, int] | None) -> str:
    """Write an interval of ranks."""
    if ranks is None:
        return text.UNKNOWN
    return f"{ranks[0]}" if ranks[0] == ranks[1] else f"{ranks[0]} to {ranks[1]}"


def _correlation(entry: Mapping[str, Any], *, pooled: bool) -> Correlation:
    return Correlation(
        x=str(entry.get("x")),
        y=str(entry.get("y")),
        method=str(entry.get("method")),
        n=int(finite(entry.get("n")) or 0),
        value=interval(entry.get("value"), entry.get("ci_low"), entry.get("ci_high")),
        p_value=None if pooled else finite(entry.get("p_value")),
        reason=str(entry["reason"]) if entry.get("reason") else None,
    )


def impact_title(name: str) -> str:
    """Return the title of a ``method:metric`` column, such as ``zero:kl``."""
    method, _, metric = name.partition(":")
    return f"{metric_title(metric)}, {method_title(method)}" if metric else name


def column_title(name: str) -> str:
    """Return the title of a correlated column."""
    known = {
        "energy_mj": "energy",
        "static_mj": "static energy",
        "dynamic_mj": "dynamic energy",
        "time_us": "time",
    }
    return known.get(name) or impact_title(name)


def coefficient_text(item: Correlation) -> str:
    """Write a coefficient with its interval, or why there is none."""
    return coefficient(item.value, item.reason)
