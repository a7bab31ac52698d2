"""Laws of runs and sweeps for the terminal: what laws.json holds, with nothing fitted again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from energyscope.reporting import text
from energyscope.reporting.laws.document import holds_zero, item
from energyscope.reporting.laws.law_words import further_flags
from energyscope.reporting.terminal_efficiency import efficiency_tables, size_tables, with_methods
from energyscope.reporting.terminal_law_table import law_table
from energyscope.runs.intervals import Interval
from energyscope.runs.schema import LAWS_JSON, REPORT_FILE

Document = Mapping[str, Any]
Entry = Mapping[str, Any]

LEGEND = (
    "E = E0 + k x FLOPs (pJ/byte: x bytes). Holds for: cells, from the smallest on, that are each foretold within "
    "10 % of their measured energy by the law of the others. "
    "Trend: of k as FLOPs double. Error: median of shapes left out of the law."
)
MODELLED = "MODELLED: these joules are time x stated watts, not measured"
WAYS = {"length": "lengths", "batch": "batches", "cell": "cells", "model": "models"}
MOST_CONTRASTS = 12


def laws_tables(document: Document, path: Path) -> RenderableType:
    """Return all laws of a document: a table for each group, then contrasts, efficiency, sizes and notes."""
    parts: list[RenderableType] = [Text(f"Laws: {document['name']}", style="bold"), *_banners(document)]
    titles = _titles(document["groups"])
    for title, group in zip(titles, document["groups"], strict=True):
        parts += _group(title, group, modelled=document["modelled"])
    if any(not group["reason"] for group in document["groups"]):
        parts.append(Text(LEGEND, style="dim"))
    parts += _contrasts(document["contrasts"])
    parts += efficiency_tables(document["efficiency"], modelled=document["modelled"])
    parts += size_tables(document["sizes"], document["sizes_held_out"], modelled=document["modelled"])
    parts += [Text(f"not measured: {_unmeasured(one)}", style="yellow") for one in document["not_measured"]]
    parts += [Text(f"note: {note}", style="yellow") for note in document["notes"]]
    return Group(*parts, *_places(path))


def laws_brief(document: Document, path: Path) -> RenderableType:
    """Return a few lines on the laws of a sweep: the whole model's, how far off they are, and where they are."""
    several = len(document["groups"]) > 1
    parts: list[RenderableType] = []
    for title, group in zip(_titles(document["groups"]), document["groups"], strict=True):
        name = f"{title}: " if several else ""
        if group["reason"]:
            parts += [Text(f"{name}{group['reason']}", style="dim")] if several else []
            continue
        whole = next((one for one in group["subjects"] if one["role"] == "whole"), None)
        said = [_line_said(whole, modelled=document["modelled"])] if whole else []
        said += [_held_out_said(group["held_out"])]
        parts.append(Text(name + "; ".join(said)))
        parts += [Text(_ratio_said(ratio)) for ratio in group["ratios"][:1] if ratio["marginal"]]
    return Group(*parts, *_places(path))


def _places(path: Path) -> list[Text]:
    page = path / REPORT_FILE
    missing = f"not drawn here: `energyscope report {path}` renders it where altair and vl-convert are installed"
    return [Text(f"Page: {page if page.is_file() else missing}"), Text(f"Data: {path / LAWS_JSON}")]


def _banners(document: Document) -> list[Text]:
    said = [Text(MODELLED, style="bold yellow")] if document["modelled"] else []
    if "random" in document["weights"]:
        said.append(Text("random weights: energy depends on their values to some degree", style="yellow"))
    return said


def _titles(groups: Sequence[Entry]) -> list[str]:
    """Return what each group is called; the method of measuring only where nothing else tells them apart."""
    return with_methods([_title(group) for group in groups], groups)


def _title(group: Entry) -> str:
    words = [group["model"], group["phase"], group["precision"], group["execution"]]
    words += [f"{group['kv_cache']} KV cache"] if group["kv_cache"] else []
    return ", ".join(str(word) for word in words)


def _group(title: str, group: Entry, *, modelled: bool) -> list[RenderableType]:
    heading = [
        Text(f"\n{title}", style="bold"),
        Text(
            f"{text.count(len(group['cells']), 'cell')} on {group['device'] or group['board']}: {_shapes(group)}",
            style="dim",
        ),
    ]
    if group["reason"]:
        return [*heading, Text(str(group["reason"]), style="yellow")]
    return [
        *heading,
        law_table(group["subjects"], _way(group["held_out"]), modelled=modelled),
        *(Text(_ratio_said(ratio)) for ratio in _told(group["ratios"])),
        Text(_held_out_said(group["held_out"])),
        *_flags(group["subjects"]),
    ]


def _shapes(group: Entry) -> str:
    def values(name: str) -> str:
        return ", ".join(f"{one:,}" for one in sorted({cell[name] for cell in group["cells"]}))

    context = " of context" if group["phase"] == "decode" else ""
    return f"batch {values('batch_size')} x {values('tokens')} tokens{context}"


