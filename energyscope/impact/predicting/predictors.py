"""Cheap predictors of the impact of removing or quantizing a component: no component is changed.

One forward and one backward pass over the data serve all components. They predict from the first order of the
loss, from squared gradients in place of its curvature, from the outputs, or from the weights alone:

- ``taylor_removal``  |gradient x output| of an example, summed over positions and features before the magnitude is
                      taken: the first-order change of its loss when the output is zeroed (Molchanov et al. 2019)
- ``taylor_skip``     of a layer, |gradient x (output - input)|: the same when the layer is skipped
- ``taylor_<q>``      |gradient x weight error| of a quantization method q, of an example
- ``fisher``          trace of the empirical Fisher information of the weight matrices: an example's squared
                      gradient norm (Kirkpatrick et al. 2017), at the data's labels
- ``sqnr_int8_db``    signal to noise, in dB, of the output under symmetric INT8 with one scale per token; high
                      is harmless, unlike all others
- ``weight_outliers`` largest magnitude of the weight matrices over their root mean square; ``weight_kurtosis``,
                      their excess kurtosis; both over the component's matrices pooled

The loss of an example is the mean negative log likelihood of its predictions, in nats. The first four are means
over examples. Of a component that returns several tensors, the output is the first; of a router, whose removal
changes what it is fed, ``taylor_removal`` is None. They are no impact: `energyscope.correlation.predictors`
compares how both rank components.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from energyscope.components import Component, ComponentTree
from energyscope.errors import DataError
from energyscope.impact.methods import PREDICT
from energyscope.impact.metrics import Floats, MetricEstimate, bootstrap
from energyscope.impact.predicting.activation_listener import ActivationListener
from energyscope.impact.predicting.gradients import Listener, backward_batch, undisturbed
from energyscope.impact.predicting.weight_gradients import (
    FISHER,
    WeightErrorCache,
    WeightErrors,
    WeightListener,
    one_by_one,
)
from energyscope.impact.predictions import memory_share
from energyscope.impact.quantizing.matrices import matrices_of, owners, why_unreadable
from energyscope.impact.removal import BY_INPUT
from energyscope.reasons import Reason, join, reason
from energyscope.runs.schema import ImpactRow

if TYPE_CHECKING:
    from energyscope.workloads import Evaluation

MAX_EXAMPLES = 32  # of weights whose gradients take a backward pass for each example (`one_by_one`)
PIECE = 2**24  # elements of a weight that are widened to float64 at once: 128 MiB


def predict(
    model: nn.Module,
    tree: ComponentTree,
    evaluation: Evaluation,
    *,
    weight_errors: Mapping[str, WeightErrors] | None = None,
    seed: int = 0,
) -> list[ImpactRow]:
    """Return every predictor of every component of the tree but the root, in the tree's order.

    They are rows of the impact table: the method is ``predict``, the metric the predictor's name. ``examples``
    counts those that the value is from: 0 where none are needed. ``reasons`` say why something is None, or
    what the loss was.

    ``weight_errors`` maps the name of a quantization method to its errors. Intervals are bootstrapped over
    examples, with the resamples of `energyscope.impact.metrics.bootstrap`. Weights, their gradients and modes are
    left as they were. Running out of memory is raised as it is.

    Raises:
        DataError: the data leave nothing to predict, or labels lie outside the model's classes.

    """
    if not evaluation.batches:
        raise DataError(f"{evaluation.source} holds no examples: choose other data with --data")
    parts = [part for part in tree if part is not tree.root]
    survey = _Survey(parts, WeightErrorCache(weight_errors or {}, memory_share(evaluation)))
    with undisturbed(model):
        for index in range(len(evaluation.batches)):
            survey.close(backward_batch(model, evaluation, index, survey.listeners))
        if not survey.examples:
            raise DataError(f"{evaluation.source} leaves nothing to predict: its examples are too short")
        if pending := survey.pending():
            one_by_one(model, evaluation, pending, MAX_EXAMPLES)
    note = "" if evaluation.labelled else reason("loss-of-likeliest-class")
    return [row for part in parts for row in _predictors(part, survey, seed, note)]


class _Survey:
    """All listeners: one for each component's output, one for each module that owns weight matrices."""

    def __init__(self, parts: Sequence[Component], errors: WeightErrorCache) -> None:
        self.errors = errors
        self.examples = 0
        self.activations = {part.name: ActivationListener(skips=part.kind == "layer") for part in parts}
        modules = {owner: None for part in parts for owner in owners(part.module)}
        self.weights = {module: WeightListener(module, errors) for module in modules}
        self.listeners: dict[nn.Module, list[Listener]] = {}
        for part in parts:
            self.listeners.setdefault(part.module, []).append(self.activations[part.name])
        for module, listener in self.weights.items():
            if listener.form is not None:
                self.listeners.setdefault(module, []).append(listener)

    def close(self, kept: Tensor) -> None:
        self.examples += int(kept.sum())
        for activation in self.activations.values():
            activation.close(kept)
        for weight in self.weights.values():
            weight.close(kept)

    def pending(self) -> list[WeightListener]:
        return [listener for listener in self.weights.values() if listener.needs_one_by_one]


