"""Effects and means are added up in pieces, with the results of the whole."""

from __future__ import annotations

import pytest
import torch

from energyscope.impact.outputs import HOST_WIDENED, Effect, as_rows, pieces, position_weights, row_weights
from energyscope.impact.removal import Mean

FEATURES = 1000
MASK = torch.arange(300) < torch.tensor([[300], [7], [120]])


def output(seed: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Return (B, S, features) of several pieces, NaN where there is padding."""
    values = torch.randn(3, 300, FEATURES, generator=torch.Generator().manual_seed(seed))
    return values.masked_fill(~MASK.unsqueeze(-1), torch.nan).to(dtype)


@pytest.mark.parametrize(
    "shape", [(5, 7), (2, 3, 7), (0, 7), (2, 3, 4, 7), (2, HOST_WIDENED + 1), (900, FEATURES)]
)
def test_pieces_cover_every_row_once_and_are_small(shape: tuple[int, ...]) -> None:
    """GIVEN any output, even an empty one, THEN its rows come once and in order, and no more than allowed."""
    rows = as_rows(torch.empty(shape))
    slices = list(pieces(rows))
    assert slices
    assert torch.cat([torch.arange(len(rows))[piece] for piece in slices]).tolist() == list(range(len(rows)))
    assert all(len(rows[piece]) <= max(1, HOST_WIDENED // shape[-1]) for piece in slices)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("own", [slice(None), slice(100, 700)])
def test_relative_change_in_pieces_is_that_of_the_whole(dtype: torch.dtype, own: slice) -> None:
    """GIVEN outputs of several pieces, also a slice of features, THEN the change is that of the real positions."""
    original, changed = output(0, dtype)[..., own], output(1, dtype)[..., own]
    assert len(list(pieces(as_rows(original)))) > 1
    effect = Effect()
    effect.add(original, changed, position_weights(original, MASK))
    before, after = original[MASK].double(), changed[MASK].double()
    assert effect.relative_change == pytest.approx(float((after - before).norm() / before.norm()), rel=1e-6)


def test_a_change_of_nothing_is_exactly_nothing() -> None:
    """GIVEN an output that stayed the same, and one that was zeroed, THEN the change is exactly 0 and 1."""
    same, zeroed, values = Effect(), Effect(), output(0)
    weights = position_weights(values, MASK)
    same.add(values, values.clone(), weights)
    zeroed.add(values, torch.zeros_like(values), weights)
    assert (same.relative_change, zeroed.relative_change) == (0.0, 1.0)


@pytest.mark.parametrize("shared", [False, True])
def test_a_mean_in_pieces_is_that_of_the_whole(shared: bool) -> None:
    """GIVEN outputs of several pieces, or one that serves all examples, THEN the mean is over real positions."""
    values = torch.randn(1, 300, FEATURES) if shared else output(0)
    mean = Mean()
    mean.add(values, position_weights(values, MASK))
    vector = mean.vector()
    assert vector is not None
    real = values.expand(3, -1, -1)[MASK].double()
    torch.testing.assert_close(vector, real.mean(0), rtol=1e-6, atol=1e-7)


def test_weights_of_rows_follow_the_leading_dimensions() -> None:
    """GIVEN (B, S, heads, D), THEN every head of a position counts as the position does."""
    values = torch.empty(3, 300, 2, 5)
    weights = row_weights(values, position_weights(values, MASK))
    assert weights.flatten().tolist() == MASK.float().flatten().repeat_interleave(2).tolist()
