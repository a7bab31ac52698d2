from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from energyscope.errors import UsageError
from energyscope.impact.methods import SIMULATED
from energyscope.impact.quantizing.quantizers import (
    _QUANTIZERS,
    ACTIVATION_METHODS,
    FP8_MAXIMUM,
    INT4_GROUP,
    NF4_BLOCK,
    NF4_LEVELS,
    quantize_activation,
    quantize_weight,
)

WEIGHT_METHODS = tuple(_QUANTIZERS)
DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@st.composite
def weights(draw: st.DrawFn, dtype: torch.dtype = torch.float32) -> Tensor:
    """Matrices of all shapes that matter to groups and blocks, of any size, with outliers and zeros."""
    rows, columns = draw(st.integers(1, 5)), draw(st.sampled_from([1, 2, 63, 64, 65, 127, 128, 129, 200, 300]))
    values = normal(rows, columns, seed=draw(st.integers(0, 1000)))
    values[values > draw(st.floats(0, 3))] *= draw(st.floats(1, 100))
    values[torch.rand(rows, columns, generator=torch.Generator().manual_seed(1)) < draw(st.floats(0, 1))] = 0
    return (values * 10 ** draw(st.integers(-3, 2))).to(dtype)


def half_steps(weight: Tensor, method: str) -> Tensor:
    """Half a quantization step at every place of a matrix: the farthest that a value may be moved."""
    if method == "int8-tensor":
        return weight.abs().max() / 127 / 2
    if method == "int8":
        return weight.abs().amax(1, keepdim=True) / 127 / 2
    groups = [group.abs().amax(1, keepdim=True).expand_as(group) for group in weight.split(INT4_GROUP, 1)]
    return torch.cat(groups, 1) / 7 / 2


@settings(max_examples=60, deadline=None)
@given(weights(), st.sampled_from(["int8", "int8-tensor", "int4"]))
def test_symmetric_integers_move_a_value_by_half_a_step_at_most(weight: Tensor, method: str) -> None:
    """No value is farther from its rounded one than half of its own scale."""
    moved = (quantize_weight(weight, method, input_dim=1) - weight).abs()
    assert (moved <= half_steps(weight, method) * (1 + 1e-5)).all()


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(DTYPES).flatmap(weights), st.sampled_from(WEIGHT_METHODS))
def test_rounding_again_changes_nothing(weight: Tensor, method: str) -> None:
    """What a method gives back it gives back again; FP8's scale may move by the last bit."""
    once = quantize_weight(weight, method, input_dim=1)
    again = quantize_weight(once, method, input_dim=1)
    if method == "fp8":
        torch.testing.assert_close(again, once, rtol=2 * torch.finfo(weight.dtype).eps, atol=1e-7)
    else:
        assert torch.equal(again, once)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(DTYPES).flatmap(weights), st.sampled_from(WEIGHT_METHODS))
def test_shape_dtype_signs_and_zeros_stay(weight: Tensor, method: str) -> None:
    """Nothing changes its sign, zero is zero, and the tensor keeps its shape and dtype."""
    rounded = quantize_weight(weight, method, input_dim=1)
    assert (rounded.shape, rounded.dtype) == (weight.shape, weight.dtype)
    assert not rounded[weight == 0].any()
    assert (rounded * weight >= 0).all()


@pytest.mark.parametrize("method", WEIGHT_METHODS)
@pytest.mark.parametrize("shape", [(1, 1), (3, 2), (2, 130), (0, 4)])
def test_all_zero_and_empty_weights_come_back(method: str, shape: tuple[int, int]) -> None:
    """GIVEN nothing but zeros, or nothing, THEN that comes back: no scale of 0 turns it into NaN."""
    assert torch.equal(quantize_weight(torch.zeros(shape), method, input_dim=1), torch.zeros(shape))


@pytest.mark.parametrize("method", WEIGHT_METHODS)
@pytest.mark.parametrize("value", [-3.7, 1e-30, 2.5e37])
def test_a_single_element_is_met(method: str, value: float) -> None:
    """GIVEN one weight THEN it is its own scale, and comes back."""
    weight = torch.tensor([[value]])
    torch.testing.assert_close(quantize_weight(weight, method, input_dim=1), weight, rtol=3e-7, atol=0)


@pytest.mark.parametrize("method", SIMULATED)
def test_the_smallest_numbers_of_all_do_not_become_nan(method: str) -> None:
    """GIVEN subnormal weights, whose scale may vanish, THEN the result is finite and no larger."""
    weight = torch.tensor([[1e-45, -3e-44, 0.0]])
    rounded = quantize_weight(weight, method, input_dim=1)
    assert rounded.isfinite().all()
    assert rounded.abs().max() <= 3.1e-44


