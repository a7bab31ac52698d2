"""Loading: from a model's name to the model on its device, at a precision, with its adapter and tokenizer.

No torch is imported until a model is loaded.
"""

from __future__ import annotations

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
