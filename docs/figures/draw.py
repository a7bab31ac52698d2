# ruff: noqa: INP001
"""Draw the figures of docs/method.md from runs in reports/: `python docs/figures/draw.py` renews the SVG files.

Text stays text, and colours follow the reader's light or dark mode.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

import energyscope
from energyscope.metering.recorded import RecordedMeter
from energyscope.metering.ticks import Calls, fit_grid
from energyscope.metering.window import estimate_window
from energyscope.reporting.charts.theme import KINDS
from energyscope.runs.store import read_journal
from energyscope.runs.tree import Node, energy_tree, sum_energy
from energyscope.runs.windows import windows_of

Array = npt.NDArray[np.float64]

FOLDER = Path(__file__).parent
REPORTS = FOLDER.parent.parent / "reports"
WINDOW = (REPORTS / "gpt2-small-h100", "prefill/node:model#9")
PARTS = REPORTS / "llama-1b-width-h100"
WIDTH, LEFT, RIGHT = 760, 70, 740
OVERHEAD, UNEXPLAINED = KINDS["overhead"], "#b5498f"
STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #1d2733 } .faint { fill: #566370 }
  .middle { text-anchor: middle } .end { text-anchor: end }
  .paper { fill: #ffffff } .line { stroke: #1d2733 } .gap { stroke: #ffffff } .pale { fill: #c3cad1 }
  .used { fill: #2a9d8f } .whole { fill: #7b8794 } .zoom { fill: #7b8794; opacity: 0.2 }
  text.on { fill: #10151a }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6ebf0 } .faint { fill: #a3afbb } .paper { fill: #14181d } .line { stroke: #e6ebf0 }
    .gap { stroke: #14181d } .pale { fill: #93a1ad }
  }
"""


def svg(height: int, label: str, pieces: Sequence[str]) -> str:
    """Return a drawing on its own paper, which is readable wherever it is shown."""
    size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    paper = f'<rect class="paper" width="{WIDTH}" height="{height}" rx="6"/>'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{label}">'
    return "\n".join((head, f"<style>{STYLE}</style>", paper, *pieces, "</svg>", ""))


def text(x: float, y: float, words: str, kind: str = "") -> str:
    """Return words that begin at a place, or with the class `middle` lie around it."""
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}">{words}</text>'


def box(x: float, y: float, width: float, height: float, kind: str) -> str:
    """Return a rectangle in a class's colour, or in one that is given as `#rrggbb`."""
    look = f'fill="{kind}"' if kind.startswith("#") else f'class="{kind}"'
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" {look}/>'


def line(x: float, y: float, x2: float, y2: float, kind: str = "line") -> str:
    """Return a straight line."""
    return f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'


def bracket(begin: float, end: float, y: float, words: str, kind: str = "") -> list[str]:
    """Return a span below the drawing, with its words under it."""
    ends = [line(x, y - 4, x, y + 4) for x in (begin, end)]
    return [line(begin, y, end, y), *ends, text(begin, y + 18, words, kind)]


def window() -> str:
    """Return one window of replay on the clock, and what the run made of it."""
    run, name = WINDOW
    origin_s = energyscope.load_run(run).document["trace_origin_s"]
    row = windows_of(read_journal(run))[name]
    begin_s, end_s = row["begin_s"] - origin_s, row["end_s"] - origin_s
    near = RecordedMeter.from_csv(run / "power_trace.csv").ticks(begin_s - 3, end_s + 0.25)
    plain = estimate_window(near, Calls(np.array([begin_s, end_s]), np.array([0.0, row["calls"]]))).naive_mj
    times_s = fit_grid(near).time_s
    power_w = np.diff(near.energy_mj) / 1e3 / np.diff(times_s)
    shown = slice(int(np.searchsorted(times_s, begin_s)) - 2, int(np.searchsorted(times_s, end_s)) + 2)
    length = (end_s - begin_s) * 1e3
    return svg(344, f"A window of {row['calls']} calls and the ticks of the counter", [
        *_calls(row["calls"], length),
        *_ticks((times_s[shown] - begin_s) * 1e3, power_w[shown], length, (row["energy_mj"], plain)),
    ])  # fmt: skip


def _at(milliseconds: float) -> float:
    return LEFT + 0.93 * (milliseconds + 160)


def _calls(number: int, length: float) -> list[str]:
    """Return a bar of calls, each a piece of it."""
    edges = np.linspace(0, length, number + 1)[1:-1]
    bar = box(_at(0), 34, _at(length) - _at(0), 18, "whole")
    return [
        text(8, 48, "calls"), bar, *(line(_at(edge), 34, _at(edge), 52, "gap") for edge in edges),
        text(_at(0), 26, f"{number} calls of the whole model in {length:.0f} ms"),
    ]  # fmt: skip


