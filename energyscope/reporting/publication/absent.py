"""Why a figure that some runs have is not among those of this one."""

from __future__ import annotations

from collections.abc import Collection

from energyscope.reporting.data import ReportData, report_data
from energyscope.reporting.data.scenes import DECODE
from energyscope.reporting.data.stages import why_missing
from energyscope.reporting.publication.sheet import Missing
from energyscope.runs.store import Run


def absent(run: Run, named: Collection[str]) -> list[Missing]:
    """Return the figures that are not in ``named`` (the stems of those drawn or left out), with the reasons."""
    data = report_data(run)
    reasons = {
        "benchmark_sweep": _sweep(run, data),
        "generation_power_trace": _power(run, data),
        "energy_per_token": _tokens(run, data),
        "attention_by_context": _context(run, data),
        "choices": _choices(run, data),
    }
    return [Missing(stem, reason) for stem, reason in reasons.items() if stem not in named]


def _sweep(run: Run, data: ReportData) -> str:
    if data.benchmark is None:
        return why_missing(run.document, "benchmark")
    return "The benchmark has one batch size and one length: `energyscope benchmark` takes several of each."


def _power(run: Run, data: ReportData) -> str:
    if data.generation is None:
        return why_missing(run.document, "generate")
    return data.generation.no_trace or "The trace holds no power."


def _tokens(run: Run, data: ReportData) -> str:
    if data.generation is None:
        return why_missing(run.document, "generate")
    return "No decode step of the traced generations has an energy."


def _context(run: Run, data: ReportData) -> str:
    if data.energy is None:
        return why_missing(run.document, "profile")
    if not any(scene.phase == DECODE for scene in data.scenes):
        return "The run profiled no decode step."
    return "The components of a decode step were measured at one context: --context-length takes several."


def _choices(run: Run, data: ReportData) -> str:
    if data.choices is None:
        return why_missing(run.document, "alternatives")
    return "Nothing that was changed can be compared with the run's own setting."
