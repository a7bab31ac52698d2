"""A lower power limit: proposed where it may save energy, with the command that sets it. It is never set here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from energyscope.intervals import finite, from_entry
from energyscope.reporting.page import sentence
from energyscope.reporting.run.report import DECODE, Report

SHARE = 0.8  # of the power that is drawn: a first value to try
STEP_W = 10.0
NEAR = 0.9  # of the limit: less is not at it
MEMORY = "memory"  # as `energyscope.metering.activity.limited_by` calls it


@dataclass(frozen=True)
class LowerLimit:
    """A power limit to try, ``try_w``: a load draws ``power_w``, at the limit (``at_limit``) or slowed by memory.

    The board allows ``lowest_w`` and more, and has ``limit_w``, its default. nvidia-smi knows it by its ``uuid``.
    """

    phase: str
    at_limit: bool
    power_w: float
    limit_w: float
    lowest_w: float
    try_w: float
    uuid: str


def lower_limit(report: Report) -> LowerLimit | None:
    """Return the limit to try; None where nothing speaks for it, or the board does not tell its limits."""
    device = report.part("device")
    names = ("power_limit_w", "default_power_limit_w", "min_power_limit_w")
    limit, default, lowest = (finite(device.get(name)) for name in names)
    if limit is None or default is None or lowest is None or limit < default or report.modelled:
        return None
    if device.get("mig") or device.get("spread") or not device.get("uuid"):
        return None  # power is the sum over boards, and the limit one board's
    for phase, power_w, at_limit, limited_by in _loads(report):
        try_w = max(STEP_W * (SHARE * power_w // STEP_W), lowest)
        reached = at_limit and power_w > NEAR * limit
        if (reached or limited_by == MEMORY) and try_w < min(power_w, limit):
            return LowerLimit(phase, reached, power_w, limit, lowest, try_w, str(device["uuid"]))
    return None


def lower_limit_sentence(report: Report) -> str:
    """Return why a lower power limit is worth a try and how to measure it; empty where nothing speaks for it."""
    proposed = lower_limit(report)
    return "" if proposed is None else sentence("run/power_limit.txt.j2", **asdict(proposed))


def _loads(report: Report) -> Iterator[tuple[str, float, bool, str | None]]:
    """Yield the phase, power (W), whether it reached the limit, and what limits it, of each whole model measured.

    With the plan applied first, since that is what will run.
    """
    plans: list[Mapping[str, Any]] = (report.run.plan or {}).get("workloads") or []
    documents = [*(plan.get("levers") or {} for plan in plans), report.alternatives]
    rows = [row for document in documents for row in document.get("rows") or [] if row.get("what") == "base"]
    for row in rows:
        power = from_entry(row.get("power_w"))
        if power is not None:
            yield _name(row.get("phase")), power.value, bool(row.get("at_power_limit")), row.get("limited_by")
    for workload in report.workloads:
        power_w, root = workload.number("power_w"), workload.tree.root
        if power_w is not None and root is not None:
            at_limit, limited_by = bool(root.flag("at_power_limit")), root.row.get("limited_by")
            yield _name(workload.phase), power_w, at_limit, limited_by


def _name(phase: object) -> str:
    return "decoding" if phase == DECODE else "the forward pass"
