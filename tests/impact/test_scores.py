"""Scores: what the logits of two models say, prediction by prediction."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from energyscope.impact import scores
from energyscope.impact.outputs import pieces
from energyscope.impact.scores import ReferenceScores, per_example, score


def logits_of(*rows: list[float]) -> torch.Tensor:
    """Logits whose softmax is the given probabilities."""
    return torch.tensor(rows, dtype=torch.float64).log()


def random_logits(rows: int, classes: int, spread: float = 3.0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    first, second = torch.randn(2, rows, classes, generator=generator) * spread
    return first, second, torch.randint(classes, (rows,), generator=generator)


def test_known_divergence_and_likelihood() -> None:
    """GIVEN (1/2, 1/2) against (1/4, 3/4), THEN KL, JS and the likelihoods are as computed by hand."""
    scored = score(logits_of([0.5, 0.5]), logits_of([0.25, 0.75]), torch.tensor([0]))
    assert scored.kl.item() == pytest.approx(math.log(2 / math.sqrt(3)))
    middle = 3 / 8 * math.log(3 / 8) + 5 / 8 * math.log(5 / 8)
    ends = (math.log(0.5) + 0.25 * math.log(0.25) + 0.75 * math.log(0.75)) / 2
    assert scored.js.item() == pytest.approx(ends - middle)
    assert scored.nll.item() == pytest.approx(math.log(4))
    assert scored.reference_nll.item() == pytest.approx(math.log(2))


def test_kl_is_of_the_changed_from_the_original() -> None:
    """GIVEN an answer that only the original rules out, THEN KL is finite; the other way round it is infinite."""
    certain, open_ = logits_of([1.0, 0.0]), logits_of([0.5, 0.5])
    assert score(certain, open_, None).kl.item() == pytest.approx(math.log(2))
    assert score(open_, certain, None).kl.item() == math.inf


def test_answers_that_both_rule_out_change_nothing() -> None:
    """GIVEN classes at -inf in both models, THEN every score is that of the other classes."""
    first, second, targets = random_logits(5, 8)
    hidden = torch.full((5, 3), -torch.inf)
    wide = score(torch.cat([first, hidden], 1), torch.cat([second, hidden], 1), targets)
    plain = score(first, second, targets)
    for name in ("kl", "js", "nll", "margin", "correct", "agreement"):
        torch.testing.assert_close(getattr(wide, name), getattr(plain, name), rtol=1e-12, atol=1e-14)


def test_divergence_is_between_nothing_and_ln_2() -> None:
    """GIVEN models that hold different answers for certain, THEN JS is ln 2, from either side."""
    first, second = logits_of([1.0, 0.0], [0.0, 1.0]), logits_of([0.0, 1.0], [1.0, 0.0])
    assert score(first, second, None).js.tolist() == pytest.approx([math.log(2)] * 2)
    far = torch.tensor([[0.0, -1e4, 3.0], [-1e4, 0.0, 3.0]])  # their probabilities are 0 in float64
    scored = score(far, far.flip(0), None)
    assert scored.js.isfinite().all()
    assert scored.kl[0].item() == pytest.approx(1e4 / (1 + math.exp(3)), rel=1e-3)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_non_finite_logits_are_not_taken_for_agreement(value: float) -> None:
    """GIVEN logits that are NaN or infinite on either side, THEN the divergence is not finite, never 0."""
    fine, broken = torch.zeros(1, 3), torch.tensor([[0.0, value, 0.0]])
    for pair in ((fine, broken), (broken, fine), (broken, broken)):
        assert not math.isfinite(score(*pair, None).kl.item())
        assert not math.isfinite(score(*pair, None).js.item())


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(-50, 50, width=32), min_size=6, max_size=6))
def test_same_logits_diverge_by_nothing(values: list[float]) -> None:
    """The divergences of anything from itself are exactly 0, and never negative from anything else."""
    logits = torch.tensor(values).view(2, 3)
    same, other = score(logits, logits, None), score(logits, logits.flip(1), None)
    assert same.kl.tolist() == same.js.tolist() == [0.0, 0.0]
    assert torch.equal(same.margin, same.reference_margin)
    assert (other.kl >= 0).all()
    assert ((other.js >= 0) & (other.js <= math.log(2))).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_rows_that_stay_the_same_are_exactly_nothing(dtype: torch.dtype) -> None:
    """GIVEN a large vocabulary of which every second row is changed, THEN the others' change is exactly 0."""
    first, second, targets = (tensor[:6] for tensor in random_logits(6, 50_257))
    first = first.to(dtype)
    changed = torch.where(torch.arange(6).view(-1, 1) % 2 == 0, first, second.to(dtype))
    scored = score(first, changed, targets)
    assert scored.kl[::2].tolist() == scored.js[::2].tolist() == [0.0] * 3
    assert torch.equal(scored.nll[::2], scored.reference_nll[::2])
    assert (scored.kl[1::2] > 0).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_scores_agree_with_their_definitions(dtype: torch.dtype) -> None:
    """GIVEN random logits, THEN the scores are what the textbook's formulas give in float64."""
    first, second, targets = random_logits(7, 1000)
    first, second = first.to(dtype), second.to(dtype)
    log_p, log_q = (logits.double().log_softmax(-1) for logits in (first, second))
    p, q = log_p.exp(), log_q.exp()
    middle = ((p + q) / 2).log()
    scored = score(first, second, targets)
    exact = {"rtol": 1e-10, "atol": 1e-13}
    torch.testing.assert_close(scored.kl, (p * (log_p - log_q)).sum(-1), **exact)
    torch.testing.assert_close(scored.js, (p * (log_p - middle) + q * (log_q - middle)).sum(-1) / 2, **exact)
    torch.testing.assert_close(scored.nll, -log_q[torch.arange(7), targets], **exact)
    torch.testing.assert_close(scored.reference_nll, -log_p[torch.arange(7), targets], **exact)
    torch.testing.assert_close(scored.correct, (second.argmax(-1) == targets).double())


