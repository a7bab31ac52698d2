from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from energyscope.errors import DataError
from energyscope.impact.predicting.gradients import (
    Call,
    Sums,
    backward_batch,
    by_example,
    example_losses,
    undisturbed,
)
from energyscope.impact.predictions import Positions
from energyscope.reasons import Reason
from energyscope.workloads import Evaluation

WORDS, WIDTH, LENGTH = 11, 6, 5


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


class Small(nn.Module):
    """Word plus position embedding, a mixing over earlier positions, a head; positions serve all examples."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words = nn.Embedding(WORDS, WIDTH)
        self.positions = nn.Embedding(LENGTH, WIDTH)
        self.inner = nn.Linear(WIDTH, WIDTH)
        self.drop = nn.Dropout(0.5)
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, use_cache: bool = False) -> Any:
        places = torch.arange(input_ids.shape[1]).unsqueeze(0)
        x = self.words(input_ids) + self.positions(places)
        x = x + self.drop(torch.tanh(self.inner(x.cumsum(1))))
        return SimpleNamespace(logits=self.head(x))


def texts(*lengths: int, together: bool = True) -> Evaluation:
    """Right-padded texts of these lengths, in one batch or each in its own."""
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(1, WORDS, (len(lengths), LENGTH), generator=generator)
    mask = (torch.arange(LENGTH) < torch.tensor(lengths)[:, None]).long()
    batch = {"input_ids": ids, "attention_mask": mask}
    batches = (batch,) if together else tuple({k: v[i : i + 1] for k, v in batch.items()} for i in range(len(ids)))
    return Evaluation(source="test", task="next-token", batches=batches, labels=None, examples=len(lengths))


class Recorder:
    """Keeps what a listener is told."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.gradients: list[Tensor] = []
        self.problems: list[Reason] = []

    def called(self, call: Call) -> None:
        self.calls.append(call)

    def refused(self, problem: Reason) -> None:
        self.problems.append(problem)

    def reached(self, call: Call, gradient: Tensor) -> None:
        self.gradients.append(gradient)


def recorded_at(model: nn.Module, module: nn.Module, data: Evaluation) -> Recorder:
    recorded = Recorder()
    with undisturbed(model):
        for index in range(len(data.batches)):
            backward_batch(model, data, index, {module: [recorded]})
    return recorded


@pytest.mark.parametrize("name", ["words", "positions", "inner", "head"])
def test_gradients_of_a_batch_are_those_of_each_example(name: str) -> None:
    """GIVEN examples of different lengths THEN each gets the gradient it has alone, also at shared positions."""
    model, lengths = Small(), (5, 2, 4)
    together = recorded_at(model, getattr(model, name), texts(*lengths))
    alone = recorded_at(model, getattr(model, name), texts(*lengths, together=False))
    assert together.gradients[0].shape[0] == len(lengths)
    torch.testing.assert_close(together.gradients[0], torch.cat(alone.gradients))


def test_gradient_is_that_of_autograd() -> None:
    """GIVEN one text THEN the gradient at the head is that of the mean cross entropy, taken by autograd."""
    model, data = Small().eval(), texts(4)
    recorded = recorded_at(model, model.head, data)
    logits = model(**data.batches[0]).logits.detach().requires_grad_()
    loss = nn.functional.cross_entropy(logits[0, :3], data.batches[0]["input_ids"][0, 1:4])
    (expected,) = torch.autograd.grad(loss, logits)
    torch.testing.assert_close(recorded.gradients[0], expected)
    torch.testing.assert_close(recorded.calls[0].output, logits.detach())


def test_losses_are_means_over_an_examples_predictions() -> None:
    """GIVEN 2, 0 and 1 predictions THEN losses are their means, and 0 where there is none."""
    probabilities = torch.tensor([[0.5, 0.5], [0.25, 0.75], [0.1, 0.9]])
    mask = torch.tensor([[True, True], [False, False], [False, True]])
    result = example_losses(probabilities.log(), Positions(mask, torch.tensor([0, 0, 1])))
    expected = -torch.tensor([0.5 * 0.25, 1.0, 0.9]).log() / torch.tensor([2, 1, 1])
    torch.testing.assert_close(result, expected)


def test_without_targets_the_most_likely_answer_counts() -> None:
    """GIVEN no labels THEN the loss is that of the most likely class."""
    logits = torch.tensor([[0.2, 0.8], [0.7, 0.3]]).log()
    result = example_losses(logits, Positions(torch.ones(2, 1, dtype=torch.bool), None))
    torch.testing.assert_close(result, -torch.tensor([0.8, 0.7]).log())


@pytest.mark.parametrize("label", [-1, 2])
def test_labels_outside_the_classes_are_refused(label: int) -> None:
    """GIVEN a label that the model does not have THEN one line says so."""
    with pytest.raises(DataError, match="classes"):
        example_losses(torch.zeros(1, 2), Positions(torch.ones(1, 1, dtype=torch.bool), torch.tensor([label])))


