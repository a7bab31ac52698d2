from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from energyscope.adapters import SDPA
from energyscope.functions import FunctionCall
from energyscope.impact.quantizing.matrices import (
    matrices_of,
    own_matrices,
    owners,
    reason_against,
    shared_weights,
    sharing_notes,
    why_unreadable,
)
from energyscope.reasons import reason


class Tied(nn.Module):
    """An embedding and a head with one weight between them, and a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(8, 4)
        self.norm = nn.LayerNorm(4)
        self.head = nn.Linear(4, 8, bias=False)
        self.head.weight = self.embed.weight


def test_matrices_are_weights_of_two_dimensions_or_more() -> None:
    """GIVEN scales, biases (of experts too) and empty weights THEN none of them is a matrix."""
    module = nn.Sequential(nn.Linear(3, 2), nn.LayerNorm(2), nn.Embedding(4, 2), nn.Linear(0, 2))
    module.experts = nn.Parameter(torch.ones(2, 3, 4))
    module.experts_bias = nn.Parameter(torch.ones(2, 3))
    assert [matrix.path for matrix in matrices_of(module)] == ["experts", "0.weight", "2.weight"]
    assert list(own_matrices(module)) == ["experts"]
    assert [type(owner).__name__ for owner in owners(module)] == ["Sequential", "Linear", "Embedding"]
    assert why_unreadable(matrices_of(module)) is None


@pytest.mark.parametrize("module", [nn.LayerNorm(4), nn.GELU(), FunctionCall(SDPA, nn.Identity())])
def test_without_a_matrix_there_is_a_reason(module: nn.Module) -> None:
    """GIVEN a norm, an activation or an attention core THEN that it has nothing to quantize is said."""
    assert why_unreadable(matrices_of(module)) == reason_against(matrices_of(module)) == "no-weight-matrix"


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_weights_that_are_not_finite_are_refused(bad: float) -> None:
    """GIVEN NaN or infinity in a weight THEN the reason names the weight."""
    module = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    module[1].weight.data[0, 1] = bad
    assert reason_against(matrices_of(module)) == reason("weights-not-finite", weights=1, first="1.weight")


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.float8_e4m3fn])
def test_weights_of_a_byte_are_quantized_already(dtype: torch.dtype) -> None:
    """GIVEN a weight in eight bits THEN reading it as numbers, and quantizing it again, are refused."""
    module = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    module[0].weight = nn.Parameter(torch.ones(2, 2).to(dtype), requires_grad=False)
    expected = reason("weights-quantized", weights=1, first="0.weight")
    assert why_unreadable(matrices_of(module)) == reason_against(matrices_of(module)) == expected


def test_weights_of_bitsandbytes_are_known_whatever_they_are_stored_as() -> None:
    """GIVEN 4-bit weights stored as bfloat16 THEN they are told from ordinary ones."""
    bitsandbytes = pytest.importorskip("bitsandbytes")
    layer = bitsandbytes.nn.Linear4bit(64, 64, quant_type="nf4", quant_storage=torch.bfloat16).to("cpu")
    assert reason_against(matrices_of(layer)).code == "weights-quantized"


def test_weights_on_no_device_are_refused() -> None:
    """GIVEN weights on the meta device THEN nothing is read from them."""
    with torch.device("meta"):
        module = nn.Linear(2, 2)
    assert reason_against(matrices_of(module)).code == "weights-not-in-memory"


def test_shared_weights_are_noted_with_who_else_holds_them() -> None:
    """GIVEN a tied head THEN its note names the embedding, the embedding's the head, and the model has none."""
    model = Tied()
    shared = shared_weights(model)
    assert {frozenset(holders) for holders in shared.values()} == {frozenset({"embed", "head"})}
    assert sharing_notes(model.head, matrices_of(model.head), shared) == [
        reason("weight-shared", weight="weight", modules=["embed"])
    ]
    assert sharing_notes(model.embed, matrices_of(model.embed), shared)[0].values["modules"] == ["head"]
    assert sharing_notes(model, matrices_of(model), shared) == []
    assert sharing_notes(model.norm, [], shared) == []