def test_int8_by_hand() -> None:
    """GIVEN a row whose largest value is 1.27 THEN its steps are 0.01, and the next row's are its own."""
    weight = torch.tensor([[1.27, 0.634, -0.106], [12.7, 0.634, -1.06]])
    rounded = quantize_weight(weight, "int8", input_dim=1)
    torch.testing.assert_close(rounded, torch.tensor([[1.27, 0.63, -0.11], [12.7, 0.6, -1.1]]))
    whole = quantize_weight(weight, "int8-tensor", input_dim=1)
    torch.testing.assert_close(whole[0], torch.tensor([1.3, 0.6, -0.1]))


@pytest.mark.parametrize("method", WEIGHT_METHODS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_transposed_weight_is_quantized_alike(method: str, dtype: torch.dtype) -> None:
    """GIVEN the same matrix as (out, in) and as (in, out) THEN it comes out the same, strides and all."""
    weight = normal(6, 200).to(dtype)
    stored = weight.T.contiguous()
    rounded = quantize_weight(stored, method, input_dim=0)
    assert torch.equal(rounded.T, quantize_weight(weight, method, input_dim=1))
    assert rounded.stride() == stored.stride()


@pytest.mark.parametrize("input_dim", [1, 2])
def test_each_channel_of_each_expert_has_its_scale(input_dim: int) -> None:
    """GIVEN fused experts in either layout THEN each is quantized as if it stood alone."""
    experts = normal(3, 8, 8) * torch.tensor([1.0, 100.0, 0.01]).view(3, 1, 1)
    rounded = quantize_weight(experts, "int8", input_dim=input_dim)
    alone = [quantize_weight(expert, "int8", input_dim=input_dim - 1) for expert in experts]
    assert torch.equal(rounded, torch.stack(alone))


def test_int4_groups_have_scales_of_their_own() -> None:
    """GIVEN an outlier in the first 128 inputs THEN only these lose precision; the rest is a group of its own."""
    weight = normal(2, 130)
    spoiled = weight.clone()
    spoiled[0, 5] = 1000.0
    before, after = (quantize_weight(values, "int4", input_dim=1) for values in (weight, spoiled))
    assert not after[0, :128].count_nonzero() > 1
    assert torch.equal(after[0, 128:], before[0, 128:])
    assert torch.equal(after[1], before[1])


def e4m3_values() -> Tensor:
    """Every finite value of the format, by its definition: 4 bits of exponent (bias 7), 3 of mantissa."""
    normals = [(1 + m / 8) * 2.0 ** (e - 7) for e in range(1, 16) for m in range(8) if (e, m) != (15, 7)]
    positive = [m / 8 * 2.0**-6 for m in range(8)] + normals
    return torch.tensor(sorted({sign * value for value in positive for sign in (-1, 1)}), dtype=torch.float64)


def test_fp8_rounds_to_the_nearest_value_of_the_format() -> None:
    """GIVEN values whose largest is 448, so that the scale is 1, THEN each becomes e4m3's nearest value."""
    values = e4m3_values()
    assert float(values.max()) == FP8_MAXIMUM
    weight = torch.cat([normal(1, 500) * 30, torch.tensor([[FP8_MAXIMUM, 1e-3, -2e-3]])], 1)
    rounded = quantize_weight(weight, "fp8", input_dim=1)
    distance = (weight.double().T - values).abs().amin(1)
    assert torch.equal((rounded.double() - weight.double()).abs()[0], distance)


@pytest.mark.parametrize("dtype", DTYPES)
def test_fp8_is_torchs_cast(dtype: torch.dtype) -> None:
    """GIVEN the scale 448 / 7 THEN dequantized values are torch's cast of the scaled ones, ties included."""
    weight = torch.cat([normal(4, 60).clamp(-6, 6), torch.full((4, 1), 7.0)], 1).to(dtype)
    expected = (weight.float() * 64).to(torch.float8_e4m3fn).float() / 64
    assert torch.equal(quantize_weight(weight, "fp8", input_dim=1), expected.to(dtype))


def test_nf4_levels_are_quantiles_of_a_normal_distribution() -> None:
    """The levels follow from their definition (Dettmers et al. 2023): 8 positive ones, 0, and 7 negative ones."""
    offset = 1 - (1 / 32 + 1 / 30) / 2  # the mean of the two halves' outermost probabilities

    def quantiles(number: int) -> Tensor:
        return torch.special.ndtri(torch.linspace(offset, 0.5, number + 1, dtype=torch.float64))[:-1]

    levels = torch.cat([-quantiles(7), torch.zeros(1), quantiles(8).flip(0)])
    levels /= levels.max()
    torch.testing.assert_close(torch.tensor(NF4_LEVELS, dtype=torch.float64), levels, rtol=0, atol=1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(32, 64), (3, 192), (130,), (7 * 96,)])