def _ticks(times: Array, power_w: Array, length: float, energies_mj: tuple[float, float]) -> list[str]:
    """Return mean power between ticks as bars; below them the used and dropped spans and a plain difference."""
    base, scale = 220, 0.24
    inside = [index for index, time in enumerate(times) if 0 < time <= length]
    first, used, last = inside[0], inside[1], inside[-1]
    drawn = [text(8, 140, "power"), text(8, 156, "(W)", "faint"), text(8, 238, "ticks")]
    for index, (begin, end) in enumerate(pairwise(times)):
        height, kind = scale * power_w[index], "used" if used <= index < last else "pale"
        drawn += [
            box(_at(begin) + 1, base - height, _at(end) - _at(begin) - 2, height, kind),
            text(_at((begin + end) / 2), base - height + 16, f"{power_w[index]:.0f}", "middle on"),
        ]
    drawn += [line(_at(time), base, _at(time), base + 10) for time in times]
    names = {first: "T1", used: "T2", last: f"T{len(inside)}"}
    drawn += [text(_at(times[index]), base + 24, name, "middle") for index, name in names.items()]
    taken = f"{energies_mj[0]:,.0f} mJ a call: rise / calls, both between T2 and {names[last]}"
    plain = f"{energies_mj[1]:,.0f} mJ a call: rise / calls, both between begin and end of the calls"
    return [
        *drawn,
        *bracket(_at(times[used]), _at(times[last]), base + 42, taken),
        *bracket(_at(times[first]), _at(times[used]), base + 42, "dropped", "faint"),
        *bracket(_at(0), _at(length), base + 88, plain, "faint"),
    ]


def parts() -> str:
    """Return a model as its parts, overhead and what is unexplained, and below it a layer likewise."""
    root = energy_tree(energyscope.load_run(PARTS).energy).root
    layers = [child for child in root.children if child.level == "layer"]
    others = [child for child in root.children if child.level != "layer"]
    attention, mlp, *norms = layers[0].children
    scale = (RIGHT - LEFT) / root.energy.value
    model = _row(root, 92, scale, [
        *((f"layer {layer.layer}", KINDS["layer"], [layer]) for layer in layers),
        ("embedding, last norm, LM head", KINDS["lm_head"], others),
    ], words_at=84)  # fmt: skip
    zoom = f"{LEFT},132 {LEFT + scale * layers[0].energy.value:.1f},132 {RIGHT},196 {LEFT},196"
    layer = _row(layers[0], 196, (RIGHT - LEFT) / layers[0].energy.value, [
        ("attention", KINDS["attention"], [attention]), ("MLP", KINDS["mlp"], [mlp]),
        ("norms", KINDS["norm"], norms),
    ], words_at=254)  # fmt: skip
    whole = [
        text(8, 42, "whole"), box(LEFT, 24, RIGHT - LEFT, 28, "whole"),
        text((LEFT + RIGHT) / 2, 43, f"model: {root.energy.value:.1f} mJ a generated token", "middle on"),
    ]  # fmt: skip
    shape = f'<polygon points="{zoom}" class="zoom"/>'
    label = "A model as parts, overhead and what is unexplained, and its first layer likewise"
    return svg(262, label, [*whole, text(8, 117, "parts"), shape, *model, text(8, 221, "layer 0"), *layer])


def _row(
    node: Node, y: float, scale: float, pieces: Sequence[tuple[str, str, Sequence[Node]]], words_at: float
) -> list[str]:
    """Return a whole as a bar of its pieces, each of some children; the names of small ones are at a height."""
    named = [(name, colour, sum_energy(nodes).value) for name, colour, nodes in pieces]
    named += [("overhead", OVERHEAD, node.glue.value), ("unexplained", UNEXPLAINED, node.unexplained.value)]
    drawn, x = [], float(LEFT)
    for name, colour, energy in named:
        width = scale * energy
        drawn.append(box(x, y, max(width - 1, 0.5), 40, colour))
        if width > 90:
            drawn.append(text(x + width / 2, y + 25, f"{name} {energy:.1f}", "middle on"))
        x += width
    small = [
        f'<tspan fill="{colour}">\u25a0</tspan> {name} {energy:.1f}'
        for name, colour, energy in named if scale * energy <= 90
    ]  # fmt: skip
    words = "&#160;&#160; ".join(small)
    return [*drawn, f'<text x="{RIGHT}" y="{words_at}" class="end">{words}</text>']


if __name__ == "__main__":
    (FOLDER / "window.svg").write_text(window(), encoding="utf-8")
    (FOLDER / "parts.svg").write_text(parts(), encoding="utf-8")
