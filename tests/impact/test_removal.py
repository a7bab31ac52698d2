from __future__ import annotations

from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn
from transformers.modeling_outputs import BaseModelOutput

from energyscope.adapters import SDPA
from energyscope.functions import FunctionCall
from energyscope.impact.outputs import Effect, features_of, first_tensor, position_weights, with_first_tensor
from energyscope.impact.removal import Mean, MeanGatherer, Removal, removal, replace_by, resample, zero
from energyscope.reasons import reason

MASK = torch.tensor([[1, 1, 1], [1, 0, 0]]).bool()
VALUES = torch.tensor([[[1.0, 0.0], [2.0, 0.0], [3.0, 0.0]], [[6.0, 4.0], [99.0, 99.0], [torch.nan, 0.0]]])


class Pair(NamedTuple):
    hidden: Tensor
    weights: Tensor | None


class Returning(nn.Module):
    """Gives back what it is called with, as a module whose output is known."""

    def forward(self, output: Any) -> Any:
        return output


def effect_of(values: Tensor, change: Any, mask: Tensor) -> tuple[Tensor, Effect]:
    module, effect = Returning(), Effect()
    with Removal(module, change).applied(mask, effect):
        output = module(values)
    return output, effect


def vector_of(mean: Mean) -> Tensor:
    vector = mean.vector()
    assert vector is not None
    return vector


def test_zero_ablation_changes_all_of_the_output() -> None:
    """GIVEN an output, WHEN it is zeroed, THEN zeros come out and the relative change is exactly 1."""
    output, effect = effect_of(VALUES, zero, MASK)
    assert not output.any()
    assert effect.relative_change == 1.0
    assert effect.why_invalid() is None


def test_mean_leaves_padding_out() -> None:
    """GIVEN padding with absurd values, THEN the mean is that of the four real positions, worked out by hand."""
    module = Returning()
    gatherer = MeanGatherer({"it": module})
    with gatherer.listening(MASK):
        module(VALUES)
    assert vector_of(*gatherer.means["it"]).tolist() == [3.0, 1.0]


def test_mean_over_batches_weighs_positions_alike() -> None:
    """GIVEN batches of one and of three positions, THEN every position counts once."""
    mean = Mean()
    for values in (torch.full((1, 1, 2), 8.0), torch.zeros(1, 3, 2)):
        mean.add(values, position_weights(values, torch.ones(values.shape[:2])))
    assert vector_of(mean).tolist() == [2.0, 2.0]


def test_relative_change_of_mean_ablation() -> None:
    """GIVEN outputs 1 and 3 whose mean 2 replaces them, THEN the change is sqrt(2)/sqrt(10)."""
    values = torch.tensor([[[1.0], [3.0]]])
    output, effect = effect_of(values, replace_by(torch.tensor([2.0])), torch.ones(1, 2))
    assert output.tolist() == [[[2.0], [2.0]]]
    assert effect.relative_change == pytest.approx((2 / 10) ** 0.5)


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_hooks_are_removed_after_errors(error: type[BaseException]) -> None:
    """GIVEN an error or Ctrl-C within the context, THEN no hook is left and the module is as before."""
    module = Returning()
    with pytest.raises(error), Removal(module, zero).applied(MASK, Effect()):
        raise error
    gatherer = MeanGatherer({"it": module})
    with pytest.raises(error), gatherer.listening(MASK):
        raise error
    assert not module._forward_hooks
    assert module(VALUES) is VALUES


@pytest.mark.parametrize(
    "output",
    [
        (VALUES, "weights"),
        [None, VALUES],
        Pair(VALUES, None),
        BaseModelOutput(last_hidden_state=VALUES),
        {"states": VALUES},
        {"states": [(VALUES, "weights"), None]},
    ],
)
def test_containers_keep_their_type(output: Any) -> None:
    """GIVEN tuples, lists, named tuples, model outputs, mappings THEN only their first tensor is exchanged."""
    changed = torch.zeros(1)
    replaced = with_first_tensor(output, changed)
    assert type(replaced) is type(output)
    assert first_tensor(replaced) is changed
    assert first_tensor(output) is VALUES
    assert len(replaced) == len(output)