@pytest.mark.parametrize("error", [None, RuntimeError, KeyboardInterrupt])
def test_model_is_left_as_it_was(error: type[BaseException] | None) -> None:
    """GIVEN mixed modes, flags and gradients THEN all are as before, also after an error; no hook is left."""
    model, data = Small().train(), texts(4, 3)
    model.inner.eval()
    model.words.weight.requires_grad_(False)
    model.head.weight.grad = kept = torch.ones_like(model.head.weight)
    flags = [parameter.requires_grad for parameter in model.parameters()]

    class Failing(Recorder):
        def reached(self, call: Call, gradient: Tensor) -> None:
            if error is not None:
                raise error

    def go() -> None:
        with undisturbed(model):
            backward_batch(model, data, 0, {model.inner: [Failing()]})

    if error is None:
        go()
    else:
        with pytest.raises(error):
            go()
    assert (model.training, model.inner.training, model.drop.training) == (True, False, True)
    assert [parameter.requires_grad for parameter in model.parameters()] == flags
    assert model.head.weight.grad is kept
    assert bool((kept == 1).all())
    assert model.words.weight.grad is None
    assert model.head.bias.grad is None
    assert not any(module._forward_hooks for module in model.modules())


def test_works_inside_inference_mode() -> None:
    """GIVEN a caller in inference mode THEN gradients are found all the same."""
    model, data = Small(), texts(4)
    expected = recorded_at(model, model.inner, data).gradients[0]
    with torch.inference_mode():
        result = recorded_at(model, model.inner, data).gradients[0]
    assert torch.equal(result, expected)


def test_fp16_gradients_do_not_vanish() -> None:
    """GIVEN a loss whose gradients FP16 cannot hold THEN they are those of FP32, to the precision of FP16."""
    small, data = Small(), texts(5, 3)
    small.head.weight.data *= 1e-5
    expected = recorded_at(small, small.inner, data).gradients[0]
    result = recorded_at(small.half(), small.inner, data).gradients[0]
    assert result.dtype == torch.float32
    assert float((result - expected).norm() / expected.norm()) < 0.02


class Odd(Small):
    """Calls `inner` in a way that leaves nothing to differentiate."""

    def __init__(self, usage: str) -> None:
        super().__init__()
        self.usage = usage

    def forward(self, input_ids: Tensor, attention_mask: Tensor, use_cache: bool = False) -> Any:
        x = self.words(input_ids)
        if self.usage == "in place":
            inner = self.inner(x)
            inner *= 2
            x = x + inner
        else:
            with torch.no_grad():
                x = x + self.inner(x)
        return SimpleNamespace(logits=self.head(x))


@pytest.mark.parametrize(("usage", "code"), [("in place", "output-overwritten"), ("no grad", "gradients-off")])
def test_lost_gradients_are_said(usage: str, code: str) -> None:
    """GIVEN an output that is overwritten, or computed without gradients, THEN the listener is told why."""
    model = Odd(usage)
    recorded = recorded_at(model, model.inner, texts(4))
    assert recorded.problems[0] == code
    assert not recorded.gradients


@pytest.mark.parametrize(
    ("shape", "rows"),
    [((2, 3, 5), (3, 5)), ((2, 3, 2, 5), (3, 10)), ((1, 3, 5), (3, 5)), ((6, 5), (3, 5)), ((2, 5), (1, 5))],
)
def test_rows_lie_by_example(shape: tuple[int, ...], rows: tuple[int, int]) -> None:
    """GIVEN per-token, shared, flattened and pooled outputs THEN rows and their weights are each example's own."""
    mask = torch.tensor([[1, 1, 1], [1, 0, 0]]).bool()
    result = by_example(torch.arange(float(torch.Size(shape).numel())).reshape(shape), mask)
    assert result is not None
    assert result[0].shape == (2, *rows)
    assert result[1].sum().item() == (2 if rows[0] == 1 else 4)


def test_rows_that_mix_examples_have_no_place() -> None:
    """GIVEN tokens chosen by a router THEN they are not taken for examples."""
    assert by_example(torch.zeros(4, 5), torch.ones(2, 3).bool()) is None


def test_sums_add_calls_and_join_batches() -> None:
    """GIVEN two calls in one batch and none in the next THEN calls add up, and only what counts is in."""
    sums = Sums()
    sums.add(torch.tensor([1.0, 2.0, 3.0]))
    sums.add(torch.tensor([10.0, 20.0, 30.0]))
    sums.close(torch.tensor([True, False, True]))
    sums.close(torch.tensor([True]))
    assert sums.values().tolist() == [11.0, 33.0, 0.0]
