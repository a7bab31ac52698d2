from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from energyscope.impact.predicting.gradients import backward_batch, batch_losses, undisturbed
from energyscope.impact.predicting.weight_gradients import (
    FISHER,
    WeightErrorCache,
    WeightListener,
    one_by_one,
    perturbation,
    squared_norms,
)
from energyscope.impact.predictions import positions_in
from energyscope.workloads import Evaluation

WORDS, WIDTH, LENGTH = 9, 4, 6


class Uses(nn.Module):
    """One weight of every form; ``twice`` is called two times, ``own`` is a matrix used directly."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words = nn.Embedding(WORDS, WIDTH)
        self.up = Conv1D(8, WIDTH)
        self.down = nn.Linear(8, WIDTH)
        self.twice = nn.Linear(WIDTH, WIDTH)
        self.own = nn.Parameter(torch.randn(WIDTH, WIDTH) / 2)
        self.head = nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, use_cache: bool = False) -> Any:
        x = self.words(input_ids)
        x = x + self.down(torch.tanh(self.up(x.cumsum(1))))
        x = self.twice(torch.tanh(self.twice(x))) + x @ self.own
        return SimpleNamespace(logits=self.head(x))


def texts(*lengths: int) -> Evaluation:
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(1, WORDS, (len(lengths), LENGTH), generator=generator)
    mask = (torch.arange(LENGTH) < torch.tensor(lengths)[:, None]).long()
    rows = [{"input_ids": ids[i : i + 2], "attention_mask": mask[i : i + 2]} for i in range(0, len(ids), 2)]
    return Evaluation(source="test", task="next-token", batches=tuple(rows), labels=None, examples=len(lengths))


def noise(module: nn.Module) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(7)
    own = module.named_parameters(recurse=False)
    return {name: torch.randn(p.shape, generator=generator) for name, p in own if p.dim() > 1}


def by_hand(model: nn.Module, module: nn.Module, data: Evaluation) -> tuple[list[float], list[float]]:
    """Each example's squared gradient norm and gradient x noise, by autograd of the example alone."""
    fisher, product = [], []
    for index in range(len(data.batches)):
        places = positions_in(data, index)
        losses = batch_losses(model, data, index)
        parameters = {n: p for n, p in module.named_parameters(recurse=False) if p.dim() > 1}
        for loss, kept in zip(losses, places.mask.any(1), strict=True):
            if kept:
                result = torch.autograd.grad(loss, list(parameters.values()), retain_graph=True)
                fisher.append(sum(float(g.square().sum()) for g in result))
                errors = noise(module)
                product.append(sum(float((g * errors[n]).sum()) for n, g in zip(parameters, result, strict=True)))
    return fisher, product


def listened(model: nn.Module, modules: list[nn.Module], data: Evaluation) -> list[WeightListener]:
    errors = WeightErrorCache({"noise": noise}, 2**20)
    listeners = [WeightListener(module, errors) for module in modules]
    with undisturbed(model):
        for index in range(len(data.batches)):
            kept = backward_batch(model, data, index, {item.module: [item] for item in listeners})
            for item in listeners:
                item.close(kept)
    return listeners


@pytest.mark.parametrize("name", ["words", "up", "down", "twice", "head"])
def test_sums_are_those_of_autograd_example_by_example(name: str) -> None:
    """GIVEN a module of each form THEN norms and products are those of a backward pass for each example."""
    model, data = Uses(), texts(6, 2, 1, 4)  # the text of one token predicts nothing
    (listener,) = listened(model, [getattr(model, name)], data)
    fisher, product = by_hand(model, getattr(model, name), data)
    assert not listener.needs_one_by_one
    np.testing.assert_allclose(listener.values(FISHER), fisher, rtol=1e-4)
    np.testing.assert_allclose(listener.values("noise"), product, rtol=1e-4, atol=1e-6)


