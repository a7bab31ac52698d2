"""The charts of sizes: joules per token against parameters, shares of kinds by model, and left-out sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from energyscope.reporting import text
from energyscope.reporting.charts import theme
from energyscope.reporting.charts.benchmark import PLAIN
from energyscope.reporting.figure import Figure, Table
from energyscope.reporting.grade_figures import graded
from energyscope.reporting.laws import names
from energyscope.reporting.laws.document import REMAINDERS, Found, item
from energyscope.reporting.laws.plot import Dot, Plot, draw, hollow_said, palette
from energyscope.reporting.laws.weak_cells import invalid_shapes, is_weak
from energyscope.runs.intervals import Interval

_MOST = 6  # shapes of a chart
_PITCH = 34
_SETTING = ("phase", "precision", "execution", "kv_cache", "board")


_Known = tuple[Found, Found, Interval, bool]  # a shape, a model's row, its value, whether it is below grade C


@dataclass(frozen=True)
class SizeBlock:
    """The models compared under one setting: its title, sentences, charts and all numbers."""

    title: str
    said: list[str]
    figures: list[Figure]
    shares: list[Figure]
    table: Table


def size_blocks(document: Found, board_names: Mapping[str, str]) -> list[SizeBlock]:
    """Return a block for each setting under which several sizes were measured."""
    settings: dict[tuple[str, ...], list[Found]] = {}
    for one in document.get("sizes") or ():
        if one.get("rows"):
            settings.setdefault(tuple(str(one.get(name)) for name in _SETTING), []).append(one)
    firsts = [group[0] for group in settings.values()]
    labels = names.labels(firsts, board_names)
    return [
        _block(document, group, label, index)
        for index, (group, label) in enumerate(zip(settings.values(), labels, strict=True))
    ]


def _block(document: Found, found: Sequence[Found], label: str, index: int) -> SizeBlock:
    ordered = sorted(found, key=lambda one: (one["batch_size"] * one["tokens"], one["batch_size"]))
    shares = [_shares(document, one, f"{index}-{place}") for place, one in enumerate(_ends(ordered))]
    told = [figure for figure in shares if figure]
    return SizeBlock(label, _said(document, ordered), _lines(document, ordered, index), told, _table(ordered))


def _said(document: Found, found: Sequence[Found]) -> list[str]:
    """Say by which power of the parameters the joules per token grow, or why that cannot be told."""
    said = []
    for one in _ends(found):
        exponent, shape = item(one.get("exponent")), names.shape_name(one, one.get("phase"))
        if exponent:
            grows = text.with_limits(exponent, "")
            said.append(
                f"At {shape}, {names.joules(document)} per token grow as parameters to the power of {grows}."
            )
        elif one.get("reason"):
            said.append(f"At {shape} no exponent: {one['reason']}.")
    return said


def _ends(found: Sequence[Found]) -> list[Found]:
    """Return the entry of the least work and that of the most."""
    return [found[0], found[-1]] if len(found) > 1 else list(found)


_QUANTITIES = (
    ("energy_per_token_mj", "per token", "mJ", "Per token read or made. Both axes logarithmic."),
    ("pj_per_parameter_token", "per parameter and token", "pJ/parameter",
     "Level where joules grow as the parameters do."),
    ("pj_per_flop", "per FLOP", "pJ/FLOP", "All of a pass's energy over its FLOPs."),
)  # fmt: skip


def _lines(document: Found, found: Sequence[Found], index: int) -> list[Figure]:
    """Return the charts of energy per token, parameter and FLOP against parameters, a line for each shape."""
    word = names.energy_word(document)
    shown = _spread(found)
    weak = [_weak_models(document, one) for one in shown]
    figures = []
    for key, per, unit, caption in _QUANTITIES:
        known = [
            (one, row, value, row["model"] in bad)
            for one, bad in zip(shown, weak, strict=True)
            for row in one["rows"]
            if (value := item(row.get(key))) and value.value > 0 and row.get("parameters")
        ]
        if len({row["model"] for _, row, _, _ in known}) < 2:
            continue
        divisor, name = text.scale_of(max(value.value for *_, value, _ in known), unit)
        dots = [
            Dot(_shape(one), row["parameters"] / 1e9, value.scaled(1 / divisor),
                graded(text.with_limits(value, unit), bad), f"{row['model']}, {_shape(one)}", _shape(one), bad)
            for one, row, value, bad in known
        ]  # fmt: skip
        summary = f"{word} {per} against the number of parameters"
        figures.append(
            Figure(
                name=f"sizes-{index}-{key.replace('_', '-')}",
                section=f"sizes-{index}",
                title=f"{word} {per}",
                caption=f"{caption} 95 % intervals.{hollow_said(dots)}",
                summary=summary,
                chart=draw(
                    Plot(
                        ("Parameters (billions)", f"{word} {per} ({name})"),
                        palette([_shape(one) for one in shown]),
                        dots,
                        joined=True,
                        names=_names(dots, known),
                        x="places",
                        height=270,
                    ),
                    summary,
                ),
                table=Table(["model and shape", f"{word.lower()} {per}"], [[dot.at, dot.said] for dot in dots]),
            )
        )
    return figures


def _weak_models(document: Found, one: Found) -> set[object]:
    """Return the models of a shape whose whole is below grade C."""
    models = dict.fromkeys(row["model"] for row in one["rows"])
    return {model for model in models if is_weak(one, invalid_shapes(document, {**one, "model": model}))}


def _spread(found: Sequence[Found]) -> list[Found]:
    """Return at most six entries, the first and the last among them."""
    if len(found) <= _MOST:
        return list(found)
    return [found[round(place * (len(found) - 1) / (_MOST - 1))] for place in range(_MOST)]


def _shape(one: Found) -> str:
    return names.shape_name(one, one.get("phase"))


def _names(dots: Sequence[Dot], known: Sequence[_Known]) -> list[tuple[float, float, str]]:
    """Return each model's name above its highest point."""
    found: dict[str, tuple[float, float, str]] = {}
    for dot, (_, row, *_) in zip(dots, known, strict=True):
        model, high = str(row["model"]), max(dot.y.value, dot.y.high or 0.0)
        if model not in found or high > found[model][1]:
            found[model] = (dot.x, high, model)
    return list(found.values())


