"""A run in a few figures, for lists and for machines."""

from __future__ import annotations

from typing import Any

from energyscope.runs.files import json_ready
from energyscope.runs.store import Run


def summary(run: Run) -> dict[str, Any]:
    """Return a run's identity, state and headline figures; what is unknown is None.

    ``energy_mj`` is of one forward pass of the whole model in its ``execution``, with its 95 % interval;
    ``executions`` are all that the profile measured, that one first; there are none without an energy table.
    ``closure`` is what the model's direct parts add up to, ``leaves`` what all leaves and overhead do, as a share
    of the model's ``leaves_of``: its ``energy`` or, run eagerly, its ``dynamic`` energy.
    """
    document = run.document
    model, settings = document.get("model", {}), document.get("settings", {})
    closure = document.get("closure", {}).get("model", {})
    leaves = document.get("closure", {}).get("leaves", {})
    of = leaves.get("decides")
    executions = [] if run.energy is None else [str(name) for name in run.energy["execution"].unique()]
    return {
        "name": run.name,
        "path": str(run.path),
        "created": document.get("created"),
        "state": state(document),
        "model": model.get("name"),
        "weights": model.get("weights"),
        "device": document.get("device", {}).get("name"),
        "meter": document.get("sensor", {}).get("meter"),
        "modelled": run.modelled,
        "granularity": settings.get("granularity"),
        "execution": next(iter(executions), settings.get("execution")),
        "executions": executions,
        "sampling": settings.get("sampling") or "replay",
        "precision": settings.get("precision"),
        "batch_size": document.get("workload", {}).get("batch_size"),
        "sequence_length": document.get("workload", {}).get("sequence_length"),
        **_model_row(run),
        "closure": closure.get("energy"),
        "closure_state": closure.get("state"),
        "leaves": leaves.get(of),
        "leaves_low": leaves.get(f"{of}_low"),
        "leaves_high": leaves.get(f"{of}_high"),
        "leaves_of": of,
        "leaves_state": leaves.get("state"),
        "drift": (document.get("drift") or {}).get("change"),
        "stages": {name: stage.get("state") for name, stage in document.get("stages", {}).items()},
        "report": str(run.path / "report.html") if (run.path / "report.html").exists() else None,
    }


def state(document: dict[str, Any]) -> str:
    """Return ``done``, or the state of the first stage that is neither done nor skipped."""
    for stage in document.get("stages", {}).values():
        if stage.get("state") not in {"done", "skipped"}:
            return str(stage.get("state"))
    return "done"


def _model_row(run: Run) -> dict[str, Any]:
    columns = ("energy_mj", "energy_ci_low_mj", "energy_ci_high_mj", "time_us", "power_w", "quality")
    rows = None if run.energy is None else run.energy[run.energy["kind"] == "model"]
    if rows is None or rows.empty:
        return dict.fromkeys(columns)
    return {column: json_ready(rows.iloc[0][column]) for column in columns}  # NaN becomes None
