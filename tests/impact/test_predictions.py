from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from energyscope.impact.predictions import checksum, compared_positions
from energyscope.impact.scores import per_example, score


def logits_of(*rows: list[float]) -> torch.Tensor:
    """Logits whose softmax is the given probabilities."""
    return torch.tensor(rows, dtype=torch.float64).log()


def test_known_divergence_and_likelihood() -> None:
    """GIVEN (1/2, 1/2) against (1/4, 3/4), THEN the KL is ln(2/sqrt(3)) and the likelihoods are as read off."""
    found = score(logits_of([0.5, 0.5]), logits_of([0.25, 0.75]), torch.tensor([0]))
    assert found.kl.item() == pytest.approx(math.log(2 / math.sqrt(3)))
    assert found.nll.item() == pytest.approx(math.log(4))
    assert found.reference_nll.item() == pytest.approx(math.log(2))


def test_kl_is_of_the_changed_from_the_original() -> None:
    """GIVEN an answer that only the original rules out, THEN KL is finite; the other way round it is infinite."""
    certain, open_ = logits_of([1.0, 0.0]), logits_of([0.5, 0.5])
    assert score(certain, open_, None).kl.item() == pytest.approx(math.log(2))
    assert score(open_, certain, None).kl.item() == math.inf


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_non_finite_logits_are_not_taken_for_agreement(value: float) -> None:
    """GIVEN logits that are NaN or infinite on either side, THEN the divergence is not finite, never 0."""
    fine, broken = torch.zeros(1, 3), torch.tensor([[0.0, value, 0.0]])
    for pair in ((fine, broken), (broken, fine), (broken, broken)):
        assert not math.isfinite(score(*pair, None).kl.item())


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(-50, 50, width=32), min_size=6, max_size=6))
def test_same_logits_diverge_by_nothing(values: list[float]) -> None:
    """The divergence of anything from itself is exactly 0, and never negative from anything else."""
    logits = torch.tensor(values).view(2, 3)
    assert score(logits, logits, None).kl.tolist() == [0.0, 0.0]
    assert (score(logits, logits.flip(1), None).kl >= 0).all()


def test_next_token_positions_leave_padding_out() -> None:
    """GIVEN 3 real tokens of 5, THEN 2 predictions count, with the tokens that follow as targets."""
    batch = {
        "input_ids": torch.tensor([[7, 8, 9, 0, 0], [1, 2, 3, 4, 5]]),
        "attention_mask": torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]]),
    }
    found = compared_positions(batch, None, "next-token")
    assert found.mask.tolist() == [[True, True, False, False], [True] * 4]
    assert found.targets is not None
    assert found.targets.tolist() == [8, 9, 2, 3, 4, 5]


def test_classification_counts_one_prediction_an_example() -> None:
    """GIVEN a batch for classification, THEN every example is one prediction and the labels are the targets."""
    batch = {"input_ids": torch.ones(2, 5, dtype=torch.long)}
    found = compared_positions(batch, torch.tensor([1, 0]), "classification")
    assert found.mask.tolist() == [[True], [True]]
    assert found.targets is not None
    assert found.targets.tolist() == [1, 0]


def test_examples_average_divergence_and_sum_likelihood() -> None:
    """GIVEN an example without predictions between two others, THEN it is left out and they keep to their own."""
    reference = logits_of([0.5, 0.5], [0.5, 0.5], [0.5, 0.5])
    changed = logits_of([0.5, 0.5], [0.25, 0.75], [0.25, 0.75])
    mask = torch.tensor([[True, True], [False, False], [False, True]])
    found = per_example(score(reference, changed, torch.tensor([0, 1, 0])), mask)
    once = math.log(2 / math.sqrt(3))
    np.testing.assert_allclose(found.kl, [once / 2, once])
    np.testing.assert_allclose(found.nll, [math.log(2) + math.log(4 / 3), math.log(4)])
    np.testing.assert_allclose(found.predictions, [2, 1])
    np.testing.assert_allclose(found.correct, [2, 0])
    np.testing.assert_allclose(found.reference_correct, [1, 1])
    np.testing.assert_allclose(found.agreement, [0.5, 0])


def test_pieces_do_not_change_the_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN outputs too large for one piece, THEN the scores are those computed at once."""
    generator = torch.Generator().manual_seed(0)
    reference, changed = torch.randn(2, 11, 7, generator=generator)
    targets = torch.arange(11) % 7
    whole = score(reference, changed, targets)
    monkeypatch.setattr("energyscope.impact.predictions.PIECE", 20)
    pieces = score(reference, changed, targets)
    assert torch.equal(whole.kl, pieces.kl)
    assert torch.equal(whole.nll, pieces.nll)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_checksum_sees_one_bit_and_order(dtype: torch.dtype) -> None:
    """GIVEN a tensor, THEN a copy has its checksum, and one changed bit or two exchanged values have another."""
    tensor = torch.arange(1.0, 13.0).view(3, 4).to(dtype)
    altered, exchanged = tensor.clone(), tensor.flip(0)
    altered[1, 1] = torch.nextafter(tensor[1, 1], torch.tensor(99.0, dtype=dtype))
    assert checksum(tensor) == checksum(tensor.clone())
    assert checksum(tensor) not in {checksum(altered), checksum(exchanged)}
