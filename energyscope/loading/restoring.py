"""A 4-bit layer for where bitsandbytes' own kernels are wrong. Importing this imports bitsandbytes."""

from __future__ import annotations

import bitsandbytes as bnb
from torch import Tensor
from torch.nn import functional

from energyscope.loading.kernel_trials import restored_rows


class RestoringLinear4bit(bnb.nn.Linear4bit):  # type: ignore[misc]
    """A Linear4bit that restores its weight by plain arithmetic each time; it multiplies in its compute dtype."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs (..., out) for inputs (..., in), in the inputs' dtype."""
        dtype = x.dtype if self.compute_dtype is None else self.compute_dtype
        bias = None if self.bias is None else self.bias.to(dtype)
        return functional.linear(x.to(dtype), restored_rows(self.weight).to(dtype), bias).to(x.dtype)
