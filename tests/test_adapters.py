"""The adapter contract."""

from __future__ import annotations

from dataclasses import replace

import pytest

from energyscope.adapters import GRANULARITIES, SDPA, Adapter, Part, Task

MINIMAL = Adapter(
    name="minimal",
    model_types=("minimal",),
    task="next-token",
    layers="layers",
    parts=(
        Part("layer", "layers.{layer}", "coarse"),
        Part("mlp", "layers.{layer}.mlp", "medium"),
        Part("mlp.up", "layers.{layer}.mlp.up", "fine"),
    ),
)


def test_finer_granularity_keeps_coarser_parts() -> None:
    """WHEN the granularity grows finer THEN parts are added and none is lost."""
    kinds = [[part.kind for part in MINIMAL.parts_at(level)] for level in GRANULARITIES]
    assert kinds == [["layer"], ["layer", "mlp"], ["layer", "mlp", "mlp.up"]]


@pytest.mark.parametrize(("task", "metric"), [("classification", "accuracy"), ("next-token", "perplexity")])
def test_metric_follows_from_task(task: Task, metric: str) -> None:
    """The quality of predictions is accuracy for classes and perplexity for tokens."""
    assert replace(MINIMAL, task=task).metric == metric


def test_a_function_is_named_apart_from_its_module() -> None:
    """GIVEN a module and two functions that it calls THEN no path is declared twice; one function twice is."""
    core = Part("attention.core", "layers.{layer}.mlp", "fine", function=SDPA)
    activation = Part("mlp.activation", "layers.{layer}.mlp", "fine", function="torch.nn.functional.silu")
    assert core.name == "layers.{layer}.mlp.core"
    assert replace(MINIMAL, parts=(*MINIMAL.parts, core, activation)).problems() == []
    twice = replace(MINIMAL, parts=(*MINIMAL.parts, core, core)).problems()
    assert twice == ["parts: layers.{layer}.mlp.core is declared 2 times"]
