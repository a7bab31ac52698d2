"""A section on energy for a model card of the Hugging Face hub: Markdown, without front matter."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from energyscope import format as fmt
from energyscope.exporting import nothing
from energyscope.exporting.figures import figures_of
from energyscope.intervals import finite
from energyscope.reporting.terminal_text import printable

if TYPE_CHECKING:
    from energyscope.runs.store import Run
    from energyscope.serving.run import ServingRun

MARKUP = re.compile(r"([!-&*+/:-@\[-`{-~])")  # punctuation of ASCII, less '(),-.


def content(run: Run | ServingRun) -> tuple[str, list[str]]:
    """Return the section; there is nothing to say about it.

    Raises:
        RunError: the run has no joules.

    """
    figures = [figure for figure in figures_of(run) if figure.title]
    if not figures:
        raise nothing(run, "energy of a token or an inference")
    rows = []
    for figure in figures:
        value, limits = fmt.value_and_interval(figure.item, figure.unit)
        cells = (figure.title, value, limits or fmt.UNKNOWN, fmt.grade(figure.quality or fmt.UNKNOWN))
        rows.append(f"| {' | '.join(map(_escaped, cells))} |")
    energy = "Energy (MODELLED)" if run.modelled else "Energy"
    lines = [
        "## Energy",
        "",
        _subject(run),
        "",
        f"| | {energy} | 95 % interval | Grade |",
        "|---|---|---|---|",
        *rows,
    ]
    return "\n".join([*lines, "", *_method(run)]) + "\n", []


def _subject(run: Run | ServingRun) -> str:
    """Return what was measured on what, names as code."""
    document = run.document
    model, device, settings = (document.get(name) or {} for name in ("model", "device", "settings"))
    facts = [
        ("Model", model.get("name")),
        ("weights", model.get("weights")),
        ("precision", model.get("precision") or settings.get("precision")),
        ("execution", settings.get("execution")),
        ("device", device.get("name")),
        ("driver", device.get("driver")),
        ("energyscope", document.get("energyscope")),
    ]
    watts = finite(device.get("power_limit_w"))
    limit = [f"power limit {watts:g} W"] if watts else []
    return f"{', '.join([*(f'{name} {_code(value)}' for name, value in facts if value), *limit])}."


def _method(run: Run | ServingRun) -> Iterator[str]:
    document = run.document
    sensor: dict[str, Any] = document.get("sensor") or {}
    if run.modelled:
        watts = finite(sensor.get("watts"))
        stated = f"{watts:g} W" if watts else "stated watts"
        yield f"**MODELLED**: joules are time x {stated}, and say no more than time does."
    else:
        on_cpu = (document.get("device") or {}).get("type") == "cpu"
        boards = "" if on_cpu else " (about 5 % on a board), and boards of one type differ by several percent"
        yield (
            f"Method: energy of the whole {'processor' if on_cpu else 'board'} (meter "
            f"{_code(sensor.get('meter') or 'unknown')}) between ticks of its counter, divided by the calls "
            f"between the same ticks. The calibration of the sensor is in no interval{boards}."
        )
    grades = "A: half-width of the interval at most 1 %; B: 3 %; C: 10 %; worse, or disturbed: too noisy."
    yield f"\nGrades: {grades}"
    if command := document.get("command"):
        yield f"\nTo repeat it, `pip install energyscope-llm`, then:\n\n    {printable(command)}"


def _escaped(text: object) -> str:
    return MARKUP.sub(r"\\\1", printable(text))


def _code(text: object) -> str:
    """Return a text as code, between more backquotes than it holds in a row."""
    inner = printable(text)
    fence = "`" * (1 + max(map(len, re.findall("`+", inner)), default=0))
    return f"{fence} {inner} {fence}" if len(fence) > 1 else f"{fence}{inner}{fence}"