def test_a_matrix_used_directly_takes_examples_one_by_one() -> None:
    """GIVEN a matrix that no linear layer uses THEN passes of single examples find its sums, for some of them."""
    model, data = Uses(), texts(6, 2, 1, 4, 3)
    (listener,) = listened(model, [model], data)
    assert listener.needs_one_by_one
    with undisturbed(model):
        one_by_one(model, data, [listener], 3)
    fisher, product = by_hand(model, model, data)
    assert listener.chosen is not None
    chosen = listener.chosen
    assert chosen.tolist() == [0, 2, 3]  # evenly spaced among the four that predict something
    np.testing.assert_allclose(listener.values(FISHER), np.array(fisher)[chosen], rtol=1e-4)
    np.testing.assert_allclose(listener.values("noise"), np.array(product)[chosen], rtol=1e-4, atol=1e-6)
    assert all(parameter.grad is None for parameter in model.parameters())


def test_both_ways_agree() -> None:
    """GIVEN the same linear layer THEN the batched way and single examples find the same sums."""
    model, data = Uses(), texts(5, 6, 4)
    (batched,) = listened(model, [model.down], data)
    single = WeightListener(model.down, batched.errors)
    with undisturbed(model):
        one_by_one(model, data, [single], 99)
    for measure in (FISHER, "noise"):
        np.testing.assert_allclose(batched.values(measure), single.values(measure), rtol=1e-4, atol=1e-7)


def test_a_subclass_with_its_own_forward_is_not_taken_for_linear() -> None:
    """GIVEN a Linear that uses its weight in another way THEN it is left to single examples."""

    class Doubling(nn.Linear):
        def forward(self, input: Tensor) -> Tensor:  # noqa: A002
            return nn.functional.linear(input, self.weight * self.weight)

    assert WeightListener(Doubling(3, 3), WeightErrorCache({}, 0)).needs_one_by_one


@settings(max_examples=40, deadline=None)
@given(length=st.integers(1, 12), inside=st.integers(1, 6), outside=st.integers(1, 6), seed=st.integers(0, 99))
def test_norms_are_those_of_the_outer_products(length: int, inside: int, outside: int, seed: int) -> None:
    """The squared norm is that of the sum of outer products, whichever way has fewer operations."""
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(2, length, inside, generator=generator, dtype=torch.float64)
    gradients = torch.randn(2, length, outside, generator=generator, dtype=torch.float64)
    expected = torch.einsum("bti,bto->bio", inputs, gradients).square().sum((1, 2))
    torch.testing.assert_close(squared_norms("linear", inputs, gradients), expected)


def test_embedding_norms_add_up_equal_tokens() -> None:
    """GIVEN the same token twice THEN its row's gradients add up before they are squared."""
    gradients = torch.tensor([[[1.0, 0.0], [2.0, 0.0], [0.0, 5.0]]])
    result = squared_norms("embedding", torch.tensor([[3, 3, 8]]), gradients)
    assert result.tolist() == [9.0 + 25.0]


def test_perturbation_is_the_change_of_the_output() -> None:
    """GIVEN a weight error THEN the output changes by what the module makes of the error without its bias."""
    torch.manual_seed(0)
    ids, x = torch.tensor([[1, 2]]), torch.randn(1, 2, 4)
    for form, module, inputs in (
        ("linear", nn.Linear(4, 3), x),
        ("conv1d", Conv1D(3, 4), x),
        ("embedding", nn.Embedding(5, 3), ids),
    ):
        error = torch.randn(module.weight.shape)
        with torch.no_grad():
            before = module(inputs)
            module.weight += error
            torch.testing.assert_close(perturbation(form, inputs, error), module(inputs) - before)


def test_padding_may_hold_anything() -> None:
    """GIVEN NaN at padded positions on the way into a layer THEN the sums stay finite and are those without it."""

    class Poisoned(Uses):
        def forward(self, input_ids: Tensor, attention_mask: Tensor, use_cache: bool = False) -> Any:
            x = self.words(input_ids)
            x = self.twice(torch.where(attention_mask.bool().unsqueeze(-1), x, torch.nan))
            return SimpleNamespace(logits=self.head(x))

    model = Poisoned()
    cut = texts(3, 3)
    cut = Evaluation("cut", "next-token", tuple({k: v[:, :3] for k, v in b.items()} for b in cut.batches), None, 2)
    (padded,), (bare,) = (listened(model, [model.twice], data) for data in (texts(3, 3), cut))
    np.testing.assert_allclose(padded.values(FISHER), bare.values(FISHER), rtol=1e-5)
    np.testing.assert_allclose(padded.values("noise"), bare.values("noise"), rtol=1e-4)
