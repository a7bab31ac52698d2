"""Tokens per joule along batches and lengths, and sizes of models compared, for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from energyscope.reporting import text
from energyscope.runs.intervals import Interval

Entry = Mapping[str, Any]
OTHER = {"batch_size": "tokens", "tokens": "batch_size"}
NOTHING = "\u2013"


def efficiency_tables(entries: Sequence[Entry], *, modelled: bool) -> list[RenderableType]:
    """Return a table for each model, phase and setting: from where to where tokens/J rise, the knee, least EDP."""
    boards = list(dict.fromkeys(str(entry.get("board")) for entry in entries))
    lines = [entry for entry in entries if len(entry["rows"]) > 1]
    titles = [
        _title(entry) + (f", board {boards.index(str(entry.get('board'))) + 1}" if len(boards) > 1 else "")
        for entry in lines
    ]
    found: dict[str, list[Entry]] = {}
    for title, entry in zip(with_methods(titles, lines), lines, strict=True):
        found.setdefault(title, []).append(entry)
    parts: list[RenderableType] = []
    for title, group in found.items():
        joule = "MODELLED joule" if modelled else "joule"
        parts += [Text(f"\n{title}: tokens per {joule}", style="bold"), _table(group)]
        parts += [Text(words, style="dim") for words in _knees(group)]
    return parts


def with_methods(titles: Sequence[str], entries: Sequence[Entry]) -> list[str]:
    """Return the titles of entries; with the method of measuring only where nothing else tells them apart."""
    methods: dict[str, set[object]] = {}
    for title, entry in zip(titles, entries, strict=True):
        methods.setdefault(title, set()).add(entry.get("method"))
    return [
        f"{title}, method {entry.get('method')}" if len(methods[title]) > 1 else title
        for title, entry in zip(titles, entries, strict=True)
    ]


def _title(entry: Entry) -> str:
    cache = [f"{entry['kv_cache']} KV cache"] if entry.get("kv_cache") else []
    return ", ".join([*(str(entry[name]) for name in ("model", "phase", "precision", "execution")), *cache])


def _table(entries: Sequence[Entry]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    for name in ("at", "along", "tokens/J", "latency", "knee", "least\nEDP"):
        broken = name in {"along", "tokens/J", "latency"}  # between from and to, where 80 columns are not enough
        table.add_column(name, no_wrap=not broken, justify="left" if name in {"at", "along"} else "right")
    for entry in entries:
        along, other = entry["along"], OTHER[entry["along"]]
        first, last = entry["rows"][0], entry["rows"][-1]
        knee = entry["knee"]
        table.add_row(
            f"{_axis(entry, other)} {entry['fixed']:,}",
            f"{_axis(entry, along)} {first[along]:,} \u2192 {last[along]:,}",
            f"{_value(first['tokens_per_j'])} \u2192 {_value(last['tokens_per_j'])}",
            f"{text.quantity(first['latency_us'], 'us')} \u2192 {text.quantity(last['latency_us'], 'us')}",
            NOTHING if knee is None else f"{knee[along]:,}",
            NOTHING if entry["least_edp"] is None else f"{entry['least_edp']:,}",
        )
    return table


def _value(item: Entry | None) -> str:
    return NOTHING if item is None else text.number(item["value"])


def _knees(entries: Sequence[Entry]) -> list[str]:
    """Say of each axis what the knee is, or why there is none, at the largest of the other axis."""
    last = {entry["along"]: entry for entry in entries}
    return [
        f"along {_axis(entry, along)}, at {_axis(entry, OTHER[along])} {entry['fixed']:,}: "
        + str(entry["knee"]["words"] if entry["knee"] else entry["reason"])
        for along, entry in last.items()
        if entry["knee"] or entry["reason"]
    ]


def _axis(entry: Entry, axis: str) -> str:
    if axis == "batch_size":
        return "batch"
    return "context" if entry["phase"] == "decode" else "tokens"


def size_tables(entries: Sequence[Entry], held_out: Sequence[Entry], *, modelled: bool) -> list[RenderableType]:
    """Return a table of models at the largest shape of each setting, and how left-out sizes were foretold."""
    parts: list[RenderableType] = []
    settings = _by_setting(entries)
    largest = [
        max(shapes, key=lambda one: (one["batch_size"] * one["tokens"], one["batch_size"])) for shapes in settings
    ]
    names = with_methods([_setting(entry) for entry in largest], largest)
    for name, shapes, entry in zip(names, settings, largest, strict=True):
        where = f"{name}, {entry['batch_size']:,} x {entry['tokens']:,} tokens"
        where += f" (the largest of {len(shapes)} shapes)" if len(shapes) > 1 else ""
        word = "MODELLED " if modelled else ""
        title = Text(f"\n{word}sizes compared: {where}", style="bold")
        parts += [title, _sizes(entry["rows"]), Text(_exponent(entry))]
    told = [one for one in held_out if one.get("subject", "model") == "model" and one["median"] is not None]
    for name, one in zip(with_methods([_setting(one) for one in told], told), told, strict=True):
        beyond = ", extrapolated" if one["extrapolated"] else ""
        errors = f"{text.percent(one['median'])} (worst {text.percent(one['worst'])}, n={one['cells']}{beyond})"
        said = f"{one['left_out']} foretold from the other models by {one['law']}: median error {errors}"
        parts.append(Text(f"{name}: {said}"))
    return parts


def _by_setting(entries: Sequence[Entry]) -> list[list[Entry]]:
    found: dict[tuple[object, ...], list[Entry]] = {}
    for entry in entries:
        key = (_setting(entry), *(entry.get(name) for name in ("kv_cache", "board", "method")))
        found.setdefault(key, []).append(entry)
    return list(found.values())


def _setting(entry: Entry) -> str:
    return ", ".join(str(entry[name]) for name in ("phase", "precision", "execution"))


def _sizes(rows: Sequence[Entry]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    table.add_column("model", overflow="fold")
    for name in ("parameters", "energy per token\n[95 %]", "pJ per parameter\nand token", "pJ/FLOP", "power"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(
            Text(str(row["model"])),
            _parameters(row["parameters"]),
            NOTHING
            if row["energy_per_token_mj"] is None
            else text.with_limits(Interval(**row["energy_per_token_mj"]), "mJ").replace(" [", "\n["),
            _value(row["pj_per_parameter_token"]),
            _value(row["pj_per_flop"]),
            text.quantity(row["power_w"], "W"),
        )
    return table


def _parameters(amount: int | None) -> str:
    if not amount:
        return NOTHING
    return f"{amount / 1e9:.3g} B" if amount >= 1e9 else f"{amount / 1e6:.3g} M"


def _exponent(entry: Entry) -> str:
    if entry["exponent"] is None:
        return f"energy per token against parameters: {entry['reason']}"
    item = Interval(**entry["exponent"])
    limits = f" {text.limits(item, '')}" if item.known else ""
    return f"energy per token grows as parameters to the power {text.number(item.value)}{limits}"