def test_model_output_changes_its_attribute_too() -> None:
    """GIVEN a model output, THEN the attribute and the item both hold the change."""
    changed = torch.zeros(1)
    replaced = with_first_tensor(BaseModelOutput(last_hidden_state=VALUES), changed)
    assert replaced.last_hidden_state is changed
    assert replaced[0] is changed


class Nested(NamedTuple):
    """What a recurrent layer could return: features, states within states, indices, the same features again."""

    output: Any
    states: Any
    chosen: Any
    again: Any


def nested() -> Nested:
    states = [
        BaseModelOutput(last_hidden_state=torch.full((2, 3, 4), 3.0)),
        {"scale": torch.ones(2, 3), "no": None},
    ]
    output = torch.full((2, 3, 2), 2.0)
    return Nested(output, states, torch.arange(6), {"again": output, "loss": torch.tensor(0.5)})


def test_all_features_are_changed_wherever_they_lie() -> None:
    """GIVEN nested outputs, THEN each tensor of features becomes zero; integers and single numbers stay."""
    module, effect, original = Returning(), Effect(), nested()
    with Removal(module, zero).applied(MASK, effect):
        changed = module(original)
    assert type(changed) is Nested
    assert [tuple(tensor.shape) for tensor in features_of(changed)] == [(2, 3, 2), (2, 3, 4), (2, 3)]
    assert not any(tensor.any() for tensor in features_of(changed))
    assert changed.chosen is original.chosen
    assert changed.again["again"] is changed.output
    assert changed.again["loss"] == 0.5
    assert effect.relative_change == 1.0
    assert all(tensor.all() for tensor in features_of(original))


