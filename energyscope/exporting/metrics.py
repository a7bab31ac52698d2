"""One flat dictionary of numbers, with names that MLflow, W&B and trackio take."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from energyscope.errors import RunError, UsageError
from energyscope.exporting import nothing
from energyscope.exporting.figures import OF_TIME, figures_of
from energyscope.metering.grades import QUALITIES
from energyscope.reporting.terminal_text import printable

if TYPE_CHECKING:
    from energyscope.runs.store import Run
    from energyscope.serving.run import ServingRun

MODELLED = "MODELLED_"  # begins the names of joules and watts that are time x stated watts

MOST_AT_ONCE = 1000  # metrics that MLflow takes in one call


def metrics(run: Run | ServingRun) -> dict[str, float]:
    """Return the figures of a run by name, which ends with the unit; what is unknown is left out.

    Beside a ``NAME`` stand the limits of its 95 % interval, ``NAME_low`` and ``NAME_high``, and ``NAME_grade``:
    1 for A, 2 for B, 3 for C, 4 for invalid.

    Raises:
        RunError: the run has no figures.

    """
    numbers: dict[str, float] = {}
    for figure in figures_of(run):
        name = f"{MODELLED if run.modelled and figure.unit not in OF_TIME else ''}{figure.name}"
        item = figure.item
        values = {"": item.value, "_low": item.low, "_high": item.high}
        if figure.quality in QUALITIES:
            values["_grade"] = QUALITIES.index(figure.quality) + 1
        numbers |= {f"{name}{part}": value for part, value in values.items() if value is not None}
    if not numbers:
        raise nothing(run, "figures")
    return numbers


def content(run: Run | ServingRun) -> tuple[str, list[str]]:
    """Return the dictionary as JSON; there is nothing to say about it."""
    return json.dumps(metrics(run), indent=1, allow_nan=False) + "\n", []


def log_to_mlflow(run: Run | ServingRun) -> str:
    """Log the figures as a run of MLflow, where ``MLFLOW_TRACKING_URI`` says, and return its ID.

    Raises:
        UsageError: MLflow is missing, no place is named, or MLflow refuses it.

    """
    try:
        import mlflow
    except ImportError as error:
        raise UsageError("MLflow is missing: pip install 'energyscope-llm[mlflow]'") from error
    if not os.environ.get("MLFLOW_TRACKING_URI"):
        raise UsageError("MLFLOW_TRACKING_URI is not set: name a server or store there, as http://localhost:5000")
    document = run.document
    tags = {
        "energyscope": document.get("energyscope"),
        "model": (document.get("model") or {}).get("name"),
        "device": (document.get("device") or {}).get("name"),
        "meter": "MODELLED" if run.modelled else (document.get("sensor") or {}).get("meter"),
    }
    numbers = list(metrics(run).items())
    try:
        with mlflow.start_run(run_name=printable(run.name)) as logged:
            mlflow.set_tags({name: printable(value) for name, value in tags.items() if value is not None})
            for first in range(0, len(numbers), MOST_AT_ONCE):
                mlflow.log_metrics(dict(numbers[first : first + MOST_AT_ONCE]))
    except mlflow.exceptions.MlflowException as error:
        raise RunError(f"MLflow: {error}") from error
    return str(logged.info.run_id)
