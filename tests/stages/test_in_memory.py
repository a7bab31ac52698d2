"""Profiles of modules in memory: transformers' own and anybody's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from task_models import task_model
from torch import Tensor, nn

import energyscope
from energyscope.adapters import Adapter, Part
from energyscope.errors import DeviceError, ModelError, UsageError
from energyscope.reporting.run.answer import Answer
from energyscope.reporting.run.report import Report

QUICK: dict[str, Any] = {
    "meter": "modelled", "window_s": 0.03, "passes": 2, "component_budget_s": 0.05, "target_interval": 0.9,
    "granularity": "medium",
}  # fmt: skip


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.mlp = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = x + self.mlp(self.norm(x))
        return result


class Mixer(nn.Module):
    """A model that nobody else has, without a configuration."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(32, 8)
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.head = nn.Linear(8, 32)

    def forward(self, ids: Tensor, scale: float = 1.0) -> Tensor:
        x = self.embed(ids) * scale
        for block in self.blocks:
            x = block(x)
        logits: Tensor = self.head(x)
        return logits


def test_any_module_is_profiled(tmp_path: Path) -> None:
    """GIVEN a module without a configuration, in training, THEN its parts are measured, and it comes back so."""
    model = Mixer().train()
    run = energyscope.profile(
        model, {"ids": torch.arange(10).reshape(2, 5), "scale": 2.0}, name="mixer", root=tmp_path, **QUICK
    )
    energy = run.energy.set_index("component")
    assert {"blocks.0", "blocks.2", "blocks.1.norm", "head"} <= set(energy.index)
    assert (energy.loc[["blocks.0", "blocks.2"], "energy_mj"] > 0).all()
    assert run.document["workload"]["tokens_per_forward"] == 10
    assert all(module.training for module in model.modules())
    assert not any(module._forward_hooks for module in model.modules())
    assert "A pass over 2 x 5 tokens" in Answer(Report(run)).sentence


def test_a_model_of_transformers_keeps_its_type(tmp_path: Path) -> None:
    """GIVEN an image classifier in memory and an image, THEN its own adapter type and no tokens are recorded."""
    loaded = task_model("image-classification")
    run = energyscope.profile(
        loaded.model, {"pixel_values": torch.zeros(1, 3, 16, 16)}, name="vit", root=tmp_path, **QUICK
    )
    assert run.document["model"]["model_type"] == "vit"
    assert run.document["workload"]["sequence_length"] is None
    assert {"attention", "mlp", "layer"} <= set(run.energy["kind"])


def test_an_adapter_may_say_what_is_what(tmp_path: Path) -> None:
    """GIVEN an adapter, and the first argument alone, THEN its parts are measured and no others."""
    parts = (Part("layer", "blocks.{layer}", "coarse"), Part("lm_head", "head", "coarse"))
    adapter = Adapter("mixer", ("mixer",), "next-token", "blocks", parts)
    run = energyscope.profile(
        Mixer(), torch.zeros(1, 4, dtype=torch.long), adapter=adapter, name="own", root=tmp_path, **QUICK
    )
    assert {"layer", "lm_head"} == set(run.energy["kind"]) - {"model", "overhead", "unexplained"}


class Encoder(nn.Module):
    """Layers that torch computes by one function where it can, which calls none of their parts."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


def test_what_the_model_does_not_call_has_no_energy(tmp_path: Path) -> None:
    """GIVEN parts that are called while hooks listen and not else, THEN they have a reason and no 0."""
    run = energyscope.profile(Encoder(), torch.zeros(2, 4, 16), name="encoder", root=tmp_path, **QUICK)
    energy = run.energy.set_index("component")
    assert energy.loc["layers.0", "energy_mj"] > 0
    inside = energy[energy.index.str.startswith("layers.0.")]
    assert len(inside) >= 2
    assert inside["energy_mj"].isna().all()
    assert set(inside["reasons"]) == {"not-called"}


@pytest.mark.parametrize(
    ("inputs", "options", "error", "words"),
    [
        ({}, {}, UsageError, "name the forward's arguments"),
        ("ids", {}, UsageError, "name the forward's arguments"),
        (iter([torch.zeros(1, 4)]), {}, UsageError, "name the forward's arguments"),
        ({"ids": torch.zeros(1, 4)}, {}, ModelError, "the forward of Mixer fails on these inputs"),
        (
            {"ids": torch.zeros(1, 4, dtype=torch.long)},
            {"stages": "profile,ablate"},
            UsageError,
            "stages may be profile and report",
        ),
    ],
)
def test_what_cannot_be_is_refused(
    tmp_path: Path, inputs: Any, options: dict[str, Any], error: type[Exception], words: str
) -> None:
    """GIVEN no inputs, wrong ones, or more than a profile, THEN one line says so and no run is begun."""
    with pytest.raises(error, match=words):
        energyscope.profile(Mixer(), inputs, name="no", root=tmp_path, **QUICK, **options)
    assert not (tmp_path / "no").exists()


def test_a_module_without_weights_lies_nowhere(tmp_path: Path) -> None:
    """GIVEN a module without weights THEN the device is not guessed."""
    with pytest.raises(DeviceError, match="no weights"):
        energyscope.profile(nn.GELU(), {"input": torch.zeros(1, 4)}, name="no", root=tmp_path, **QUICK)
