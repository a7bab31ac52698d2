"""The charts of a whole generation: power over time, energy per token, and a step beside its parts."""

from __future__ import annotations

from energyscope.reporting import text
from energyscope.reporting.charts import generation as charts
from energyscope.reporting.charts.flow import sankey
from energyscope.reporting.data.agreement import Agreement
from energyscope.reporting.data.flow import FlowNode
from energyscope.reporting.data.generation import GenerationData
from energyscope.reporting.data.generation_flow import GENERATION
from energyscope.reporting.data.generation_words import agreement_sentence, flow_caption, trend_sentence
from energyscope.reporting.data.power_trace import PowerTrace, close_up
from energyscope.reporting.figure import Figure, Table
from energyscope.reporting.tree_figures import flow_notes, flow_table

SECTION = "generation"
BETWEEN = "Between generations the model's step in their middle was replayed by itself."


def generation_figures(data: GenerationData | None) -> list[Figure]:
    """Draw what there is of a generation."""
    if data is None:
        return []
    word = "Modelled energy" if data.modelled else "Energy"
    found = [_flow(data, data.flow, word)] if data.flow is not None else []
    if data.trace is not None:
        between = BETWEEN if data.step_windows else ""
        found.append(_power("generation-power-trace", "Power over the traced generations", data.trace, between))
        near = close_up(data.trace)
        if near is not None:
            found.append(_power("generation-power-close", "The same, closer", near, between))
    if data.shown_steps:
        found.append(_tokens(data, word))
    if data.agreement is not None:
        found.append(_parts(data.agreement, word))
    return found


def _flow(data: GenerationData, root: FlowNode, word: str) -> Figure:
    phases = ", ".join(f"{node.kind} {text.quantity(node.energy.value, 'mJ')}" for node in root.children)
    summary = f"{word} flow from the generation ({text.quantity(root.energy.value, 'mJ')}) to {phases}"
    return Figure(
        name="generation-flow",
        section=SECTION,
        title=f"{word} flow of a generation",
        caption=flow_caption(data, root),
        summary=summary,
        chart=sankey(root, summary),
        table=flow_table(root, GENERATION),
        notes=flow_notes(root),
    )


def _power(name: str, title: str, trace: PowerTrace, between: str) -> Figure:
    highest = max(point.power_w for point in trace.points)
    lowest = min(point.power_w for point in trace.points)
    generations = text.count(trace.generations, "generation")
    summary = (
        f"Power over {text.number(trace.end_s - trace.begin_s)} s with {generations}, from "
        f"{text.number(lowest)} W to {text.number(highest)} W"
    )
    rows = [
        [device, f"{point.begin_s:.3f}", f"{point.end_s:.3f}", text.number(point.power_w)]
        for device in trace.devices
        for point in trace.points
        if point.device == device
    ]
    several = " Each line is a device." if len(trace.devices) > 1 else ""
    tokens = " The short strokes below are tokens." if 0 < len(trace.tokens_s) <= charts.MOST_TOKENS else ""
    return Figure(
        name=name,
        section=SECTION,
        title=title,
        caption="Mean power between ticks of the energy counter, which are longer than a token and often longer "
        f"than a prefill: what a phase takes is in the table, not in the height of a step here.{several}{tokens}"
        f"{' ' if between else ''}{between}",
        summary=summary,
        chart=charts.power_trace(trace, summary),
        table=Table(["device", "from (s)", "to (s)", "power (W)"], rows),
    )


def _tokens(data: GenerationData, word: str) -> Figure:
    rows = [
        [f"{row.first} to {row.last}", text.with_limits(row.energy, "mJ"),
         text.with_limits(row.seconds.scaled(1e6) if row.seconds else None, "us"),
         text.with_limits(row.power_w, "W")]
        for row in data.steps
    ]  # fmt: skip
    said = trend_sentence(data) or f"{word} of the steps of a generation."
    missing = len(data.steps) - len(data.shown_steps)
    left = f" {text.count(missing, 'group')} of steps without a value left out." if missing else ""
    batch = f", for the whole batch of {data.batch_size}" if (data.batch_size or 1) > 1 else ""
    return Figure(
        name="energy-per-token",
        section=SECTION,
        title=f"{word} of each step over the generation",
        caption="Step 1 makes the second token; a step is one token"
        f"{' of each sequence' if batch else ''}{batch}. The line is the mean of a group of steps, the band its "
        f"95 % interval.{left}",
        summary=said,
        chart=charts.token_energy(data.steps, said, word),
        table=Table(["steps", "energy of each [95 %]", "time", "power"], rows),
    )


def _parts(found: Agreement, word: str) -> Figure:
    said = agreement_sentence(found)
    rows = [
        ["model forward", text.with_limits(found.model, "mJ")],
        ["generate's loop", text.with_limits(found.loop, "mJ")],
        ["both", text.with_limits(found.parts, "mJ")],
        ["traced step", text.with_limits(found.traced, "mJ")],
    ]
    return Figure(
        name="generation-parts",
        section=SECTION,
        title=f"{word} of a step, from its parts and as traced",
        caption=f"The model's pass was measured by itself ({found.scene}), the loop with that pass bypassed; the "
        "traced step is the decode phase over its steps. Lines are 95 % intervals.",
        summary=said,
        chart=charts.step_parts(found, said, word),
        table=Table(["part", "energy per step [95 %]"], rows),
    )