def test_only_the_first_tensor_is_skipped() -> None:
    """GIVEN a layer that hands on two things THEN its input replaces the first, and the second stays."""

    class Layer(nn.Module):
        def forward(self, states: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
            return states + 1, bias

    layer, effect, states = Layer(), Effect(), torch.ones(2, 3, 2)
    bias = torch.ones(1, 4, 3, 3)
    with Removal(layer, None).applied(MASK, effect):
        output, beside = layer(states, bias=bias)
    assert torch.equal(output, states)
    assert beside is bias
    assert effect.why_invalid() is None


def test_each_returned_tensor_gets_its_own_mean() -> None:
    """GIVEN three outputs, of which one varies in size, THEN that one has no mean, and a note says so."""
    module = Returning()
    gatherer = MeanGatherer({"it": module})
    for size in (3, 4):
        with gatherer.listening(torch.ones(2, size).bool()):
            module([torch.full((2, size, 2), float(size)), torch.ones(2, 1, size), torch.ones(2, size, 1)])
    change = removal(module, "mean", gatherer.means["it"])
    assert isinstance(change, Removal)
    assert change.notes == (reason("some-without-mean", tensors=1, why=reason("output-size-varies")),)
    unused, effect = torch.full((2, 1, 3), torch.nan), Effect()
    with change.applied(MASK, effect):
        first, kept, second = module([torch.ones(2, 3, 2), unused, torch.zeros(2, 3, 1)])
    assert first.unique().tolist() == [pytest.approx(25 / 7)]
    assert second.unique().tolist() == [1.0]
    assert kept is unused
    assert effect.why_invalid() is None


class Router(nn.Linear):
    """Returns logits that nobody reads, then weights and indices of two experts."""

    def forward(self, input: Tensor) -> tuple[Tensor, Tensor, Tensor]:  # noqa: A002
        logits = super().forward(input)
        return logits, *logits.softmax(-1).topk(2)


def test_a_router_is_removed_by_what_it_is_fed() -> None:
    """GIVEN a router with a bias, THEN zeroed it takes the bias's experts, resampled another example's."""
    torch.manual_seed(0)
    router, states, mask = Router(4, 6), torch.randn(6, 4), torch.ones(2, 3).bool()
    with torch.no_grad():
        with Removal(router, zero, by_input=True).applied(mask, Effect()):
            _, weights, experts = router(states)
        _, by_bias, best = router(torch.zeros(6, 4))
        with Removal(router, resample, by_input=True).applied(mask, Effect()):
            resampled = router(states)
        others = router(states.roll(3, 0))
    assert torch.equal(experts, best)
    assert torch.equal(weights, by_bias)
    assert all(map(torch.equal, resampled, others))


def test_every_call_of_a_shared_module_is_changed() -> None:
    """GIVEN a module that is called twice in a pass, THEN both calls are changed and counted."""
    module, effect = nn.Linear(2, 2), Effect()
    with Removal(module, zero).applied(torch.ones(1, 3), effect), torch.no_grad():
        module(module(torch.ones(1, 3, 2)) + 1)
    assert effect.calls == 2
    assert effect.relative_change == 1.0


def test_unchanged_output_is_invalid() -> None:
    """GIVEN outputs that are zero, or already their mean, THEN ablation proves nothing and says so."""
    _, zeroed = effect_of(torch.zeros(2, 3, 2), zero, MASK)
    assert zeroed.why_invalid() == "output-unchanged"
    _, meaned = effect_of(torch.full((2, 3, 2), 0.1), replace_by(torch.full((2,), 0.1 + 1e-9)), MASK)
    assert meaned.why_invalid() is not None


def test_change_of_rounding_only_is_invalid() -> None:
    """GIVEN a replacement that differs by half a step of BF16, THEN that does not pass for an effect."""
    values = torch.full((2, 3, 2), 1.0, dtype=torch.bfloat16)
    _, effect = effect_of(values, replace_by(torch.full((2,), 1.0 + 2**-7)), MASK)
    assert effect.why_invalid().code == "output-changed-by-rounding"


def test_non_finite_output_is_invalid() -> None:
    """GIVEN a component whose output is NaN on the data, THEN the effect says so and has no value."""
    _, effect = effect_of(torch.full((2, 3, 2), torch.nan), zero, MASK)
    assert effect.relative_change is None
    assert effect.why_invalid() == "change-undefined"


def test_uncalled_module_is_invalid_for_both_methods() -> None:
    """GIVEN a module that no pass calls, THEN neither method applies, and the reason says so."""
    means = MeanGatherer({"it": Returning()}).means["it"]
    for method in ("zero", "mean"):
        assert removal(Returning(), method, means) == "not-called"


@pytest.mark.parametrize("output", [torch.ones(2, 3, 2, dtype=torch.long), None, "text"])
def test_outputs_without_features_are_left_alone(output: Any) -> None:
    """GIVEN integers or no tensor, THEN the output passes unchanged and the reason is kept for both methods."""
    module, effect = Returning(), Effect()
    gatherer = MeanGatherer({"it": module})
    with gatherer.listening(MASK), Removal(module, zero).applied(MASK, effect):
        assert module(output) is output
    assert effect.why_invalid() is not None
    assert removal(module, "zero", gatherer.means["it"]) == effect.why_invalid()


def test_features_that_vary_have_no_mean() -> None:
    """GIVEN outputs of 2 and then 3 features, THEN zeroing works and the mean is undefined, with the reason."""
    mean = Mean()
    for features in (2, 3):
        mean.add(torch.ones(1, 2, features), torch.ones(1, 2, 1))
    zeroing = removal(Returning(), "zero", [mean])
    assert isinstance(zeroing, Removal)
    assert zeroing.change is zero
    assert removal(Returning(), "mean", [mean]) == "output-size-varies"


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((2, 3, 5), [[[1], [1], [1]], [[1], [0], [0]]]),
        ((1, 3, 5), [[[2], [1], [1]]]),
        ((6, 5), [[1], [1], [1], [1], [0], [0]]),
        ((2, 1, 3, 5), [[[[1], [1], [1]]], [[[1], [0], [0]]]]),
        ((2, 5), [[1], [1]]),
    ],
)
def test_positions_count_by_the_shape_of_the_output(shape: tuple[int, ...], expected: list[Any]) -> None:
    """GIVEN per-token, shared, flattened, per-head and pooled outputs, THEN positions count as often as real."""
    assert position_weights(torch.zeros(shape), MASK).tolist() == expected


def test_mean_replacement_may_be_changed_in_place() -> None:
    """GIVEN a model that adds to the output in place, THEN one position's sum does not reach another's."""
    changed = replace_by(torch.tensor([1.0, 2.0]))(torch.zeros(2, 3, 2), MASK, 0)
    changed[0, 0] += 5
    assert changed[1, 2].tolist() == [1.0, 2.0]


