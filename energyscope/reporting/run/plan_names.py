"""What a plan's workloads, choices and quantities are called, and what they save."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from energyscope.reporting.run.report import precision_name

PLAN = "plan"
ALL = "all "  # how choices of one precision begin
OBJECTIVES = {"energy": "energy", "time": "time", "memory": "weights' memory"}


def workload_name(workload: Mapping[str, Any]) -> str:
    """Return a workload as it is read: ``decode, batch 32``."""
    phase = "decode" if workload["phase"] == "decode" else "forward pass"
    return f"{phase}, batch {workload['batch_size']}"


def choice_name(name: str) -> str:
    """Return a choice's name as it is read: ``all int8`` as ``INT8 everywhere``."""
    if name.startswith(ALL):
        return f"{precision_name(name.removeprefix(ALL))} everywhere"
    return name[:1].upper() + name[1:]


def named(name: str) -> str:
    """Return a choice as sentences begin with it."""
    return "The plan" if name == PLAN else choice_name(name)


def harm_title(metric: str) -> str:
    return {"kl": "KL divergence", "accuracy": "Accuracy lost"}.get(metric, "Loss added (nats)")


def saved_title(document: Mapping[str, Any], quantity: str = "") -> str:
    """Return the title of what is saved of a quantity, by default the objective's."""
    quantity = quantity or document["objective"]
    modelled = " (MODELLED)" if document.get("modelled") and quantity == "energy" else ""
    return f"{OBJECTIVES[quantity].capitalize()} saved{modelled}"


def graded(objective: str) -> str:
    """Return what a choice's grade is of: memory is known exactly."""
    return "time" if objective == "time" else "energy"


def of_objective(document: Mapping[str, Any], entry: Mapping[str, Any]) -> Any:
    """Return what an entry says of the objective; plans made before it was kept say so of energy alone."""
    return entry["energy"] if document["objective"] == "energy" else entry.get("saves")
