"""What the outputs of one component say of its removal and of its quantization, example by example."""

from __future__ import annotations

from torch import Tensor

from energyscope.impact.outputs import positions_first, weighted
from energyscope.impact.predicting.gradients import Call, Sums, by_example, widened
from energyscope.reasons import Reason, reason


class ActivationListener:
    """Sums per example over positions that are no padding, features and calls; see `Listener`.

    ``removal``: gradient x output. ``skip``: gradient x (output - input), of a component that puts out what it
    is given in the same shape. ``signal`` and ``noise``: squares of the output, and of what symmetric INT8 with
    one scale per token adds to it.
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
        """Compare a call's output with what INT8 would make of it."""
        self.calls += 1
        output = by_example(positions_first(call.module, call.output), call.mask)
        if output is None:
            self.problem = reason("output-not-by-example")
            return
        rows, weights = widened(output[0]), output[1]
        _add(self.signal, rows.square(), weights)
        _add(self.noise, (int8_per_token(rows) - rows).square(), weights)

    def refused(self, problem: Reason) -> None:
        """Keep why there is no gradient; without any call there is no output to look at either."""
        if self.calls:
            self.gradient_problem = problem
        else:
            self.problem = problem

    def reached(self, call: Call, gradient: Tensor) -> None:
        """Add gradient x what a removal takes away."""
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
        """Return why nothing is known of the output, or None."""
        return self.problem or (None if self.calls else reason("not-called"))

    def why_no_gradient(self) -> Reason | None:
        """Return why no gradient x output is known, or None."""
        unreached = None if self.gradients else reason("no-gradient")
        return self.why_no_output() or self.gradient_problem or unreached

    @staticmethod
    def _add_product(sums: Sums, call: Call, gradient: Tensor, values: Tensor) -> None:
        # position by position, as the output lies; an attention core's heads come after its positions
        products = by_example(positions_first(call.module, gradient * values), call.mask)
        if products is not None:
            _add(sums, *products)


def int8_per_token(rows: Tensor) -> Tensor:
    """Return what symmetric INT8 keeps of (..., features), with one scale for the features of each token."""
    scale = rows.abs().amax(-1, keepdim=True) / 127
    codes = (rows / scale).round()
    return (codes * scale).where(scale > 0, rows)  # a row of zeros has no scale, and stays as it is


def _add(sums: Sums, values: Tensor, weights: Tensor) -> None:
    # features in their own precision: far fewer numbers are left to mask and widen
    rows = values.sum(-1, keepdim=True).double()
    sums.add(weighted(rows, weights).sum((1, 2)))
