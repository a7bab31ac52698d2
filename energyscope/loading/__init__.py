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

__all__ = [
    "PRECISIONS",
    "LoadedModel",
    "ModelSource",
    "check_precision",
    "find_model",
    "load_model",
    "model_names",
    "parameter_count",
    "weight_bytes",
]
