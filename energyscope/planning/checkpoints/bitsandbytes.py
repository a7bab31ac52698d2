"""Checkpoints of transformers with bitsandbytes' INT8 or 4-bit linears."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from energyscope.loading.linears import is_linear
from energyscope.loading.random_weights import quantized_linear
from energyscope.planning.layers import alone


def tensors(linear: nn.Linear, precision: str) -> dict[str, Tensor]:
    """Return the tensors of one linear's weight (out, in) by the names that bitsandbytes gives them."""
    layer = quantized_linear(alone(linear), precision, linear.weight.dtype)
    stored: dict[str, Tensor] = layer.state_dict()
    stored.pop("bias", None)
    return {name: tensor.clone() for name, tensor in stored.items()}  # layers share tables, which a file refuses


def configuration(model: nn.Module, chosen: Mapping[str, str]) -> dict[str, Any]:
    """Return the configuration that quantizes the chosen linears and no others.

    transformers matches what it skips as a regular expression at the start of a name, and as a plain end of it:
    ``model.layers.1`` has hit layer 10. A pattern from ``^`` to ``$`` is one name in every version.
    """
    from transformers import BitsAndBytesConfig

    [precision] = set(chosen.values())
    skipped = [
        f"^{re.escape(path)}$"
        for path, module in model.named_modules()
        if is_linear(module) and path not in chosen
    ]
    if precision == "int8":
        config = BitsAndBytesConfig(load_in_8bit=True, llm_int8_skip_modules=skipped)
    else:
        dtype = model.get_submodule(next(iter(chosen))).weight.dtype
        config = BitsAndBytesConfig(
            load_in_4bit=True, bnb_4bit_quant_type=precision, bnb_4bit_compute_dtype=dtype,
            llm_int8_skip_modules=skipped,
        )  # fmt: skip
    return dict(config.to_dict())
