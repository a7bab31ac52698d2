from __future__ import annotations

from typing import Any

import pytest
import tiny_models
import torch
from energyscope_adapters import distilbert, gpt2, llama
from torch import Tensor, nn

from energyscope.adapters import Adapter, Part
from energyscope.components import component_tree
from energyscope.impact.reuse import LayerStarts

ADAPTERS = {"gpt2": gpt2.adapter, "llama": llama.adapter, "distilbert": distilbert.adapter}
PLENTY = 1 << 30


def batches(count: int = 3) -> list[dict[str, Tensor]]:
    generator = torch.Generator().manual_seed(5)
    ids = [torch.randint(1, 20, (2, 4 + index), generator=generator) for index in range(count)]
    return [{"input_ids": tokens, "attention_mask": torch.ones_like(tokens)} for tokens in ids]


def recorded(name: str, budget: int = PLENTY) -> tuple[Any, LayerStarts, list[Tensor]]:
    layers = {"gpt2": "n_layer", "llama": "num_hidden_layers", "distilbert": "n_layers"}[name]
    torch.manual_seed(0)
    model = tiny_models.model_class(name)(tiny_models.config(name, **{layers: 4})).eval()
    starts = LayerStarts(component_tree(model, ADAPTERS[name], "fine"), [8, 10, 12], budget)
    logits = []
    with torch.no_grad():
        for index, batch in enumerate(batches()):
            with starts.recording(index):
                logits.append(model(**batch).logits)
    return model, starts, logits


def kept_bytes(starts: LayerStarts) -> int:
    return sum(tensor.nbytes for kept in starts._kept.values() for tensor in kept.values())


class Counted:
    """Counts the calls of a model's layers that compute something."""

    def __init__(self, starts: LayerStarts) -> None:
        self.calls: list[int] = []
        for number, part in enumerate(starts.layers):
            first = next(
                module for module in part.module.modules() if isinstance(module, nn.LayerNorm | nn.Linear)
            )
            first.register_forward_hook(lambda *_, number=number: self.calls.append(number))


@pytest.mark.parametrize("name", list(ADAPTERS))
def test_a_pass_that_begins_at_a_layer_gives_the_same_bits(name: str) -> None:
    """GIVEN every layer, and the place after the last, THEN a pass from there gives the full pass's logits."""
    model, starts, logits = recorded(name)
    assert starts.reason is None
    for index, batch in enumerate(batches()):
        for layer in range(len(starts.layers) + 1):
            with torch.no_grad(), starts.beginning(index, layer):
                assert torch.equal(model(**batch).logits, logits[index]), (index, layer)
        with torch.no_grad():
            assert torch.equal(model(**batch).logits, logits[index])


@pytest.mark.parametrize("name", list(ADAPTERS))
def test_layers_before_the_start_compute_nothing(name: str) -> None:
    """GIVEN a start at the last layer THEN only that one runs; after the last, none."""
    model, starts, _ = recorded(name)
    counted = Counted(starts)
    last = len(starts.layers) - 1
    for start, ran in ((last, {last}), (last + 1, set()), (0, set(range(last + 1)))):
        counted.calls.clear()
        with torch.no_grad(), starts.beginning(1, start):
            model(**batches()[1])
        assert set(counted.calls) == ran


@pytest.mark.parametrize("name", list(ADAPTERS))
def test_components_outside_of_layers_have_their_place(name: str) -> None:
    """Embeddings come before all layers, the head after all; a layer's parts begin at their layer."""
    _, starts, _ = recorded(name)
    everything = len(starts.layers)
    places = {name: starts.of(name, None) for name in starts._outside}
    heads = {"gpt2": "lm_head", "llama": "lm_head", "distilbert": "classifier"}
    assert places[heads[name]] == everything
    assert all(
        place == 0 for part, place in places.items() if "embed" in part or "wte" in part or "rotary" in part
    )
    assert starts.of(starts.layers[1].name, 1) == 1


def test_little_memory_keeps_fewer_starts_and_the_same_bits() -> None:
    """GIVEN memory for a third of the inputs THEN a pass begins at the nearest kept layer before."""
    _, plenty, _ = recorded("gpt2")
    model, starts, logits = recorded("gpt2", kept_bytes(plenty) // 2)
    assert 0 < kept_bytes(starts) <= kept_bytes(plenty) // 2
    for layer in range(len(starts.layers) + 1):
        with torch.no_grad(), starts.beginning(2, layer):
            assert torch.equal(model(**batches()[2]).logits, logits[2])
    model, starts, logits = recorded("gpt2", 0)
    assert kept_bytes(starts) == 0
    with torch.no_grad(), starts.beginning(0, 2):
        assert torch.equal(model(**batches()[0]).logits, logits[0])


def test_an_error_gives_the_layers_their_forward_back() -> None:
    """GIVEN an error within the context THEN later passes are full ones again."""
    model, starts, logits = recorded("llama")

    def fail_within() -> None:
        with starts.beginning(0, 2):
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_within()
    assert all("forward" not in part.module.__dict__ for part in starts.layers)
    with torch.no_grad():
        assert torch.equal(model(**batches()[1]).logits, logits[1])


class Between(nn.Module):
    """Three linear layers, with something done between them, or one of them called twice."""

    def __init__(self, variant: str) -> None:
        super().__init__()
        self.variant = variant
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])

    def forward(self, x: Tensor) -> Tensor:
        for number, layer in enumerate(self.layers):
            x = layer(x)
            if self.variant == "between":
                x = x * 2
            if self.variant == "twice" and number == 1:
                x = layer(x)
        return x


@pytest.mark.parametrize(
    ("variant", "code"), [("between", "layers-not-chained"), ("twice", "layers-not-in-order")]
)
def test_models_whose_layers_are_not_handed_on_run_whole_passes(variant: str, code: str) -> None:
    """GIVEN layers with something between them, or called twice, THEN it is said, and every pass is full."""
    adapter = Adapter("between", ("x",), "classification", "layers", (Part("layer", "layers.{layer}", "coarse"),))
    model = Between(variant)
    starts = LayerStarts(component_tree(model, adapter, "coarse"), [1], PLENTY)
    x = torch.ones(1, 4)
    with torch.no_grad():
        with starts.recording(0):
            whole = model(x)
        assert starts.reason == code
        assert starts.of("layers.2", 2) == 0
        with starts.beginning(0, 2):
            assert torch.equal(model(x), whole)


def test_a_model_without_layers_says_so() -> None:
    """GIVEN one layer only THEN there is nothing to save."""
    adapter = Adapter("one", ("x",), "classification", "layers", (Part("layer", "0", "coarse"),))
    model = nn.Sequential(nn.Linear(4, 4))
    assert LayerStarts(component_tree(model, adapter, "coarse"), [1], PLENTY).reason == "no-chain-of-layers"