def _shares(document: Found, one: Found, place: str) -> Figure | None:
    """Stack the shares of kinds in each model, as they are: what they do not reach or exceed stays visible."""
    word, shape = names.energy_word(document), _shape(one)
    kinds = _kinds(one["rows"])
    records, rows = [], []
    for row in one["rows"]:
        shares = {kind: share for kind in kinds if (share := item((row.get("shares") or {}).get(kind)))}
        if not shares:
            continue
        rows.append([str(row["model"]), *(text.percent_with_limits(shares.get(kind)) for kind in kinds)])
        records += [
            {"model": str(row["model"]), "kind": names.subject_name(kind), "share": share.value * 100,
             "order": kinds.index(kind), "said": text.percent_with_limits(share)}
            for kind, share in shares.items()
        ]  # fmt: skip
    if not records:
        return None
    summary = f"Shares of kinds in the whole model's {word.lower()} by model, at {shape}"
    return Figure(
        name=f"sizes-{place}-shares",
        section=f"sizes-{place.partition('-')[0]}",
        title=f"Where it goes, at {shape}",
        caption="Shares of each model's measured whole, smallest model on top; nothing is made to add up to "
        "100 %: what is unexplained stands beside the rest, left of 0 where it is negative.",
        summary=summary,
        chart=_stacked(records, [names.subject_name(kind) for kind in kinds], kinds, summary),
        table=Table(["model", *(names.subject_name(kind) for kind in kinds)], rows),
    )


def _kinds(rows: Sequence[Found]) -> list[str]:
    """Return the kinds by their largest share, what no component is last."""
    largest: dict[str, float] = {}
    for row in rows:
        for kind, share in (row.get("shares") or {}).items():
            known = item(share)
            if known:
                largest[kind] = max(known.value, largest.get(kind, 0.0))
    parts = sorted((kind for kind in largest if kind not in REMAINDERS), key=lambda kind: -largest[kind])
    return parts + [kind for kind in REMAINDERS if kind in largest]


def _stacked(records: list[dict[str, Any]], shown: Sequence[str], kinds: Sequence[str], description: str) -> Any:
    alt = theme.altair()
    models = list(dict.fromkeys(record["model"] for record in records))
    columns = 3 if max(len(name) for name in shown) <= 11 else 2
    bars = (
        alt.Chart(theme.rows(records))
        .mark_bar(height={"band": 0.7})
        .encode(
            x=alt.X("share:Q", title="Share of the whole (%)", stack="zero",
                    axis=alt.Axis(tickCount=5, format=PLAIN)),
            y=alt.Y("model:N", sort=models, title=None, axis=alt.Axis(ticks=False, domain=False, labelPadding=6,
                                                                     labelLimit=150)),
            color=alt.Color(
                "kind:N",
                title=None,
                scale=alt.Scale(domain=list(shown), range=[theme.colour(kind) for kind in kinds]),
                legend=alt.Legend(orient="top", columns=columns, symbolType="square"),
            ),
            order=alt.Order("order:Q"),
            tooltip=["model:N", "kind:N", alt.Tooltip("said:N", title="share")],
        )
    )  # fmt: skip
    line = alt.Chart(theme.rows([{"x": 100.0}])).mark_rule(style=theme.FAINT_LINE).encode(x="x:Q")
    return theme.finish(alt.layer(bars, line), description, _PITCH * len(models) + 20)


def _table(found: Sequence[Found]) -> Table:
    columns = ["model", "shape", "parameters", "layers", "energy [95 %]", "per token",
               "pJ per parameter and token", "pJ/FLOP", "time", "power"]  # fmt: skip
    rows = []
    for one in found:
        for row in one["rows"]:
            count, layers = row.get("parameters"), row.get("layers")
            rows.append([
                str(row["model"]), _shape(one), text.UNKNOWN if count is None else f"{count / 1e9:.3g} billion",
                text.UNKNOWN if layers is None else f"{layers:,}",
                text.with_limits(item(row.get("energy_mj")), "mJ"),
                text.with_limits(item(row.get("energy_per_token_mj")), "mJ"),
                text.with_limits(item(row.get("pj_per_parameter_token")), ""),
                text.with_limits(item(row.get("pj_per_flop")), ""), text.quantity(row.get("time_us"), "us"),
                text.quantity(row.get("power_w"), "W"),
            ])  # fmt: skip
    return Table(columns, rows)
