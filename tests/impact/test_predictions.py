from __future__ import annotations

import pytest
import torch

from energyscope.impact.predictions import checksum, positions_in
from energyscope.workloads import Evaluation


def test_next_token_positions_leave_padding_out() -> None:
    """GIVEN 3 real tokens of 5, THEN 2 predictions count, with the tokens that follow as targets."""
    batch = {
        "input_ids": torch.tensor([[7, 8, 9, 0, 0], [1, 2, 3, 4, 5]]),
        "attention_mask": torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]]),
    }
    positions = positions_in(Evaluation("test", "next-token", (batch,), None, 2), 0)
    assert positions.mask.tolist() == [[True, True, False, False], [True] * 4]
    assert positions.targets is not None
    assert positions.targets.tolist() == [8, 9, 2, 3, 4, 5]


def test_classification_counts_one_prediction_an_example() -> None:
    """GIVEN a batch for classification, THEN every example is one prediction and the labels are the targets."""
    batch = {"input_ids": torch.ones(2, 5, dtype=torch.long)}
    positions = positions_in(Evaluation("test", "classification", (batch,), (torch.tensor([1, 0]),), 2), 0)
    assert positions.mask.tolist() == [[True], [True]]
    assert positions.targets is not None
    assert positions.targets.tolist() == [1, 0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_checksum_sees_one_bit_and_order(dtype: torch.dtype) -> None:
    """GIVEN a tensor, THEN a copy has its checksum, and one changed bit or two exchanged values have another."""
    tensor = torch.arange(1.0, 13.0).view(3, 4).to(dtype)
    altered, exchanged = tensor.clone(), tensor.flip(0)
    altered[1, 1] = torch.nextafter(tensor[1, 1], torch.tensor(99.0, dtype=dtype))
    assert checksum(tensor) == checksum(tensor.clone())
    assert checksum(tensor) not in {checksum(altered), checksum(exchanged)}