def _line_said(whole: Entry, *, modelled: bool) -> str:
    line = whole["two_term"]
    if "reason" in line:
        return f"whole model: {line['reason']}"
    fixed, marginal = Interval(**line["fixed_mj"]), Interval(**line["marginal_pj_per_flop"])
    word = "MODELLED " if modelled else ""
    offset, slope = f"{word}{text.with_limits(fixed, 'mJ')}", text.with_limits(marginal, "pJ/FLOP")
    apart = f"E0 {offset}{' cannot be told from nothing' if holds_zero(fixed) else ''}"
    if holds_zero(marginal):
        said = f"no growth with FLOPs is shown, k {slope} holds 0; {apart}"
    else:
        said = f"{slope} x FLOPs; {apart}" if holds_zero(fixed) else f"{offset} + {slope} x FLOPs"
    return " - ".join([f"whole model: {said}", *further_flags(line)])


def _told(ratios: Sequence[Entry]) -> list[Entry]:
    """Return the ratios that are told; where none is, the first, for its reason."""
    return [one for one in ratios if one["marginal"]] or list(ratios[:1])


def _ratio_said(ratio: Entry) -> str:
    first, second = ratio["first"], ratio["second"]
    if ratio["marginal"] is None:
        return f"a further FLOP of {first} against {second}: {ratio['reason']}"
    item = Interval(**ratio["marginal"])
    limits = f" {text.limits(item, '')}" if item.known else ""
    unsure = ": they cannot be told apart" if item.known and not item.excludes(1.0) else ""
    unsure = unsure if item.known else " (from two cells: nothing checks it)"
    return f"a further FLOP of {first} costs {text.number(item.value)} x{limits} one of {second}{unsure}"


def _held_out_said(found: Entry) -> str:
    if found["reason"]:
        return f"held out: {found['reason']}"
    said = [
        f"{name} {text.percent(one['median'])} (worst {text.percent(one['worst'])}, n={one['cells']})"
        for name, one in (("components", found["components"]), ("whole model", found["whole"]))
        if one
    ]
    return f"median error of {WAYS[str(_way(found))]} held out: {', '.join(said)}"


def _way(held_out: Entry) -> str | None:
    """Return the way of leaving out by which laws were chosen."""
    found = held_out["components"] or held_out["whole"]
    return str(found["by"]) if found else None


def _flags(subjects: Iterable[Entry]) -> list[Text]:
    """Say each flag of two-term laws, and that k may be 0, once, with the subjects that it is raised for."""
    found: dict[str, list[str]] = {}
    for entry in subjects:
        for name, line in (("FLOPs", entry["two_term"]), ("bytes", entry.get("by_bytes") or {})):
            slope = item(line.get("marginal_pj_per_flop") or line.get("pj_per_byte"))
            flat = [f"no growth with {name} is shown: the interval of k holds 0"] if holds_zero(slope) else []
            for flag in [*flat, *(line.get("flags") or ())]:
                found.setdefault(flag, []).append(str(entry["subject"]))
    return [Text(f"{text.listed(names)}: {flag}", style="yellow") for flag, names in found.items()]


def _contrasts(entries: Sequence[Entry]) -> list[RenderableType]:
    """Return the contrasts of the whole and the parts, each with the range of its ratios over the shapes."""
    boards = list(dict.fromkeys(str(entry.get("board")) for entry in entries))
    found: dict[tuple[str, ...], dict[str, list[float]]] = {}
    for entry in entries:
        setting = [str(entry[name]) for name in ("model", "phase", "precision", "execution") if entry.get(name)]
        board = [f"board {boards.index(str(entry.get('board'))) + 1}"] if len(boards) > 1 else []
        key = (", ".join([*setting, *board]), entry["first"], entry["second"], _older(entry))
        found.setdefault(key, {}).setdefault(str(entry["subject"]), []).append(entry["ratio"]["value"])
    parts: list[RenderableType] = []
    for (where, first, second, older), subjects in found.items():
        said = [f"{'whole model' if one == 'model' else one} {_range(ratios)}" for one, ratios in subjects.items()]
        parts.append(Text(f"\n{where}: energy in {first} over {second}", style="bold"))
        parts.append(Text(", ".join(said[:MOST_CONTRASTS])))
        parts += [Text(older, style="yellow")] if older else []
    return parts


def _older(entry: Entry) -> str:
    """Say which side of a contrast was measured before something was mended, and what: the ratio holds it."""
    found = entry.get("lacking") or {}
    sides = [str(entry[name]) for name in ("first", "second") if found.get(name)]
    why = "; ".join(dict.fromkeys(reason for reason in found.values() if reason))
    return f"{text.listed(sides)} measured by an older method, which these ratios hold: {why}" if sides else ""


def _range(values: Sequence[float]) -> str:
    low, high = f"{min(values):.2f}", f"{max(values):.2f}"
    return low if low == high else f"{low}-{high}"


def _unmeasured(one: Entry) -> str:
    return f"{one['cell']}: {one['state']}" + (f": {one['reason']}" if one["reason"] else "")