def test_nf4_is_bitsandbytes(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    """GIVEN the same tensor THEN bitsandbytes gives the same bits, a short last block included."""
    functional = pytest.importorskip("bitsandbytes").functional
    weight = (normal(*shape) * 0.05).to(dtype)
    packed, state = functional.quantize_4bit(weight, blocksize=NF4_BLOCK, quant_type="nf4")
    expected = functional.dequantize_4bit(packed, state).view(shape)
    assert torch.equal(quantize_weight(weight, "nf4", input_dim=-1), expected)


def test_more_bits_and_finer_scales_are_closer() -> None:
    """GIVEN normal weights of different rows THEN the methods' errors come in the order of their precision."""
    weight = normal(64, 512) * torch.linspace(0.5, 2, 64).view(-1, 1)
    errors = {method: (quantize_weight(weight, method, input_dim=1) - weight).norm() for method in WEIGHT_METHODS}
    assert errors["int8"] < errors["int8-tensor"] < errors["fp8"] < errors["nf4"] < errors["int4"]


@pytest.mark.parametrize("method", WEIGHT_METHODS)
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_entries_that_are_not_finite_pass_and_set_no_scale(method: str, bad: float) -> None:
    """GIVEN one such entry THEN it stays, and the others are what they are beside a zero."""
    weight = normal(3, 70)
    weight[1, 4] = 0.0
    expected = quantize_weight(weight, method, input_dim=1)
    weight[1, 4] = bad
    rounded = quantize_weight(weight, method, input_dim=1)
    assert torch.equal(rounded.nan_to_num(7.0, 8.0, 9.0)[1, 4], torch.tensor(bad).nan_to_num(7.0, 8.0, 9.0))
    rounded[1, 4] = 0.0
    assert torch.equal(rounded, expected)


def test_activations_have_a_scale_for_each_token_in_int8_and_one_in_fp8() -> None:
    """GIVEN a token a thousand times larger THEN INT8 keeps the others' precision, and FP8 loses the smallest."""
    states = normal(2, 3, 8)
    spoiled = states.clone()
    spoiled[1, 2] *= 1e6
    before, after = (quantize_activation(values, "int8-wa") for values in (states, spoiled))
    assert torch.equal(after[0], before[0])
    assert torch.equal(after[1, :2], before[1, :2])
    assert not torch.equal(quantize_activation(spoiled, "fp8-wa")[0], quantize_activation(states, "fp8-wa")[0])


@pytest.mark.parametrize("method", ACTIVATION_METHODS)
def test_a_padded_position_of_nan_spoils_no_other(method: str) -> None:
    """GIVEN NaN at one position THEN the others are quantized as if it were not there."""
    states = normal(1, 4, 8)
    states[0, 3] = math.nan
    rounded = quantize_activation(states, method)
    assert rounded[0, 3].isnan().all()
    assert torch.equal(rounded[:, :3], quantize_activation(states[:, :3], method))


def test_weights_of_a_method_with_activations_are_the_plain_ones() -> None:
    """The weights' half of ``-wa`` is the method without it."""
    weight = normal(4, 40)
    for method, plain in ACTIVATION_METHODS.items():
        rounded = quantize_weight(weight, method, input_dim=1)
        assert torch.equal(rounded, quantize_weight(weight, plain, input_dim=1))


def test_unknown_methods_are_refused_with_the_known_ones() -> None:
    """GIVEN a method that is none, or that leaves activations alone, THEN the error names those that do it."""
    with pytest.raises(UsageError, match="int8-tensor"):
        quantize_weight(torch.ones(1, 1), "int3", input_dim=1)
    with pytest.raises(UsageError, match="int8-wa, fp8-wa"):
        quantize_activation(torch.ones(1, 1), "int8")


def test_the_names_are_those_of_the_command_line() -> None:
    """Every simulated method that users may name is there, and no other."""
    assert {*WEIGHT_METHODS, *ACTIVATION_METHODS} == set(SIMULATED)