def _predictors(part: Component, survey: _Survey, seed: int, note: str) -> Iterator[ImpactRow]:
    row = partial(_row, part)
    outputs = survey.activations[part.name]
    problem = reason("removed-by-input") if part.kind in BY_INPUT else outputs.why_no_gradient()
    yield row("taylor_removal", _mean(np.abs(outputs.removal.values()), seed, problem), note)
    if outputs.skips:
        skipping = _mean(np.abs(outputs.skip.values()), seed, problem or outputs.skip_problem)
        yield row("taylor_skip", skipping, note)
    for name, measure in [*((f"taylor_{q}", q) for q in survey.errors.methods), (FISHER, FISHER)]:
        values = _of_weights(part, survey, measure)
        if isinstance(values, Reason):
            yield row(name, (MetricEstimate(None, reason=values), 0))
        else:
            yield row(name, _mean(np.abs(values), seed, None), note)
    yield row("sqnr_int8_db", _sqnr(outputs, seed))
    outliers, kurtosis = _shape_of_weights(part)
    yield row("weight_outliers", (outliers, 0))
    yield row("weight_kurtosis", (kurtosis, 0))


def _row(part: Component, name: str, estimate_of: tuple[MetricEstimate, int], note: str = "") -> ImpactRow:
    """Return a predictor's row from its estimate and the number of examples behind it."""
    estimate, examples = estimate_of
    return ImpactRow(
        component=part.name,
        kind=part.kind,
        layer=part.layer,
        method=PREDICT,
        metric=name,
        value=estimate.value,
        ci_low=estimate.ci_low,
        ci_high=estimate.ci_high,
        examples=examples,
        valid=estimate.value is not None,
        reasons=join(filter(None, [estimate.reason, note if estimate.value is not None else ""])),
    )


def _mean(values: Floats, seed: int, problem: Reason | None) -> tuple[MetricEstimate, int]:
    """Return the mean over examples of values (examples,), unless there is a problem."""
    if problem is not None:
        return MetricEstimate(None, reason=problem), 0
    if bad := int((~np.isfinite(values)).sum()):
        return MetricEstimate(None, reason=reason("gradient-not-finite", bad=bad, of=len(values))), len(values)
    return bootstrap(lambda weights: (weights @ values) / len(values), len(values), seed), len(values)


def _of_weights(part: Component, survey: _Survey, measure: str) -> Floats | Reason:
    """Return a measure of a component's weights by example: the sum over the modules that own them."""
    if problem := why_unreadable(matrices_of(part.module)):
        return problem
    listeners = [survey.weights[owner] for owner in owners(part.module)]
    if not any(listener.reached_any for listener in listeners):
        return reason("no-gradient")
    chosen = next((listener.chosen for listener in listeners if listener.chosen is not None), None)
    total = np.zeros(survey.examples if chosen is None else len(chosen))
    for listener in listeners:
        values = listener.values(measure)
        total += values if chosen is None or listener.chosen is not None else values[chosen]
    return total


def _sqnr(outputs: ActivationListener, seed: int) -> tuple[MetricEstimate, int]:
    """Return 10 log10 of the ratio of the sums of squares of signal and noise over the data."""
    if problem := outputs.why_no_output():
        return MetricEstimate(None, reason=problem), 0
    signal, noise = outputs.signal.values(), outputs.noise.values()
    examples = len(signal)
    if not np.isfinite(signal.sum() + noise.sum()):
        return MetricEstimate(None, reason=reason("output-not-finite")), examples
    if not signal.sum():
        return MetricEstimate(None, reason=reason("output-zero")), examples
    if not noise.sum():
        return MetricEstimate(None, reason=reason("int8-exact")), examples

    def decibels(weights: Floats) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):  # bootstrap() reports resamples without noise
            result: Floats = 10 * np.log10((weights @ signal) / (weights @ noise))
        return result

    return bootstrap(decibels, examples, seed), examples


def _shape_of_weights(part: Component) -> list[MetricEstimate]:
    """Return the outliers and the kurtosis of a component's weight matrices."""
    matrices = matrices_of(part.module)
    if problem := why_unreadable(matrices):
        return [MetricEstimate(None, reason=problem)] * 2
    return [
        MetricEstimate(value, reason=reason("weights-all-equal" if value is None else "no-interval-of-weights"))
        for value in weight_shape(matrix.weight for matrix in matrices)
    ]


def weight_shape(weights: Iterable[Tensor]) -> tuple[float | None, float | None]:
    """Return outliers and excess kurtosis of weight matrices pooled, in float64; a tied weight counts once.

    Outliers are the largest magnitude over the root mean square. Each is None where it is undefined: all weights
    are 0, or equal, or one is not finite.
    """
    tensors = list({id(weight): weight.detach() for weight in weights}.values())
    count = sum(tensor.numel() for tensor in tensors)
    largest = total = square = second = fourth = 0.0
    for piece in _pieces(tensors):
        largest = max(largest, float(piece.abs().max()))
        total += float(piece.sum())
        square += float(piece.square().sum())
    mean, root_mean_square = total / count, math.sqrt(square / count)
    for piece in _pieces(tensors):
        squares = (piece - mean).square()
        second += float(squares.sum())
        fourth += float(squares.square().sum())
    # of equal weights only rounding is left, which has no shape
    spread = second > count * (1e-12 * max(largest, abs(mean))) ** 2
    kurtosis = fourth * count / second**2 - 3 if spread else math.nan
    outliers = largest / root_mean_square if root_mean_square > 0 else math.nan
    return outliers if math.isfinite(outliers) else None, kurtosis if math.isfinite(kurtosis) else None


def _pieces(tensors: Sequence[Tensor]) -> Iterator[Tensor]:
    pieces = (piece for tensor in tensors for piece in torch.split(tensor.flatten(), PIECE))
    return (piece.double() for piece in pieces if piece.numel())
