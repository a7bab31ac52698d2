"""The adapter contract and the registry."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.metadata import EntryPoint
from typing import Any

import pytest

from energyscope import adapters
from energyscope.adapters import Adapter, Part, Task
from energyscope.errors import ModelError, UsageError

Register = Callable[..., None]

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


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[Register]:
    """Let a test decide which entry points are installed."""

    def register(*points: EntryPoint) -> None:
        monkeypatch.setattr(adapters, "entry_points", lambda group: points)
        adapters.registry.cache_clear()
        adapters.load_adapter.cache_clear()

    yield register
    adapters.registry.cache_clear()
    adapters.load_adapter.cache_clear()


def point(name: str, value: str) -> EntryPoint:
    return EntryPoint(name, value, adapters.GROUP)


def test_shipped_adapters_are_found_as_entry_points() -> None:
    """WHEN the package is installed THEN its adapters are found like anybody else's."""
    assert {"distilbert", "gpt2", "llama"} <= set(adapters.registry())


def test_shipped_adapters_are_valid_and_named_as_registered() -> None:
    """Every adapter's own name is its entry point's, and its declaration has no problem."""
    for name in adapters.registry():
        adapter = adapters.load_adapter(name)
        assert adapter.name == name
        assert adapter.problems() == []


def test_shipped_adapters_load_without_torch() -> None:
    """WHEN all adapters are imported THEN torch and transformers are not."""
    code = (
        "import sys; from energyscope.adapters import all_adapters; all_adapters();"
        "print([name for name in ('torch', 'transformers') if name in sys.modules])"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert output.stdout.strip() == "[]"


def test_finer_granularity_keeps_coarser_parts() -> None:
    """WHEN the granularity grows finer THEN parts are added and none is lost."""
    kinds = [[part.kind for part in MINIMAL.parts_at(level)] for level in adapters.GRANULARITIES]
    assert kinds == [["layer"], ["layer", "mlp"], ["layer", "mlp", "mlp.up"]]


@pytest.mark.parametrize(("task", "metric"), [("classification", "accuracy"), ("next-token", "perplexity")])
def test_metric_follows_from_task(task: Task, metric: str) -> None:
    """The quality of predictions is accuracy for classes and perplexity for tokens."""
    assert replace(MINIMAL, task=task).metric == metric


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"parts": (*MINIMAL.parts, Part("atention", "x", "fine"))}, "unknown kind 'atention'"),
        ({"parts": (*MINIMAL.parts, Part("other", "layers.{layer}", "fine"))}, "path declared twice"),
        ({"parts": (Part("mlp", "mlp", "coarse"),)}, "no part of kind 'layer'"),
        ({"parts": (*MINIMAL.parts, Part("other", "x", "fine", function="sdpa"))}, "not a function's dotted path"),
        ({"model_types": ()}, "no model_types"),
    ],
)
def test_problems_are_named(change: dict[str, Any], problem: str) -> None:
    """GIVEN a wrong declaration THEN its problems say what is wrong; the right one has none."""
    assert MINIMAL.problems() == []
    assert any(problem in message for message in replace(MINIMAL, **change).problems())


def test_a_function_is_named_apart_from_its_module() -> None:
    """GIVEN a module and two functions that it calls THEN no path is declared twice; one function twice is."""
    core = Part("attention.core", "layers.{layer}.mlp", "fine", function=adapters.SDPA)
    activation = Part("mlp.activation", "layers.{layer}.mlp", "fine", function="torch.nn.functional.silu")
    assert core.name == "layers.{layer}.mlp.core"
    assert replace(MINIMAL, parts=(*MINIMAL.parts, core, activation)).problems() == []
    twice = replace(MINIMAL, parts=(*MINIMAL.parts, core, core)).problems()
    assert twice == ["path declared twice: layers.{layer}.mlp.core"]


def test_unknown_adapter_suggests_the_nearest() -> None:
    """WHEN a name is mistyped THEN the error suggests the right one."""
    with pytest.raises(UsageError, match="did you mean 'gpt2'"):
        adapters.load_adapter("gtp2")


def test_same_name_twice_is_refused(registered: Register) -> None:
    """GIVEN two packages with one adapter name THEN neither silently wins."""
    registered(point("same", "one:adapter"), point("same", "two:adapter"))
    with pytest.raises(ModelError, match="two packages register the adapter 'same'"):
        adapters.registry()


@pytest.mark.parametrize(
    ("value", "complaint"),
    [("no_such_module:adapter", "cannot be imported"), ("math:pi", "is not an energyscope.adapters.Adapter")],
)
def test_broken_adapter_is_one_clear_error(registered: Register, value: str, complaint: str) -> None:
    """GIVEN an entry point that does not lead to an adapter THEN the error names it and why."""
    registered(point("broken", value))
    with pytest.raises(ModelError, match=complaint):
        adapters.load_adapter("broken")


def test_model_type_without_adapter_lists_the_known_ones() -> None:
    """WHEN no adapter serves a model THEN the error says which are served and what to do."""
    with pytest.raises(ModelError, match=r"'mamba' \(known: .*gpt2.*adapters/README.md"):
        adapters.adapter_for("mamba")


def test_two_adapters_for_one_model_type_are_refused(registered: Register) -> None:
    """GIVEN two adapters that serve one type THEN asking for it says so."""
    registered(
        point("gpt2", "energyscope_adapters.gpt2:adapter"), point("other", "energyscope_adapters.gpt2:adapter")
    )
    with pytest.raises(ModelError, match="both serve model type 'gpt2'"):
        adapters.adapter_for("gpt2")
