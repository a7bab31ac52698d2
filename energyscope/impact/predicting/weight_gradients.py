"""Each example's loss gradient at the weight matrices of one module, without a backward pass per example.

For y = x W the gradient of an example's loss with respect to W is the sum over positions t of x_t^T g_t, where g
is the gradient at y. From x and g alone follow

- its product with a weight error E:  sum over t of (x_t E) . g_t, at the cost of one forward pass of the module;
- its squared norm: sum over t, u of (x_t . x_u) (g_t . g_u) (Goodfellow 2015), or from the product itself,
  whichever needs fewer operations: about one weight gradient's at most.

An embedding is such a product too, of one-hot rows: x_t . x_u is whether both positions hold the same token.
Weights that are used in another way take one backward pass for each of a few examples (`one_by_one`).
Of a weight that two modules share, only the use by this module counts, except in `one_by_one`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from energyscope.impact.metrics import Floats
from energyscope.impact.predicting.gradients import (
    Call,
    Sums,
    batch_losses,
    by_example,
    loss_scale,
    widened,
)
from energyscope.impact.predictions import positions_in
from energyscope.impact.quantizing.matrices import is_quantized, own_matrices
from energyscope.impact.quantizing.quantized import rounded
from energyscope.reasons import Reason

if TYPE_CHECKING:
    from energyscope.workloads import Evaluation

FISHER = "fisher"
Ints = npt.NDArray[np.int64]

WeightErrors = Callable[[nn.Module], Mapping[str, Tensor]]
"""Maps a module to quantized - original of the matrix weights that it owns itself, by parameter name."""


def simulated_errors(method: str) -> WeightErrors:
    """Return the errors of a simulated quantization; of ``-wa`` methods those of the weights only.

    Raises:
        UsageError: when it is used, if there is no such method.

    """

    def errors(module: nn.Module) -> dict[str, Tensor]:
        return {
            name: widened(rounded(module, weight.detach(), method)) - widened(weight.detach())
            for name, weight in own_matrices(module).items()
        }

    return errors


class WeightErrorCache:
    """Weight errors of several quantization methods, kept between batches as far as a budget (bytes) allows."""

    def __init__(self, methods: Mapping[str, WeightErrors], budget_bytes: int) -> None:
        self.methods = methods
        self._budget = budget_bytes
        self._kept: dict[tuple[str, nn.Module], dict[str, Tensor]] = {}

    def of(self, method: str, module: nn.Module) -> dict[str, Tensor]:
        """Return the errors of a module's own matrix weights, float32 or wider, by parameter name."""
        key = (method, module)
        if key in self._kept:
            return self._kept[key]
        with torch.no_grad():
            errors = {name: widened(error.detach()) for name, error in self.methods[method](module).items()}
        size = sum(error.nbytes for error in errors.values())
        if size <= self._budget:
            self._budget -= size
            self._kept[key] = errors
        return errors


