"""Plans of tiny models with given precisions, in the shape of a real plan.json, and what models predict."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import torch
from plan_builder import plan_entries
from tiny_models import save_model
from torch import Tensor

from energyscope.loading import LoadedModel, load_model
from energyscope.loading.options import BY_TORCH
from energyscope.planning.document import document
from energyscope.planning.groups import groups_of
from energyscope.planning.record import PlanRecord

WIDE = {"hidden_size": 128, "intermediate_size": 160, "num_attention_heads": 4, "num_key_value_heads": 2}
IDS = torch.arange(4, 20)[None]


def wide_model(folder: Path, precision: str, family: str = "llama", **changes: Any) -> LoadedModel:
    """Save a tiny model with linears wide enough for every kernel, and load it on the CPU."""
    return load_model(str(save_model(folder, family, **{**WIDE, **changes})), device="cpu", precision=precision)


def plan_of(
    loaded: LoadedModel, precisions: Mapping[str, str], layers: Collection[int] | None = None
) -> dict[str, Any]:
    """Return a plan with a precision for each kind, in some layers or in all; others keep the model's own."""
    own, built = loaded.precision, document(PlanRecord(plan_entries())) or {}
    groups = [
        {
            "name": group.name,
            "paths": list(group.paths),
            "precision": precisions.get(group.kind, own) if layers is None or group.layer in layers else own,
        }
        for group in groups_of(loaded.model, loaded.adapter)
    ]
    workload = {**built["workloads"][0], "verdict": "saves", "groups": groups}
    return {**built, "model": loaded.name, "precisions": [own, *BY_TORCH], "workloads": [workload]}


def logits(module: Any) -> Tensor:
    with torch.no_grad():
        outputs: Tensor = module(input_ids=IDS).logits.float()
    return outputs


def apart(first: Tensor, second: Tensor) -> float:
    """Return how far a tensor lies from a second one, relative to that one's size."""
    return float((first - second).norm() / second.norm())
