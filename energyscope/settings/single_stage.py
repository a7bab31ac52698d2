"""Runs that do one thing, a benchmark of the whole model or a plan: what may be asked of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from energyscope.errors import UsageError
from energyscope.settings.benchmark import BenchmarkSettings
from energyscope.settings.fields import select_settings, settings_of
from energyscope.settings.run import MOST_USED, ONE_EXECUTION, RunSettings

_OF_BENCHMARK = (
    "weights", "execution", "device", "gpu_id", "whole_gpu", "trust_remote_code", "adapter", "meter", "watts",
    "data", "text_column", "label_column", "max_examples", "stride", "seed", "name", "root",
)  # fmt: skip
BENCHMARK = (
    *select_settings(
        BenchmarkSettings,
        batch_sizes={"default": (1,)},
        trials={"default": 5},
        trial_seconds={"default": 2.0},
    ),
    *select_settings(RunSettings, *_OF_BENCHMARK, execution={"help": f"{ONE_EXECUTION}."}),
)
PLAN = select_settings(
    RunSettings,
    "budget", "objective", "workloads", "levers", "plan_precisions", "precision", "weights", "phase", "batch_size",
    "sequence_length", "context_lengths", "kv_cache", "execution", "skip_modules", "data", "name", "device",
    "gpu_id", "whole_gpu", "trust_remote_code", "adapter", "meter", "watts", "passes", "target_interval",
    "window_s", "seed", "text_column", "label_column", "max_examples", "stride", "root", "export",
    "export_format",
    budget={"panel": MOST_USED},
    objective={"panel": MOST_USED},
    workloads={"panel": MOST_USED},
    plan_precisions={"panel": MOST_USED},
    max_examples={"unset": "as many as the budget needs"},
)  # fmt: skip
_OF_THIS_RUN = frozenset({"name", "root", "export", "export_format"})  # what a run does not hand on


def benchmark_settings(model: str, values: Mapping[str, Any], _: Collection[str] = ()) -> RunSettings:
    """Return the settings of a run that is a benchmark and nothing else, of values by the names of `BENCHMARK`.

    Raises:
        UsageError: no batch size is named.

    """
    own = {name: values[name] for name in settings_of(BenchmarkSettings)}
    if not own["batch_sizes"]:
        raise UsageError("--batch-size names nothing: leave it out, or name one")
    return RunSettings.of(
        model,
        **{name: values[name] for name in _OF_BENCHMARK},
        benchmark=BenchmarkSettings(**own),
        stages=("benchmark", "report"),
        batch_size=own["batch_sizes"][0],
        sequence_length=next(iter(own["sequence_lengths"]), None),
        sample_interval_s=own["power_sample_interval_s"],
    )


def plan_settings(model: str, values: Mapping[str, Any], given: Collection[str] = ()) -> RunSettings:
    """Return the settings of a run that is a plan and nothing else, of values by the names of `PLAN`.

    A run may stand in the model's place: it gives its model, and what is not among the ``given`` names.

    Raises:
        RunError: the run cannot be read, or is of a server.

    """
    from energyscope.loading import named_model
    from energyscope.runs.schema import RUN_FILE
    from energyscope.runs.store import read_document
    from energyscope.serving.run import refuse_server

    path = Path(model) if Path(model).is_dir() else values["root"] / model  # a folder here is not a run's name
    if not (path / RUN_FILE).is_file() or named_model(model):
        return RunSettings.of(model, **values, stages=("plan", "report"))
    refuse_server(path)
    recorded = read_document(path).get("settings") or {}
    handed_on = {
        setting.name: tuple(recorded[setting.name]) if setting.several else recorded[setting.name]
        for setting in PLAN
        if setting.name in recorded and setting.name not in {*given, *_OF_THIS_RUN}
    }
    return RunSettings.of(str(recorded["model"]), **{**values, **handed_on}, stages=("plan", "report"))