class WeightListener:
    """Sums per example of the squared gradient norm and of gradient x error, of one module's own matrices."""

    def __init__(self, module: nn.Module, errors: WeightErrorCache) -> None:
        self.module = module
        self.errors = errors
        self.names = own_matrices(module)
        self.quantized = is_quantized(module)
        self.form = None if self.quantized else _form(module, list(self.names))
        self.sums = {measure: Sums() for measure in (FISHER, *errors.methods)}
        self.reached_any = False
        self.chosen: Ints | None = None  # which examples, where not all
        self._direct: dict[str, Floats] = {}
        self._calls = 0
        self._waiting: list[tuple[Tensor, Tensor]] = []

    @property
    def needs_one_by_one(self) -> bool:
        """Whether the weights' gradients have to be asked for example by example."""
        return not self.quantized and (self.form is None or not self.reached_any)

    def called(self, call: Call) -> None:
        """Count a call of this batch."""
        self._calls += 1
        if _input_rows(self.form, call) is None or by_example(call.output, call.masks) is None:
            self.form = None

    def refused(self, problem: Reason) -> None:  # noqa: ARG002  `one_by_one` follows whatever it is
        """Give up listening."""
        self.form = None

    def reached(self, call: Call, gradient: Tensor) -> None:
        """Keep a call's contribution; once all calls are there, add them up and free them."""
        inputs, gradients = _input_rows(self.form, call), by_example(gradient, call.masks)
        if inputs is None or gradients is None:
            return
        self.reached_any = True
        # padding may hold NaN, on either side
        rows, weights = gradients
        if self.form != "embedding":  # token ids are no numbers; the gradients beside them are 0 at padding
            inputs = _without_padding(inputs, weights)
        self._waiting.append((inputs, _without_padding(rows, weights)))
        if len(self._waiting) == self._calls:
            self._add_up()

    def close(self, kept: Tensor) -> None:
        """Finish a batch; ``kept`` (B,) says which of its examples count."""
        if self._waiting:
            self._add_up()
        self._calls = 0
        for sums in self.sums.values():
            sums.close(kept)

    def values(self, measure: str) -> Floats:
        """Return the squared norm (``fisher``) or the signed gradient x error of a method, (examples,)."""
        return self._direct[measure] if measure in self._direct else self.sums[measure].values()

    def take(self, values: Mapping[str, Floats], chosen: Ints, *, reached_any: bool) -> None:
        """Replace the sums by those computed example by example, for the examples of index ``chosen``."""
        self._direct = dict(values)
        self.chosen, self.reached_any = chosen, reached_any

    def _add_up(self) -> None:
        # several calls add up in the gradient before it is squared: as if their positions were of one
        waiting, self._waiting = self._waiting, []
        form = self.form
        if form is None:
            return  # another call does not lie by example
        inputs, gradients = (torch.cat(part, 1) for part in zip(*waiting, strict=True))
        self.sums[FISHER].add(squared_norms(form, inputs, gradients))
        for method in self.errors.methods:
            error = self.errors.of(method, self.module).get("weight")
            if error is not None:
                change = perturbation(form, inputs, error.to(gradients.device))
                self.sums[method].add((change * gradients).sum((1, 2), dtype=torch.float64))


def perturbation(form: str, inputs: Tensor, error: Tensor) -> Tensor:
    """Return the change of a module's output when its weight changes by ``error``, (B, T, out)."""
    if form == "embedding":
        return nn.functional.embedding(inputs, error)
    inputs = inputs.to(error.dtype)
    return inputs @ (error.T if form == "linear" else error)


def squared_norms(form: str, inputs: Tensor, gradients: Tensor) -> Tensor:
    """Return the squared norm of each example's weight gradient, float64 (B,).

    ``inputs`` (B, T, in), or token ids (B, T) of an embedding; ``gradients`` (B, T, out) at the output.
    """
    length, width = gradients.shape[1:]
    if form == "embedding":
        alike = (inputs.unsqueeze(1) == inputs.unsqueeze(2)).to(gradients.dtype)
        return _paired(alike, gradients)
    inputs = inputs.to(gradients.dtype)
    if length * (inputs.shape[2] + width) <= inputs.shape[2] * width:
        return _paired(inputs @ inputs.mT, gradients)
    # one example at a time: a batch of matrices as large as the weight may not fit
    examples = zip(inputs, gradients, strict=True)
    return torch.stack([(rows.T @ gradient).square().sum(dtype=torch.float64) for rows, gradient in examples])


