"""What a run would measure and about how long it would take, found without weights and without a meter."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import torch

from energyscope.components import ComponentTree, component_tree
from energyscope.loading import building, check_precision, parameter_count
from energyscope.loading.devices import pick_device
from energyscope.loading.options import LoadOptions
from energyscope.loading.precision import resolve_precision
from energyscope.loading.sources import find_model
from energyscope.replay.subjects import Subject, subjects
from energyscope.stages.run import profile_settings
from energyscope.stages.session import expected_seconds
from energyscope.stages.settings import RunSettings

TYPICAL_WINDOW_S = {"cuda": 0.42, "cpu": 0.15}


@dataclass(frozen=True)
class Preview:
    """A plan. ``profile_seconds`` is about how long its replay windows take, loading and ablation apart.

    ``kinds`` counts the components of each kind; ``skipped`` says which stages will not run, and why.
    """

    model: str
    precision: str
    device: str
    parameters: int
    components: int
    kinds: dict[str, int]
    subjects: dict[str, int]
    windows: int
    profile_seconds: float
    ablations: int
    skipped: dict[str, str]


def preview(settings: RunSettings) -> Preview:
    """Return what a run with these settings would do.

    Raises:
        EnergyscopeError: the run would be refused.

    """
    settings.check()
    device = pick_device(settings.device)
    precision = resolve_precision(settings.model, settings.precision, settings.device)
    check_precision(precision)
    tree = _shape(settings, device)
    plan = subjects(tree, settings.granularity, settings.layers)
    skipped = {
        stage: "not asked for" for stage in ("profile", "ablate", "correlate") if stage not in settings.stages
    }
    if settings.weights == "random":
        skipped |= dict.fromkeys(("ablate", "correlate"), "random weights: impact on them means nothing")
    return Preview(
        model=settings.model,
        precision=precision,
        device=str(device),
        parameters=parameter_count(tree.root.module),
        components=len(tree),
        kinds=dict(Counter(component.kind for component in tree)),
        subjects=dict(Counter(subject.what for subject in plan)),
        windows=_windows(plan, settings),
        profile_seconds=_seconds(plan, settings, device),
        ablations=0 if "ablate" in skipped else (len(tree) - 1) * len(settings.methods),
        skipped=skipped,
    )


def _windows(plan: list[Subject], settings: RunSettings) -> int:
    return len(plan) * settings.passes + 1


def _seconds(plan: list[Subject], settings: RunSettings, device: torch.device) -> float:
    how = profile_settings(settings)
    modelled = device.type != "cuda" or settings.meter == "modelled"
    return expected_seconds(plan, how.effort, TYPICAL_WINDOW_S[device.type], modelled=modelled)


def _shape(settings: RunSettings, device: torch.device) -> ComponentTree:
    """Build the model on the meta device: all of its modules, none of its weights."""
    found = find_model(settings.model)
    options = LoadOptions("fp32", device, "random", settings.seed, settings.trust_remote_code)
    building.silence_libraries()
    with building.one_line_errors(found.name, options):
        folder = building.files_of(found, options)
        adapter = building.adapter_of(found, folder)
        config: Any = building.configuration_of(found, folder, options)
        with torch.device("meta"):
            model = building.auto_class(adapter).from_config(config)
    return component_tree(model, adapter, settings.granularity)