class Attention(nn.Module):
    """Calls the attention core on (B, heads, S, D), as many heads as there are positions."""

    def forward(self, states: Tensor) -> Tensor:
        return nn.functional.scaled_dot_product_attention(states, states, states)


CORE_MASK = torch.tensor([[1, 1], [1, 0]]).bool()


def core_states() -> Tensor:
    return torch.randn(2, 2, 2, 3, generator=torch.Generator().manual_seed(0))


def test_a_functions_calls_are_ablated() -> None:
    """GIVEN the attention core WHEN it is zeroed THEN its caller gets zeros, and another caller what it should."""
    attention, other, effect = Attention(), Attention(), Effect()
    with Removal(FunctionCall(SDPA, attention), zero).applied(CORE_MASK, effect):
        assert not attention(core_states()).any()
        assert other(core_states()).any()
    assert attention(core_states()).any()
    assert (effect.calls, effect.relative_change) == (1, 1.0)


def test_every_head_of_a_core_has_means_of_its_own() -> None:
    """GIVEN (B, heads, S, D) with S = heads THEN the mean is over the real positions, apart for each head."""
    attention, states = Attention(), core_states()
    call = FunctionCall(SDPA, attention)
    gatherer = MeanGatherer({"core": call})
    with gatherer.listening(CORE_MASK):
        output = attention(states)
    vector = vector_of(*gatherer.means["core"])
    real = torch.stack([output[0, :, 0], output[0, :, 1], output[1, :, 0]])  # (positions, heads, D)
    torch.testing.assert_close(vector, real.double().mean(0).flatten())
    with Removal(call, replace_by(vector)).applied(CORE_MASK, Effect()):
        changed = attention(states)
    expected = vector.float().reshape(2, 1, 3).expand(2, 2, 2, 3)
    torch.testing.assert_close(changed, expected)


def test_padded_positions_of_a_core_do_not_count() -> None:
    """GIVEN a change at a padded position only THEN the core's output counts as unchanged."""

    def change(features: Tensor, _mask: Tensor, _place: int) -> Tensor:
        changed = features.clone()
        changed[1, 1] += 5
        return changed

    attention, effect = Attention(), Effect()
    with Removal(FunctionCall(SDPA, attention), change).applied(CORE_MASK, effect):
        attention(core_states())
    assert effect.relative_change == 0.0


LENGTHS = torch.tensor([4, 1, 3])
RAGGED = torch.arange(4) < LENGTHS.unsqueeze(1)


def test_resampling_repeats_a_shorter_giver() -> None:
    """GIVEN examples of 4, 1 and 3 tokens, THEN each gets the one before it, over again where that ends."""
    features = torch.arange(12.0).reshape(3, 4, 1)
    expected = [[8.0, 9.0, 10.0, 8.0], [0.0, 1.0, 2.0, 3.0], [4.0, 4.0, 4.0, 4.0]]
    assert resample(features, RAGGED).squeeze(-1).tolist() == expected
    assert resample(features.flatten(0, 1), RAGGED).reshape(3, 4).tolist() == expected
    assert resample(features.flatten(0, 1), RAGGED.long()).reshape(3, 4).tolist() == expected


@pytest.mark.parametrize("flat", [False, True])
def test_resampling_does_not_see_padding(flat: bool) -> None:
    """GIVEN other content at padded positions, even NaN, THEN what every position gets is the same."""
    features = torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(0))
    other = features.masked_fill(~RAGGED.unsqueeze(-1), torch.nan)
    versions = [part.flatten(0, 1) if flat else part for part in (features, other)]
    first, second = (resample(part, RAGGED) for part in versions)
    assert torch.equal(first, second)
    assert first.shape == versions[0].shape


def test_resampling_moves_pooled_outputs_and_leaves_shared_ones() -> None:
    """GIVEN a pooled (B, F), also with F = S, and an output that serves all, THEN rows move, or there is one."""
    pooled = torch.arange(12.0).reshape(3, 4)
    assert torch.equal(resample(pooled, RAGGED), pooled[[2, 0, 1]])
    shared = torch.randn(1, 4, 2)
    assert torch.equal(resample(shared, RAGGED), shared)