def one_by_one(
    model: nn.Module, evaluation: Evaluation, listeners: Sequence[WeightListener], max_examples: int
) -> None:
    """Compute the same sums by a backward pass for each of at most ``max_examples`` examples, evenly spaced.

    It holds the gradients of all these weights at once. All uses of a weight count. Use it inside
    `energyscope.impact.predicting.gradients.undisturbed`.
    """
    weights = [(listener, name, parameter) for listener in listeners for name, parameter in listener.names.items()]
    places = _places(evaluation)
    chosen = np.unique(np.linspace(0, len(places) - 1, min(max_examples, len(places))).round().astype(np.int64))
    sums = {listener: {measure: np.zeros(len(chosen)) for measure in listener.sums} for listener in listeners}
    reached: set[WeightListener] = set()
    parameters = [parameter for _, _, parameter in weights]
    try:
        for parameter in parameters:
            parameter.requires_grad_(True)
        for number, place in enumerate(chosen):
            gradients = _example_gradients(model, evaluation, places[place], parameters)
            for (listener, name, _), gradient in zip(weights, gradients, strict=True):
                if gradient is not None:
                    reached.add(listener)
                    for measure, value in _measures(listener, name, gradient):
                        sums[listener][measure][number] += value
    finally:
        for parameter in parameters:
            parameter.requires_grad_(False)
    for listener, values in sums.items():
        listener.take(values, chosen, reached_any=listener in reached)


def _measures(listener: WeightListener, name: str, gradient: Tensor) -> Iterator[tuple[str, float]]:
    yield FISHER, float(gradient.square().sum(dtype=torch.float64))
    for method in listener.errors.methods:
        error = listener.errors.of(method, listener.module).get(name)
        if error is not None:
            yield method, float((gradient * error.to(gradient.device)).sum(dtype=torch.float64))


def _places(evaluation: Evaluation) -> list[tuple[int, int]]:
    """Return batch and row of every example that has a prediction, in the order of the sums."""
    masks = [positions_in(evaluation, index).mask.any(1).tolist() for index in range(len(evaluation.batches))]
    return [(index, row) for index, mask in enumerate(masks) for row, kept in enumerate(mask) if kept]


def _example_gradients(
    model: nn.Module, evaluation: Evaluation, place: tuple[int, int], parameters: list[nn.Parameter]
) -> list[Tensor | None]:
    example = _example(evaluation, *place)
    scale = loss_scale(model)
    with torch.enable_grad():
        loss = batch_losses(model, example, 0).sum()
        if not loss.requires_grad:
            return [None] * len(parameters)
        gradients = torch.autograd.grad(loss * scale, parameters, allow_unused=True)
    return [None if gradient is None else widened(gradient) / scale for gradient in gradients]


def _example(evaluation: Evaluation, index: int, row: int) -> Evaluation:
    """Return the data with one example of one batch only."""

    def only(parts: Sequence[Tensor] | None) -> tuple[Tensor, ...] | None:
        return None if parts is None else (parts[index][row : row + 1],)

    batch = {key: values[row : row + 1] for key, values in evaluation.batches[index].items()}
    return replace(evaluation, batches=(batch,), labels=only(evaluation.labels), counted=only(evaluation.counted))


def _form(module: nn.Module, names: list[str]) -> str | None:
    """Return how a module uses its weight: linear, conv1d, embedding; None where that is not known."""
    from transformers.pytorch_utils import Conv1D

    if names != ["weight"]:
        return None
    forward = type(module).forward  # a subclass with its own forward may do anything
    if isinstance(module, nn.Embedding):
        return "embedding" if forward is nn.Embedding.forward and module.max_norm is None else None
    if forward is nn.Linear.forward:
        return "linear"
    return "conv1d" if forward is Conv1D.forward else None


def _input_rows(form: str | None, call: Call) -> Tensor | None:
    """Return a call's inputs as (B, T, in), or token ids (B, T)."""
    if form is None or call.inputs is None:
        return None
    if form != "embedding":
        rows = by_example(call.inputs, call.masks)
        return None if rows is None else rows[0]
    ids = by_example(call.inputs.unsqueeze(-1), call.masks)
    return None if ids is None or ids[0].shape[2] != 1 else ids[0][..., 0]


def _without_padding(rows: Tensor, weights: Tensor) -> Tensor:
    return torch.where(weights.to(rows.device) > 0, widened(rows), 0.0)


def _paired(alike: Tensor, gradients: Tensor) -> Tensor:
    squares = (alike * (gradients @ gradients.mT)).sum((1, 2), dtype=torch.float64)
    return squares.clamp_min(0.0)  # rounding can fall below, a square cannot
