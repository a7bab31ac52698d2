"""The reference workload: what is in it, and that it is the same everywhere."""

from __future__ import annotations

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from energyscope.diagnostics.reference_layer import ON_CPU, ON_GPU, reference_layer, reference_shape

CPU = torch.device("cpu")


@pytest.mark.parametrize("shape", [ON_GPU, ON_CPU])
def test_it_is_a_layer_of_real_parts(shape):
    """GIVEN either layer THEN its output is finite, of its input's shape and type; all linears are used."""
    layer, states = reference_layer(shape, CPU)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        after = layer(states)
    assert (after.shape, after.dtype) == (states.shape, shape.dtype)
    assert after.isfinite().all()
    linears = 2 * states.shape[:2].numel() * (4 * shape.hidden**2 + 3 * shape.hidden * shape.inner)
    assert counter.get_total_flops() >= linears


def test_attention_is_causal():
    """WHEN the last token changes THEN those before it come out as they were, and it does not."""
    layer, states = reference_layer(ON_CPU, CPU)
    other = states.clone()
    other[:, -1] += 1
    with torch.no_grad():
        first, second = layer(states), layer(other)
    torch.testing.assert_close(first[:, :-1], second[:, :-1])
    assert not torch.allclose(first[:, -1], second[:, -1])


def test_its_values_never_change():
    """GIVEN other random numbers drawn before THEN weights and input are those of version 1, and others go on."""
    torch.manual_seed(7)
    expected = torch.rand(2)
    torch.manual_seed(7)
    torch.rand(1)
    layer, states = reference_layer(ON_CPU, CPU)
    assert torch.rand(1) == expected[1]
    sums = [float(tensor.double().abs().sum()) for tensor in (layer.qkv.weight, layer.down.weight, states)]
    assert sums == pytest.approx([17375.24509735805, 11598.672195243098, 52200.56343060447], rel=1e-6)


def test_gpus_and_processors_have_workloads_of_their_own():
    """Their joules are never compared: the names differ, and end with a version."""
    names = [reference_shape(torch.device(device)).name for device in ("cuda", "cpu")]
    assert names == ["transformer-layer-1", "small-transformer-layer-1"]
