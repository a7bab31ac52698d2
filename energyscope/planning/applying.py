"""Applying a plan to a model elsewhere: in the place of each linear, the layer that was verified."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from torch import nn

from energyscope.errors import ModelError, RunError, UsageError
from energyscope.loading.linears import is_linear
from energyscope.loading.options import NATIVE
from energyscope.planning.document import SCHEMA
from energyscope.planning.layers import exchange, layer_in
from energyscope.runs.documents import PlanDocument
from energyscope.runs.files import declared, read_json
from energyscope.runs.schema import PLAN_JSON

Model = TypeVar("Model", bound=nn.Module)


def apply_plan(
    model: Model, plan: str | Path | Mapping[str, Any], workload: str | None = None, *, force: bool = False
) -> Model:
    """Exchange a model's linears for the layers of a plan, in place, and return the model.

    Args:
        model: the model of the plan as transformers loads it, on its device, in the plan's own precision.
        plan: a ``plan.json``, the run's folder that holds it, or what it holds.
        workload: for which it is, such as ``decode:32``; None: the first that was planned for.
        force: apply it even if it was not shown to save anything, or breaks its budget.

    Raises:
        UsageError: there is no plan for this workload, or its verdict is not ``saves``.
        RunError: the file cannot be read, or is of a newer version.
        ModelError: the model is another one, or a layer cannot be made here.

    """
    chosen = precisions_of(model, plan, workload, force=force)
    layers = {path: layer_in(model.get_submodule(path), precision, path) for path, precision in chosen.items()}
    exchange(model, layers)
    return model


def precisions_of(
    model: nn.Module, plan: str | Path | Mapping[str, Any], workload: str | None = None, *, force: bool = False
) -> dict[str, str]:
    """Return the precision of each linear that a plan changes, by its path; see `apply_plan` for the errors."""
    document, named = named_plan(plan, workload)
    own, *_ = document["precisions"]
    if named["verdict"] != "saves" and not force:
        raise UsageError(f"the plan's verdict is {named['verdict']!r}: give force=True to take it all the same")
    chosen = {
        path: str(group["precision"])
        for group in named["groups"]
        if group["precision"] != own
        for path in group["paths"]
    }
    modules = dict(model.named_modules())
    for path in chosen:
        module: Any = modules.get(path)
        if module is None or not is_linear(module):
            raise ModelError(f"the plan is for {document['model']}, and this model has no linear {path}")
        dtype = str(module.weight.dtype).removeprefix("torch.")
        if dtype != NATIVE[own]:
            raise ModelError(
                f"the plan is for a model in {own}, and {path} is {dtype}: load it with dtype={NATIVE[own]}"
            )
    return chosen


def named_plan(
    plan: str | Path | Mapping[str, Any], workload: str | None = None
) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return what a plan.json holds, and the plan of one workload in it; see `apply_plan` for the errors."""
    document = plan if isinstance(plan, Mapping) else _read(Path(plan))
    plans = {each["key"]: each for each in document["workloads"]}
    if workload is not None and workload not in plans:
        raise UsageError(f"the plan is for {', '.join(plans)}, not for {workload}")
    return document, plans[workload or next(iter(plans))]


def _read(path: Path) -> dict[str, Any]:
    file = path / PLAN_JSON if path.is_dir() else path
    document = read_json(file)
    if document is None:
        raise RunError(f"{file} cannot be read as a plan: there is no such file")
    if not isinstance(document.get("schema"), int):
        raise RunError(f"{file} holds no plan: name a {PLAN_JSON} of `energyscope plan`")
    if document["schema"] > SCHEMA:
        raise RunError(f"{file} was written by a newer energyscope: update it")
    return declared(file, document, PlanDocument)
