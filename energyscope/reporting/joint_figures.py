"""The figures on joint removals: kinds in all layers, and pairs of layers."""

from __future__ import annotations

from energyscope.relating.joint import METRIC, MORE
from energyscope.reporting import text
from energyscope.reporting.charts import joint
from energyscope.reporting.data.impact_words import limited_text, method_title
from energyscope.reporting.data.joint import JointData
from energyscope.reporting.figure import Figure, Table

SECTION = "together"
CAUTION = "KL divergences need not add up (they saturate): read the direction, not the size."


def joint_figures(found: JointData) -> list[Figure]:
    """Draw kinds removed in all layers, and pairs of layers, where the run has any."""
    kinds = [_kinds(found)] if found.kinds else []
    return [*kinds, _pairs(found)] if found.pairs else kinds


def _kinds(found: JointData) -> Figure:
    drawn = [item for item in found.kinds if item.method == found.method]
    more = [item.name for item in drawn if item.verdict == MORE]
    title = method_title(drawn[0].method)
    summary = (
        f"Effect of {title} of each kind in all layers together beside the sum of its single effects; more than "
        f"the sum for {text.listed(more, 6) if more else 'none of them'}"
    )
    rows = [
        [item.name, method_title(item.method), str(len(item.parts)), limited_text(item.effect, METRIC),
         limited_text(item.single, METRIC), item.verdict or item.reason or text.UNKNOWN]
        for item in found.kinds
    ]  # fmt: skip
    return Figure(
        name="impact-together",
        section=SECTION,
        title=f"A kind removed in all layers: {title}",
        caption=f"With 95 % intervals; the sum's adds the single ones without letting errors cancel. {CAUTION}",
        summary=summary,
        chart=joint.kinds(drawn, summary),
        table=Table(
            ["kind", "method", "components", "together, KL", "sum of the single, KL", "together is"], rows
        ),
    )


def _pairs(found: JointData) -> Figure:
    two = [pair for pair in found.pairs if pair.first != pair.second]
    largest = max(two, key=lambda pair: pair.effect.value)
    summary = (
        f"KL divergence when {text.count(len(two), 'pair')} of layers are left out together; the largest is "
        f"{joint.pair_title(largest)} with {limited_text(largest.effect, METRIC)}"
    )
    rows = [
        [joint.pair_title(pair), limited_text(pair.effect, METRIC), limited_text(pair.single, METRIC),
         pair.verdict or text.UNKNOWN]
        for pair in two
    ]  # fmt: skip
    return Figure(
        name="impact-layer-pairs",
        section=SECTION,
        title="Pairs of layers left out",
        caption="On the diagonal a layer left out by itself. A dot marks a pair whose effect lies above the sum "
        f"of the two single effects, intervals included: the two stand in for each other. {CAUTION}",
        summary=summary,
        chart=joint.pairs(found.pairs, summary),
        table=Table(["left out", "together, KL", "sum of the single, KL", "together is"], rows),
    )