def test_small_changes_are_not_lost_in_rounding() -> None:
    """GIVEN logits that differ by 1e-6, THEN KL is half their variance, as theory says, and JS a quarter of it."""
    base = torch.zeros(1, 4096, dtype=torch.float64)
    step = 1e-6 * torch.randn(1, 4096, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    scored = score(base, base + step, None)
    half = step.var(correction=0).item() / 2
    assert scored.kl.item() == pytest.approx(half, rel=0.02)
    assert scored.js.item() == pytest.approx(half / 4, rel=0.02)


def test_margin_is_of_the_target_over_the_best_other() -> None:
    """GIVEN targets that lead, follow and tie, THEN the margins are positive, negative and 0."""
    reference = torch.tensor([[3.0, 1.0, 0.0]] * 3)
    changed = torch.tensor([[2.0, 1.5, 0.0], [2.0, 1.5, 0.0], [1.0, 1.0, 0.0]])
    scored = score(reference, changed, torch.tensor([0, 1, 0]))
    assert scored.margin.tolist() == [0.5, -0.5, 0.0]
    assert scored.reference_margin.tolist() == [2.0, -2.0, 2.0]
    assert scored.correct.tolist() == [1.0, 0.0, 1.0]


def test_margin_without_targets_is_of_what_the_original_held() -> None:
    """GIVEN no targets, THEN the margin is that of the original's most likely class, in both models."""
    scored = score(torch.tensor([[0.0, 5.0, 1.0]]), torch.tensor([[7.0, 5.0, 1.0]]), None)
    assert (scored.reference_margin.item(), scored.margin.item()) == (4.0, -2.0)
    assert scored.agreement.item() == 0.0
    assert math.isnan(scored.nll.item())


def test_of_equal_answers_the_first_is_taken() -> None:
    """GIVEN classes that tie for the largest logit, THEN the first is the answer, whichever is the target."""
    tied = torch.tensor([[1.0, 4.0, 4.0]] * 3)
    assert score(tied, tied, torch.tensor([0, 1, 2])).correct.tolist() == [0.0, 1.0, 0.0]


@pytest.mark.parametrize("labelled", [True, False])
def test_what_is_known_of_the_original_can_be_used_again(labelled: bool) -> None:
    """GIVEN the original's numbers computed once, THEN the scores are bit by bit those without them."""
    first, second, targets = random_logits(9, 70)
    labels = targets if labelled else None
    again = score(first, second, labels, ReferenceScores.of(first, labels))
    fresh = score(first, second, labels)
    assert all(torch.equal(left, right) or left.isnan().all() for left, right in zip(
        vars(again).values(), vars(fresh).values(), strict=True))  # fmt: skip


def test_pieces_do_not_change_the_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN outputs too large for one piece, THEN the scores are those computed at once, in the same order."""
    first, second, targets = random_logits(11, 7)
    whole = score(first, second, targets)
    monkeypatch.setattr(scores, "HOST_PIECE", 20)
    in_pieces = score(first, second, targets)
    assert len(list(pieces(first, 20))) == 6
    for left, right in zip(vars(in_pieces).values(), vars(whole).values(), strict=True):
        torch.testing.assert_close(left, right, rtol=1e-13, atol=1e-15)


def test_nothing_to_compare_is_no_error() -> None:
    """GIVEN a batch without a single prediction, THEN there are no scores."""
    scored = score(torch.zeros(0, 5), torch.zeros(0, 5), torch.zeros(0, dtype=torch.long))
    assert all(len(values) == 0 for values in vars(scored).values())
    assert len(per_example(scored, torch.zeros(2, 3, dtype=torch.bool))) == 0


def test_examples_average_divergence_and_sum_likelihood() -> None:
    """GIVEN an example without predictions between two others, THEN it is left out and they keep to their own."""
    reference = logits_of([0.5, 0.5], [0.5, 0.5], [0.5, 0.5])
    changed = logits_of([0.5, 0.5], [0.25, 0.75], [0.25, 0.75])
    mask = torch.tensor([[True, True], [False, False], [False, True]])
    scored = score(reference, changed, torch.tensor([0, 1, 0]))
    outcomes = per_example(scored, mask)
    once = math.log(2 / math.sqrt(3))
    np.testing.assert_allclose(outcomes.kl, [once / 2, once])
    np.testing.assert_allclose(outcomes.js, [scored.js[1] / 2, scored.js[2]])
    np.testing.assert_allclose(outcomes.nll, [math.log(2) + math.log(4 / 3), math.log(4)])
    np.testing.assert_allclose(outcomes.margin, [math.log(3) / 2, -math.log(3)])
    np.testing.assert_allclose(outcomes.reference_margin, [0, 0])
    np.testing.assert_allclose(outcomes.predictions, [2, 1])
    np.testing.assert_allclose(outcomes.correct, [2, 0])
    np.testing.assert_allclose(outcomes.reference_correct, [1, 1])
    np.testing.assert_allclose(outcomes.agreement, [0.5, 0])
