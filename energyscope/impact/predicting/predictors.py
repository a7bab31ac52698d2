"""Cheap predictors of what removing or quantizing a component would do: no component is changed.

One forward and one backward pass over the data serve all components. What they predict from is the
first order of the loss, the curvature that squared gradients stand for, the outputs, or the weights alone:

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
over examples. They are no impact: `energyscope.correlation.agreement` says how well they order components as it
does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor, nn

from energyscope.components import Component, ComponentTree
from energyscope.errors import DataError
from energyscope.impact.methods import PREDICT
from energyscope.impact.metrics import Floats, MetricEstimate, bootstrap
from energyscope.impact.predicting.activation_listener import ActivationListener
from energyscope.impact.predicting.gradients import Listener, backward_batch, undisturbed
from energyscope.impact.predicting.weight_gradients import FISHER, WeightListener, one_by_one
from energyscope.impact.predicting.weights import WeightErrorCache, WeightErrors, weight_moments
from energyscope.impact.predictions import memory_share
from energyscope.impact.quantizing.matrices import own_matrices, owners, why_no_matrices
from energyscope.reasons import Reason, join, reason
from energyscope.runs.schema import ImpactRow

if TYPE_CHECKING:
    from energyscope.workloads import Evaluation

Progress = Callable[[str, int, int], None]

MAX_EXAMPLES = 32


def predict(
    model: nn.Module,
    tree: ComponentTree,
    evaluation: Evaluation,
    *,
    weight_errors: Mapping[str, WeightErrors] | None = None,
    max_examples: int = MAX_EXAMPLES,
    seed: int = 0,
    progress: Progress | None = None,
) -> list[ImpactRow]:
    """Return every predictor of every component of the tree but the root, in the tree's order.

    They are rows of the impact table: the method is ``predict``, the metric the predictor's name. ``examples``
    counts those that the value is taken from: 0 for what needs no data. ``reasons`` say why something is None, or
    what the loss was.

    ``weight_errors`` maps the name of a quantization method to its errors. ``max_examples`` limits only the
    weights whose gradients take a backward pass per example: those that are not used by a plain linear layer or
    embedding on rows that lie by example. Intervals are bootstrapped over examples, with the resamples of
    `energyscope.impact.metrics.bootstrap`. ``progress`` gets (what comes next, how many are finished, of how
    many). Weights, their gradients and modes are left as they were. Running out of memory is raised as it is.

    Raises:
        DataError: the data leave nothing to predict, or labels lie outside the model's classes.

    """
    if not evaluation.batches:
        raise DataError(f"{evaluation.source} holds no examples: choose other data with --data")
    parts = [part for part in tree if part is not tree.root]
    survey = _Survey(parts, WeightErrorCache(weight_errors or {}, memory_share(evaluation)))
    report = progress or _silent
    with undisturbed(model):
        batches = len(evaluation.batches)
        for index in range(batches):
            report("gradients", index, batches)
            survey.close(backward_batch(model, evaluation, index, survey.listeners))
        if not survey.examples:
            raise DataError(f"{evaluation.source} leaves nothing to predict: it needs texts of two tokens or more")
        if pending := survey.pending():
            report("gradients, example by example", batches, batches)
            one_by_one(model, evaluation, pending, max_examples)
    unlabelled = evaluation.task == "classification" and evaluation.labels is None
    note = reason("loss-of-likeliest-class") if unlabelled else ""
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
    problem = outputs.why_no_gradient()
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
    """Return a predictor's row, of its estimate and the number of examples that this is taken from."""
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
    if problem := why_no_matrices(part.module):
        return problem
    listeners = [survey.weights[owner] for owner in owners(part.module)]
    if not any(listener.reached_any for listener in listeners):
        return reason("no-gradient")
    chosen = next((listener.chosen for listener in listeners if listener.chosen is not None), None)
    total = np.zeros(survey.examples if chosen is None else len(chosen))
    for listener in listeners:
        values = listener.values(measure)
        total += values if chosen is None or listener.chosen is not None else values[chosen.astype(int)]
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
        with np.errstate(divide="ignore", invalid="ignore"):  # a resample may lack noise: said by bootstrap()
            result: Floats = 10 * np.log10((weights @ signal) / (weights @ noise))
        return result

    return bootstrap(decibels, examples, seed), examples


def _shape_of_weights(part: Component) -> tuple[MetricEstimate, MetricEstimate]:
    if problem := why_no_matrices(part.module):
        return MetricEstimate(None, reason=problem), MetricEstimate(None, reason=problem)
    moments = weight_moments(weight for owner in owners(part.module) for weight in own_matrices(owner).values())
    outliers, kurtosis = (
        MetricEstimate(value, reason=reason("weights-all-equal" if value is None else "no-interval-of-weights"))
        for value in (moments.outliers, moments.kurtosis)
    )
    return outliers, kurtosis


def _silent(_what: str, _finished: int, _of: int) -> None:
    """Tell nobody."""
