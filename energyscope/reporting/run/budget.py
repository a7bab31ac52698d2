"""What tokens and requests take in the units of budgets: kWh, and money and CO2e by the user's own figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from energyscope.errors import UsageError
from energyscope.intervals import Interval, finite
from energyscope.reporting.run.generation import phase_table
from energyscope.reporting.run.report import DECODE, RUN, Report
from energyscope.reporting.section import Content
from energyscope.reporting.table import Column, Table
from energyscope.runs.store import Run
from energyscope.settings.budget import BUDGET

MILLION = 1e6
MJ_PER_KWH = 3.6e9  # millijoules
SECONDS_PER_YEAR = 365.25 * 86_400


@RUN.section(8, "budget", "In kWh")
def section(report: Report) -> Content | None:
    """Return what a million tokens, or passes, take; with a rate of requests, what a year of them takes."""
    table = budget_table(report)
    return Content({"modelled": report.modelled}, (), {"budget": table}) if table else None


def priced(run: Run, budget: Mapping[str, float]) -> Run:
    """Return a run with the ``price``, ``carbon`` and ``rate`` that are given; its files do not get them.

    Raises:
        UsageError: no energy is known of it that they could be of.

    """
    settings = {**Report(run).part("settings"), **budget}
    run = replace(run, document={**run.document, "settings": settings})
    if not budget_table(Report(run)):
        raise UsageError(
            f"{run.name} has no energy for --price, --carbon and --rate: profile it, or leave them out"
        )
    return run


def is_priced(report: Report) -> bool:
    """Tell whether a price, CO2e or a rate is stated."""
    return any(finite(report.part("settings").get(name)) for name in BUDGET)


def budget_table(report: Report) -> Table:
    """Return kWh of each unit, with money and CO2e where ``price`` and ``carbon`` (g) of a kWh are given."""
    settings = report.part("settings")
    price, carbon, rate = (finite(settings.get(name)) for name in ("price", "carbon", "rate"))
    columns = [Column("unit", "For"), Column("kwh", "kWh", "", "of all energy, idle power included")]
    columns += [Column("money", "Money", "", f"at {price:g} a kWh")] if price else []
    columns += [Column("co2e", "kg CO2e", "", f"at {carbon:g} g a kWh")] if carbon else []
    rows = [
        {
            "unit": unit,
            "kwh": kwh,
            "money": kwh.scaled(price) if price else None,
            "co2e": kwh.scaled(carbon / 1e3) if carbon else None,
        }
        for unit, kwh in _units(report, rate)
    ]
    return Table(columns, rows, "In kWh, MODELLED" if report.modelled else "In kWh")


def _units(report: Report, rate: float | None) -> Iterator[tuple[str, Interval]]:
    """Yield each unit with its kWh; ``rate`` is of requests per second."""
    for workload in report.workloads:
        if workload.per_token is not None and report.generates:
            at = f" at {workload.context:,} tokens of context" if workload.context else ""
            made = f"generated tokens{at}" if workload.phase == DECODE else "prompt tokens"
            yield f"a million {made}", workload.per_token.scaled(MILLION / MJ_PER_KWH)
    name, energy = _request(report)
    if energy is not None:
        yield f"a million {name}", energy.scaled(MILLION / MJ_PER_KWH)
        if rate:
            year = energy.scaled(rate * SECONDS_PER_YEAR / MJ_PER_KWH)
            yield f"a year of {rate:g} {name} per second", year


def _request(report: Report) -> tuple[str, Interval | None]:
    """Return what a request is, in the plural, and its energy (mJ): a traced generation, else an input's pass."""
    settings = report.generation.get("settings") or {}
    batch = finite(settings.get("batch_size")) or 1
    whole = next((row["energy"] for row in phase_table(report).rows if row["part"] == "generation"), None)
    if whole is not None:
        prompt, new = settings.get("prompt_tokens"), settings.get("new_tokens")
        return f"requests of {prompt} + {new} tokens", whole.scaled(1 / batch)
    main, shape = report.main, report.part("workload")
    if main is None or main.energy is None or report.generates:
        return "requests", None
    length, inputs = finite(shape.get("sequence_length")), finite(shape.get("batch_size")) or 1
    return f"inputs of {length:,.0f} tokens" if length else "inputs", main.energy.scaled(1 / inputs)
