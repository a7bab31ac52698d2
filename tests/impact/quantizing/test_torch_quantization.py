"""Quantization of a component by PyTorch's own kernels: exchanged, tried, and put back."""

from __future__ import annotations

import pytest
import torch
from test_quantized import MASK, possible, states
from tiny_models import VOCABULARY, config, model_class
from torch import nn

from energyscope.errors import ModelError
from energyscope.impact.methods import TORCH_KERNELS
from energyscope.impact.outputs import Effect
from energyscope.impact.quantizing import quantization, real_quantization
from energyscope.loading.options import BY_TORCH
from energyscope.loading.torch_kernels import torch_linear
from energyscope.reasons import reason

METHODS = dict(zip(TORCH_KERNELS, BY_TORCH, strict=True))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_all_linears_of_a_component_are_exchanged_and_come_back(family: str, method: str) -> None:
    """GIVEN layers and a tied head THEN each changes the logits while it is quantized, and then no more."""
    wide = {"gpt2": {"n_embd": 64}, "llama": {"hidden_size": 64, "intermediate_size": 128}}[family]
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        model = (
            model_class(family)(config(family, vocab_size=64, **wide)).eval().requires_grad_(requires_grad=False)
        )
    ids = torch.randint(0, min(64, VOCABULARY), (2, 3), generator=torch.Generator().manual_seed(0))
    before = model(ids, use_cache=False).logits
    layers = model.transformer.h if family == "gpt2" else model.model.layers
    for module in [*layers, model.get_output_embeddings()]:
        effect = Effect()
        with possible(module, method).applied(MASK, effect):
            assert not torch.equal(model(ids, use_cache=False).logits, before)
        assert effect.why_invalid() is None
    assert torch.equal(model(ids, use_cache=False).logits, before)


@pytest.mark.parametrize(("method", "precision"), METHODS.items())
def test_the_output_is_that_of_the_deployed_layer(method: str, precision: str) -> None:
    """GIVEN a linear WHEN it is quantized THEN its outputs are those of the layer that is loaded, bit for bit."""
    module, inputs = nn.Linear(64, 32).requires_grad_(requires_grad=False), states(2, 3, 64)
    with possible(module, method).applied(MASK, Effect()):
        outputs = module(inputs)
    assert torch.equal(outputs, torch_linear(module, precision)(inputs))


@pytest.mark.parametrize(("method", "precision"), METHODS.items())
def test_why_a_component_cannot_be_quantized_is_said(
    method: str, precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIVEN a size that kernels do not take, no linear at all, or a kernel that fails THEN each has its reason."""
    size = reason("kernel-size", precision=precision, weight="weight", rows=24, inputs=64)
    assert quantization(nn.Linear(64, 24), method) == size
    assert quantization(nn.Embedding(4, 64), method) == "no-linear-layer"

    def failing(*_: object) -> nn.Module:
        raise ModelError("PyTorch cannot compute it")

    monkeypatch.setattr(real_quantization, "torch_linear", failing)
    why = quantization(nn.Linear(64, 32), method)
    assert why == reason("kernel-fails", precision=precision, error="PyTorch cannot compute it")
