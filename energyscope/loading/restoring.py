"""A 4-bit layer for where bitsandbytes' own kernels are wrong. Importing this imports bitsandbytes."""

from __future__ import annotations

import bitsandbytes as bnb
from torch import Tensor
from torch.nn import functional

from energyscope.loading.kernel_trials import restored_rows


class RestoringLinear4bit(bnb.nn.Linear4bit):  # type: ignore[misc]
    """A Linear4bit that restores its weight by plain arithmetic each time, and multiplies in the inputs' dtype."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs (..., out) for inputs (..., in), in the inputs' dtype."""
        bias = None if self.bias is None else self.bias.to(x.dtype)
        return functional.linear(x, restored_rows(self.weight).to(x.dtype), bias)
