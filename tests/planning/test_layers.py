"""A linear at another precision, and models in which some linears are exchanged for such layers."""

from __future__ import annotations

import pytest
import torch
from tiny_models import save_model

from energyscope.errors import ModelError
from energyscope.loading import load_model
from energyscope.loading.torch_kernels import Int4Linear
from energyscope.planning.groups import groups_of
from energyscope.planning.layers import CastLinear, bytes_of, candidates, exchange, exchanged, layer_in

CPU = torch.device("cpu")
WIDE = {"hidden_size": 128, "intermediate_size": 256, "num_attention_heads": 4, "num_key_value_heads": 2}
ERRORS = {"bf16": 0.02, "int8": 0.1, "w8a8": 0.1, "w8a16": 0.05, "int4": 0.3}


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    return load_model(str(save_model(tmp_path_factory.mktemp("models") / "wide", "llama", **WIDE)), device="cpu")


def layers_of(model, groups, precision):
    """Return the layers of groups at one precision, by the paths of the linears that they stand for."""
    return {path: layer_in(model.get_submodule(path), precision, path) for group in groups for path in group.paths}


def logits(model):
    with torch.no_grad():
        return model(input_ids=torch.arange(4, 20)[None], use_cache=False).logits


def test_the_usual_precisions_of_a_cpu():
    """GIVEN an fp32 model on a CPU THEN what has kernels there; its own precision is no choice."""
    assert candidates((), "fp32", CPU) == (["bf16", "int8", "int4"], {})
    assert candidates((), "bf16", CPU)[0] == ["int4"]


def test_what_is_not_possible_has_a_reason():
    """GIVEN no shorter precision, a whole model's, and one that needs fp32 THEN each is left out with why."""
    possible, left_out = candidates(("fp32", "fp16-autocast", "int8", "int4"), "bf16", CPU)
    assert possible == ["int4"]
    assert {name: why.code for name, why in left_out.items()} == {
        "fp32": "plan-no-shorter", "fp16-autocast": "plan-no-layer", "int8": "plan-int8-fp32",
    }  # fmt: skip


@pytest.mark.parametrize("precision", ERRORS)
def test_a_model_computes_with_other_layers_and_is_as_it_was(loaded, precision):
    """GIVEN every linear exchanged THEN outputs are near; and afterwards bit by bit those before."""
    before = logits(loaded.model)
    layers = layers_of(loaded.model, groups_of(loaded.model, loaded.adapter), precision)
    with exchanged(loaded.model, layers):
        changed = logits(loaded.model)
    error = float((changed - before).norm() / before.norm())
    assert 0 < error < ERRORS[precision]
    assert torch.equal(logits(loaded.model), before)
    own = bytes_of(loaded.model.get_submodule(path) for path in layers)
    assert bytes_of(layers.values()) < 0.6 * own


def test_an_exchange_for_good_frees_the_linears(loaded, tmp_path):
    """GIVEN layers put in place THEN the model computes with them as it did while they were only called."""
    copy = load_model(str(save_model(tmp_path / "copy", "llama", **WIDE)), device="cpu")
    layers = layers_of(copy.model, groups_of(copy.model, copy.adapter)[:3], "int4")
    with exchanged(copy.model, layers):
        expected = logits(copy.model)
    exchange(copy.model, layers)
    assert torch.equal(logits(copy.model), expected)
    assert sum(isinstance(module, Int4Linear) for module in copy.model.modules()) == len(layers)


def test_a_short_linear_returns_what_it_is_given():
    """GIVEN float32 inputs THEN float32 outputs, of products in bfloat16 with the bias."""
    linear = torch.nn.Linear(8, 4)
    layer = layer_in(linear, "bf16", "a.linear")
    outputs = layer(torch.ones(2, 3, 8))
    assert isinstance(layer, CastLinear)
    assert (outputs.dtype, outputs.shape) == (torch.float32, (2, 3, 4))
    assert torch.allclose(outputs, linear(torch.ones(2, 3, 8)), atol=0.02)


def test_a_size_without_a_kernel_is_refused():
    """GIVEN inputs in no whole group THEN an error that names the linear, not a layer that stayed as it is."""
    with pytest.raises(ModelError, match=r"int4 has no kernel for the size of a\.linear"):
        layer_in(torch.nn.Linear(24, 16), "int4", "a.linear")


def test_a_layer_of_bitsandbytes_is_tried(monkeypatch):
    """GIVEN a kernel that computes wrongly THEN an error that names the linear, not a layer."""
    linear = torch.nn.Linear(128, 64, bias=False)
    assert isinstance(layer_in(linear, "nf4", "a.linear"), torch.nn.Module)
    monkeypatch.setattr("energyscope.planning.layers.layer_error", lambda *_: 0.9)
    with pytest.raises(ModelError, match=r"bitsandbytes computes a\.linear of 64 x 128 in nf4 wrongly"):
        layer_in(linear, "nf4", "a.linear")
