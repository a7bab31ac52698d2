"""The figures of a run by name, with their limits and grades: what metrics and model cards are made of."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from energyscope import format as fmt
from energyscope.intervals import Interval, finite, from_entry, interval
from energyscope.metering.grades import grade
from energyscope.reporting.run import parts
from energyscope.reporting.run.report import DECODE, MeasuredWorkload, Report, precision_name
from energyscope.reporting.run.subject import shape_name
from energyscope.runs.store import Run

if TYPE_CHECKING:
    from energyscope.serving.run import ServingRun

OF_TIME = frozenset({"s", "us", "tokens/s", ""})  # units without joules


@dataclass(frozen=True)
class Figure:
    """A value by a name that ends with its unit. ``unit`` is one of `energyscope.format`, or a rate.

    ``title`` says in words what takes so many joules, for the figures that a model card shows. ``quality`` is None
    where the value has no grade.
    """

    name: str
    item: Interval
    unit: str
    quality: str | None = None
    title: str | None = None


def figures_of(run: Run | ServingRun) -> list[Figure]:
    """Return all figures of a run that are known; names have letters, digits and ``_`` alone, and none twice."""
    found = _of_run(Report(run)) if isinstance(run, Run) else _of_server(run)
    named: dict[str, Figure] = {}
    for figure in found:
        named.setdefault(figure.name, figure)
    return list(named.values())


def _name(*words: object) -> str:
    """Return a name that every tracker takes: letters, digits and ``_``."""
    return re.sub(r"[^A-Za-z0-9]+", "_", "_".join(map(str, words))).strip("_")[:200]


def _known(
    name: str, item: Interval | None, unit: str, quality: object = None, title: str | None = None
) -> Iterator[Figure]:
    if item is not None:
        yield Figure(name, item, unit, None if quality is None else str(quality), title)


def _of_run(report: Report) -> Iterator[Figure]:
    for workload in report.every_workload:
        yield from _of_workload(workload, modelled=report.modelled)
    yield from _of_generation(report.generation)
    for cell in report.cells:
        yield from _of_cell(cell)
    for entry in report.benchmark.get("predictions") or []:
        name = _name("benchmark", entry.get("precision"), entry.get("metric"))
        yield from _known(name, from_entry(entry.get("value")), "")
    yield from _known("idle_w", interval(report.part("sensor").get("idle_w")), "W")


def _of_workload(workload: MeasuredWorkload, *, modelled: bool) -> Iterator[Figure]:
    """Yield a pass or step and its blocks; of eager runs, work is what grades and comparisons are of."""
    stem, label = _name(workload.name), workload.label
    of_work = workload.tree.root.row.get("dynamic_quality") if workload.tree.root else None
    decodes, one = workload.phase == DECODE, workload.tokens == 1
    whole = f"{label}, a {'step' if decodes else 'pass'}"
    token = f"{label}, a {'generated token' if decodes else 'token read'}"
    shown = None if decodes and one else whole
    yield from _known(f"{stem}_energy_mj", workload.energy, "mJ", workload.quality, shown)
    yield from _known(f"{stem}_token_mj", workload.per_token, "mJ", workload.quality, token)
    yield from _known(f"{stem}_work_mj", workload.work, "mJ", of_work, f"{shown or token}, beyond idle power")
    yield from _known(f"{stem}_idle_mj", workload.idle, "mJ")
    yield from _known(f"{stem}_time_us", interval(workload.number("time_us")), "us")
    yield from _known(f"{stem}_power_w", interval(workload.number("power_w")), "W")
    for row in parts.blocks(workload.tree, modelled=modelled).rows if workload.detailed else ():
        yield from _known(_name(stem, row["kind"], "energy_mj"), row["energy"], "mJ")
        yield from _known(_name(stem, row["kind"], "work_mj"), row["work"], "mJ", row.get("grade"))


def _of_generation(generation: Mapping[str, Any]) -> Iterator[Figure]:
    """Yield the rates of a traced generation, whose names say their units."""
    units = {"s": "s", "token": "J", "joule": "1/J", "tokens_per_s": "tokens/s", "w": "1/J"}
    titles = {
        "joules_per_generated_token": "Traced generation, a generated token",
        "joules_per_prompt_token": "Traced generation, a token of the prompt",
    }
    count = int(finite((generation.get("settings") or {}).get("generations")) or 0)
    for name, entry in (generation.get("rates") or {}).items():
        item = from_entry(entry)
        unit = units.get(name, units.get(str(name).rpartition("_")[2]))
        if item is None or unit is None:
            continue
        quality = grade(fmt.relative(item), count)[0] if unit not in OF_TIME else None
        yield from _known(_name("generation", name), item, unit, quality, titles.get(str(name)))


def _of_cell(cell: Mapping[str, Any]) -> Iterator[Figure]:
    """Yield the figures of one precision at one shape."""
    batch, length = cell.get("batch_size"), finite(cell.get("sequence_length"))
    stem = _name("benchmark", cell.get("precision"), f"{batch}x{cell.get('sequence_length')}")
    title = f"{precision_name(cell.get('precision'))}, an inference over {shape_name(batch, length)}"
    yield from _known(f"{stem}_energy_mj", from_entry(cell.get("energy_mj")), "mJ", cell.get("quality"), title)
    yield from _known(f"{stem}_work_mj", from_entry(cell.get("dynamic_energy_mj")), "mJ")
    for name, unit in {
        "latency_s": "s",
        "power_w": "W",
        "tokens_per_s": "tokens/s",
        "tokens_per_joule": "1/J",
    }.items():
        yield from _known(f"{stem}_{name}", from_entry(cell.get(name)), unit)


def _of_server(run: ServingRun) -> Iterator[Figure]:
    """Yield what a unit of each cause costs, and a request at each load."""
    titles = {"prompt": "A token of a prompt", "tokens": "A generated token", "requests": "A request by itself"}
    for cost in run.serving["costs"]:
        cause, unit = str(cost["cause"]), str(cost["unit"])
        name = _name("server", cause, unit.replace(" per ", "_per_").lower())
        yield from _known(name, _limits(cost), unit.partition(" ")[0], cost["quality"], titles.get(cause))
    for load in run.loads.to_dict("records"):
        item = interval(load["request_j"], load["request_low_j"], load["request_high_j"])
        name = _name("server", load["load"], "request_j")
        yield from _known(name, item, "J", load["quality"], f"A request, load {load['load']}")


def _limits(entry: Mapping[str, Any]) -> Interval | None:
    return interval(entry.get("value"), entry.get("low"), entry.get("high"))
