"""A component's outputs and their gradients, from which its removal and quantization are predicted."""

from __future__ import annotations

from torch import Tensor

from energyscope.impact.outputs import positions_first, weighted
from energyscope.impact.predicting.gradients import Call, Sums, by_example, widened
from energyscope.reasons import Reason, reason


class ActivationListener:
    """Sums per example over positions that are no padding, features and calls; see `Listener`.

    ``removal``: gradient x output. ``skip``: gradient x (output - input), of a component whose output has its
    input's shape. ``signal`` and ``noise``: squares of the output, and of the error of symmetric INT8 with one
    scale per token.
    """

    def __init__(self, *, skips: bool) -> None:
        self.skips = skips
        self.removal, self.skip, self.signal, self.noise = (Sums() for _ in range(4))
        self.calls = 0
        self.gradients = 0
        self.problem: Reason | None = None
        self.skip_problem: Reason | None = None
        self.gradient_problem: Reason | None = None

    def called(self, call: Call) -> None:
        """Compare a call's output with the same in INT8."""
        self.calls += 1
        output = by_example(positions_first(call.module, call.output), call.masks)
        if output is None:
            self.problem = reason("output-not-by-example")
            return
        rows, weights = widened(output[0]), output[1]
        _add(self.signal, rows.square(), weights)
        _add(self.noise, (int8_per_token(rows) - rows).square(), weights)

    def refused(self, problem: Reason) -> None:
        """Keep why there is no gradient; without any call there is no output either."""
        if self.calls:
            self.gradient_problem = problem
        else:
            self.problem = problem

    def reached(self, call: Call, gradient: Tensor) -> None:
        """Add gradient x the part of the output that a removal takes away."""
        self.gradients += 1
        output = widened(call.output)
        self._add_product(self.removal, call, gradient, output)
        if not self.skips:
            return
        if call.inputs is None or call.inputs.shape != output.shape:
            self.skip_problem = reason("input-and-output-differ")
            return
        self._add_product(self.skip, call, gradient, output - widened(call.inputs.to(output.device)))

    def close(self, kept: Tensor) -> None:
        """Finish a batch; ``kept`` (B,) says which of its examples count."""
        for sums in (self.removal, self.skip, self.signal, self.noise):
            sums.close(kept)

    def why_no_output(self) -> Reason | None:
        """Return why the output is not known, or None."""
        return self.problem or (None if self.calls else reason("not-called"))

    def why_no_gradient(self) -> Reason | None:
        """Return why no gradient x output is known, or None."""
        missing = None if self.gradients else reason("no-gradient")
        return self.why_no_output() or self.gradient_problem or missing

    @staticmethod
    def _add_product(sums: Sums, call: Call, gradient: Tensor, values: Tensor) -> None:
        # position by position, as the output lies; an attention core's heads come after its positions
        products = by_example(positions_first(call.module, gradient * values), call.masks)
        if products is not None:
            _add(sums, *products)


def int8_per_token(rows: Tensor) -> Tensor:
    """Return (..., features) rounded to symmetric INT8, with one scale for the features of each token."""
    scale = rows.abs().amax(-1, keepdim=True) / 127
    codes = (rows / scale).round()
    return (codes * scale).where(scale > 0, rows)  # a row of zeros has no scale, and stays as it is


def _add(sums: Sums, values: Tensor, weights: Tensor) -> None:
    # features in their own precision: far fewer numbers are left to mask and widen
    rows = values.sum(-1, keepdim=True).double()
    sums.add(weighted(rows, weights).sum((1, 2)))
