"""The charts of efficiency: tokens per joule, latency and energy-delay product along batch sizes or tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from energyscope.reporting import text
from energyscope.reporting.figure import Figure, Table
from energyscope.reporting.grade_figures import graded
from energyscope.reporting.laws import names
from energyscope.reporting.laws.document import DECODE, Found, item
from energyscope.reporting.laws.plot import Dot, Plot, draw, hollow_said, palette
from energyscope.reporting.laws.weak_cells import invalid_shapes, is_weak
from energyscope.runs.intervals import Interval, finite

_MOST = 6  # lines of a chart
_MODELLED = {"tokens-per-joule": "Tokens per modelled joule", "edp": "Modelled energy-delay product"}
_AXES = {"batch_size": "Batch size", "tokens": "Length (tokens)"}


@dataclass(frozen=True)
class Block:
    """What one phase took along one dimension: its title, sentences, charts and all its numbers."""

    title: str
    said: list[str]
    figures: list[Figure]
    table: Table
    folded: bool = False


@dataclass(frozen=True)
class _Measure:
    name: str
    title: str
    axis: str
    unit: str
    value: Callable[[Found], Interval | None]
    caption: str
    of_energy: bool = True  # a grade says nothing of latency


def _latency(row: Found) -> Interval | None:
    number = finite(row.get("latency_us"))
    return None if number is None else Interval(number)


_MEASURES = (
    _Measure("tokens-per-joule", "Tokens per joule", "Tokens per joule", "",
             lambda row: item(row.get("tokens_per_j")), "More is better. Ringed: the knee, where it can be told."),
    _Measure("latency", "Latency", "Latency of a pass", "us", _latency, "Less is better.", of_energy=False),
    _Measure("edp", "Energy-delay product", "Energy \u00d7 latency (mJ s)", "",
             lambda row: item(row.get("edp_mj_s")),
             "Of a whole pass, so it grows with the work in it; compare lines at one place. Its interval is of "
             "the energy alone: the latency has none here."),
)  # fmt: skip


def efficiency_blocks(document: Found, board_names: Mapping[str, str]) -> list[Block]:
    """Return a block for each phase and dimension; split by group where lines are many."""
    blocks: list[Block] = []
    keys = dict.fromkeys((one.get("phase"), one["along"]) for one in document.get("efficiency") or ())
    for phase, along in keys:
        found = [one for one in document["efficiency"] if (one.get("phase"), one["along"]) == (phase, along)]
        found = [one for one in found if len(one.get("rows") or ()) > 1]
        if not found:
            continue
        labels = names.labels(found, board_names) if names.varying(found) else [""] * len(found)
        parts: dict[str, list[Found]] = {}
        for one, label in zip(found, labels, strict=True):
            parts.setdefault(label if len(found) > _MOST else "", []).append(one)
        for place, (part, items) in enumerate(parts.items()):
            lines = [_line(one, label) for one, label in zip(found, labels, strict=True) if one in items]
            shown = lines if not part else [_line(one, "") for one in items]
            block = _block(document, items, shown, part, len(blocks))
            blocks.append(replace(block, folded=place > 0))
    return blocks


def _line(one: Found, label: str) -> str:
    held = f"batch {one['fixed']:,}" if one["along"] == "tokens" else _fixed(one)
    return ", ".join(part for part in (label, held) if part)


def _fixed(one: Found) -> str:
    of_context = " of context" if one.get("phase") == DECODE else ""
    return f"{text.count(int(one['fixed']), 'token')}{of_context}"


def _block(document: Found, found: Sequence[Found], lines: Sequence[str], part: str, index: int) -> Block:
    along, phase = str(found[0]["along"]), str(found[0].get("phase"))
    over = "batch size" if along == "batch_size" else "context" if phase == DECODE else "length"
    title = f"{phase[:1].upper()}{phase[1:]} by {over}{f': {part}' if part else ''}"
    pairs = list(zip(found, lines, strict=True))
    figures = [
        figure for measure in _MEASURES if (figure := _figure(document, pairs[:_MOST], measure, index, title))
    ]
    said = _said(pairs)
    if len(pairs) > _MOST:
        said.append(f"Charts show the first {_MOST} of {len(pairs)} lines; the table has all.")
    return Block(title, said, figures, _table(pairs, along))


def _said(pairs: Sequence[tuple[Found, str]]) -> list[str]:
    """Say where the knees and the least energy-delay products are, or why that cannot be told, each thing once."""
    knees: dict[str, list[str]] = {}
    least: dict[int, list[str]] = {}
    for one, line in pairs:
        knee = one.get("knee")
        told = names.written(str((knee or {}).get("words") or one.get("reason") or "").rstrip("."))
        if told:
            knees.setdefault(told if knee or "knee" in told.split(",")[0] else f"no knee: {told}", []).append(line)
        if one.get("least_edp") is not None:
            least.setdefault(int(one["least_edp"]), []).append(line)
    many = len(pairs) > 1
    said = [
        f"{_lines(lines)}: {told}." if many else f"{told[:1].upper()}{told[1:]}." for told, lines in knees.items()
    ]
    word = "batch" if pairs[0][0]["along"] == "batch_size" else "length"
    word = "context" if word == "length" and pairs[0][0].get("phase") == DECODE else word
    each = [f"{word} {at:,}{f' ({_lines(lines, start=False)})' if many else ''}" for at, lines in least.items()]
    return [*said, f"Least energy-delay product per token, by its value: {'; '.join(each)}."] if each else said


def _lines(lines: Sequence[str], *, start: bool = True) -> str:
    """List lines; of lengths alone, their unit once."""
    tokens = [line.removesuffix(" tokens") for line in lines]
    lengths = len(lines) > 1 and all(line.replace(",", "").isdigit() for line in tokens)
    said = f"{text.listed(tokens, 8)} tokens" if lengths else "; ".join(lines)
    return said[:1].upper() + said[1:] if start and said.startswith("batch") else said


def _figure(
    document: Found, pairs: Sequence[tuple[Found, str]], measure: _Measure, index: int, block: str
) -> Figure | None:
    along = str(pairs[0][0]["along"])
    known = [
        (one, line, row, value, measure.of_energy and is_weak(row, weak))
        for one, line in pairs
        for weak in [invalid_shapes(document, one)]
        for row in one["rows"]
        if (value := measure.value(row)) and value.value > 0
    ]
    if len({row[along] for _, _, row, _, _ in known}) < 2:
        return None
    divisor, unit = text.scale_of(max(value.value for *_, value, _ in known), measure.unit)
    dots = [
        Dot(line, float(row[along]), value.scaled(1 / divisor), graded(text.with_limits(value, measure.unit), bad),
            names.shape_name(row, one.get("phase")), line, bad)
        for one, line, row, value, bad in known
    ]  # fmt: skip
    marks = _marks(known, divisor) if measure.name == "tokens-per-joule" else []
    title = _MODELLED.get(measure.name, measure.title) if document.get("modelled") else measure.title
    axis = f"{measure.axis} ({unit})" if unit else measure.axis.replace("Tokens per joule", title)
    of_context = "Tokens of context" if pairs[0][0].get("phase") == DECODE else _AXES["tokens"]
    summary = f"{title} along {_AXES[along].lower()}. {block}"
    lines = list(dict.fromkeys(line for _, line in pairs))
    caption = measure.caption if marks or measure.name != "tokens-per-joule" else "More is better."
    return Figure(
        name=f"efficiency-{index}-{measure.name}",
        section=f"efficiency-{index}",
        title=title,
        caption=f"{caption}{hollow_said(dots)}",
        summary=summary,
        chart=draw(
            Plot(
                (_AXES[along] if along == "batch_size" else of_context, axis),
                palette(lines),
                dots,
                x="doublings",
                joined=True,
                marks=marks,
                height=250,
            ),
            summary,
        ),
        table=Table(["of", "at", title.lower()], [[dot.series, dot.at, dot.said] for dot in dots]),
    )


def _marks(
    known: Sequence[tuple[Found, str, Found, Interval, bool]], divisor: float
) -> list[tuple[str, float, float, str]]:
    return [
        (line, float(row[one["along"]]), value.value / divisor, "knee")
        for one, line, row, value, _ in known
        if (one.get("knee") or {}).get(one["along"]) == row[one["along"]]
    ]


def _table(pairs: Sequence[tuple[Found, str]], along: str) -> Table:
    columns = ["batch" if along == "batch_size" else "tokens", "latency", "energy [95 %]", "tokens/J [95 %]",
               "tokens/s", "energy per token [95 %]", "power", "energy-delay [of the energy]"]  # fmt: skip
    several = len(pairs) > 1
    rows = []
    for one, line in pairs:
        for row in one["rows"]:
            rate = finite(row.get("tokens_per_s"))
            cells = [
                f"{row[along]:,}",
                text.quantity(finite(row.get("latency_us")), "us"),
                text.with_limits(item(row.get("energy_mj")), "mJ"),
                text.with_limits(item(row.get("tokens_per_j")), ""),
                text.UNKNOWN if rate is None else text.number(rate),
                text.with_limits(item(row.get("energy_per_token_mj")), "mJ"),
                text.quantity(finite(row.get("power_w")), "W"),
                text.with_limits(item(row.get("edp_mj_s")), "mJ s"),
            ]
            rows.append([line, *cells] if several else cells)
    return Table(["of", *columns] if several else columns, rows)
