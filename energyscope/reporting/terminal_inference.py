"""A whole inference for the terminal: its moments, a generation's phases and rates, and what to change."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from energyscope.advising.said import MODELLED
from energyscope.reporting import text
from energyscope.reporting.data import ReportData
from energyscope.reporting.data.choices import ChoicesData
from energyscope.reporting.data.generation import GenerationData
from energyscope.reporting.data.generation_words import (
    DASH,
    US_PER_S,
    agreement_sentence,
    loop_sentence,
    rates,
    share_of,
)
from energyscope.reporting.data.headline import Metric
from energyscope.reporting.data.headline_scenes import HEADLINE_RATES
from energyscope.reporting.data.phases import PhaseRow
from energyscope.reporting.data.scenes import MIDDLE, MODEL_ONLY, SceneData
from energyscope.runs.intervals import Interval

MOST_ADVICE = 6


def inference_summary(data: ReportData) -> list[RenderableType]:
    """Return the moments, the generation and the advice, those that there are."""
    found: list[RenderableType] = []
    if len(data.scenes) > 1:
        found.append(scenes_table(data.scenes))
    if data.generation is not None:
        found += _generation(data.generation)
    return found


def growth_sentences(data: ReportData) -> list[RenderableType]:
    """Say what the context adds to a decode step, and what its cache does."""
    if data.growth is None:
        return []
    said = [*data.growth.said, *([data.growth.cache] if data.growth.cache else [])]
    return [Text(f"- {sentence}") for sentence in said]


def scenes_table(scenes: Sequence[SceneData]) -> Table:
    """Return a line for each moment: energy of a pass or step and of a token, time, power and closure."""
    energy = "MODELLED energy" if scenes[0].modelled else "energy"
    table = _table("By moment of the inference (prefill: a pass, decode: a step)")
    table.add_column("moment", overflow="fold", max_width=24)
    for name in (f"{energy}\n[95 %]", "per token", "time\npower", "closure\n[95 %]"):
        table.add_column(name, justify="right", no_wrap=True)
    for scene in scenes:
        middle = f"\n{MIDDLE}" if scene.middle else ""
        table.add_row(
            Text.assemble(scene.short, (middle, "dim")),
            _stacked(scene.energy.model, "mJ"),
            text.quantity(scene.per_token.value, "mJ") if scene.per_token else DASH,
            f"{text.quantity(scene.time_us.value if scene.time_us else None, 'us')}\n"
            f"{text.quantity(scene.power_w, 'W')}",
            _closure(scene),
        )
    return table


def _closure(scene: SceneData) -> str:
    if scene.closure is None:
        return DASH if scene.detailed else MODEL_ONLY
    return text.percent_with_limits(scene.closure.energy).replace(" [", "\n[")


def _generation(data: GenerationData) -> list[RenderableType]:
    found: list[RenderableType] = [_phases(data)]
    others = [rate for rate in rates(data) if rate.label not in HEADLINE_RATES]  # those stand at the top
    found.append(Text("- " + "; ".join(_rate(rate) for rate in others) + "."))
    found.append(Text(f"- {loop_sentence(data)}", style="dim"))
    if data.agreement is None and data.loop.energy is not None:
        found.append(Text(f"- {data.disagreement}", style="dim"))
    for one in (data.agreement, data.prefill_agreement):
        if one is not None:
            style = "yellow" if one.verdict == "disagree" else ""
            found.append(Text(f"- {agreement_sentence(one)}", style=style))
    return found


def _rate(rate: Metric) -> str:
    limits = rate.detail.removeprefix("95 % interval ")
    return " ".join(part for part in (f"{rate.label}: {rate.value}", limits) if part)


def _phases(data: GenerationData) -> Table:
    energy = "MODELLED energy" if data.modelled else "energy"
    table = _table(f"A whole generation ({data.new_tokens} tokens from {data.prompt_tokens})")
    table.add_column("phase")
    for name in ("time\npower", f"{energy}\n[95 %]", "share", "per token\n[95 %]"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("how", overflow="fold")
    for row in data.phases:
        table.add_row(*_phase(row, data))
    if data.total is not None:
        table.add_section()
        table.add_row(*_phase(data.total, data))
    return table


def _phase(row: PhaseRow, data: GenerationData) -> list[RenderableType]:
    return [
        Text(row.phase),
        (text.quantity(row.seconds.scaled(US_PER_S).value, "us") if row.seconds else DASH)
        + (f"\n{text.quantity(row.power_w.value, 'W')}" if row.power_w else ""),
        _stacked(row.energy, "mJ"),
        share_of(row, data),
        _stacked(row.per_token, "mJ"),
        Text(row.reason or row.method or "not told", style="dim"),
    ]


def advice_lines(data: ChoicesData | None) -> list[RenderableType]:
    """Return what to change, the surest and largest savings first."""
    if data is None:
        return []
    first = data.advice[:MOST_ADVICE]
    lines = [Text(f"- {said.sentence}", style="" if said.confident else "dim") for said in first]
    more = len(data.advice) - len(lines)
    return [
        Text("What to change", style="bold"),
        *([Text(MODELLED.strip())] if data.modelled and lines else []),
        *(lines or [Text("- Nothing that was tried can be told to save energy.", style="dim")]),
        *([Text(f"  and {more} more in the report", style="dim")] if more > 0 else []),
    ]


def _stacked(item: Interval | None, unit: str) -> str:
    """Return a value with its limits below it."""
    if item is None:
        return DASH
    return text.quantity(item.value, unit) + (f"\n{text.limits(item, unit)}" if item.known else "")


def _table(title: str) -> Table:
    return Table(title=Text(title), title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
