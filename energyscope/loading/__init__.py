"""Loading: from a model's name to the model on its device, at a precision, with its adapter and tokenizer.

No torch is imported until a model is loaded.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from energyscope.loading.model import (
        PRECISIONS,
        LoadedModel,
        check_precision,
        load_model,
        parameter_count,
        weight_bytes,
    )
    from energyscope.loading.sources import ModelSource, find_model, model_names
    from energyscope.loading.variants import VARIANTS, Variant, estimated_bytes, load_variant, unsupported

_HOMES = {
    "energyscope.loading.model": (
        "PRECISIONS", "LoadedModel", "check_precision", "load_model", "parameter_count", "weight_bytes",
    ),
    "energyscope.loading.sources": ("ModelSource", "find_model", "model_names"),
    "energyscope.loading.variants": ("VARIANTS", "Variant", "estimated_bytes", "load_variant", "unsupported"),
}  # fmt: skip

__all__ = [
    "PRECISIONS",
    "VARIANTS",
    "LoadedModel",
    "ModelSource",
    "Variant",
    "check_precision",
    "estimated_bytes",
    "find_model",
    "load_model",
    "load_variant",
    "model_names",
    "parameter_count",
    "unsupported",
    "weight_bytes",
]


def __getattr__(name: str) -> Any:  # so that an option's choices cost no import of what loads models
    home = next((home for home, names in _HOMES.items() if name in names), None)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(home), name)
