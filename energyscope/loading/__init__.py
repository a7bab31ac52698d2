"""Loading: from a model's name to the model on its device, at a precision, with its adapter and tokenizer.

No torch is imported until a model is loaded.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from energyscope.loading.model import LoadedModel, load_model
    from energyscope.loading.options import PRECISIONS, check_precision
    from energyscope.loading.precision_support import VARIANTS, unsupported
    from energyscope.loading.sizes import parameter_count, weight_bytes
    from energyscope.loading.sources import ModelSource, find_model, model_names, named_model
    from energyscope.loading.variants import Variant, estimated_bytes, load_variant

__all__ = [
    "PRECISIONS", "VARIANTS", "LoadedModel", "ModelSource", "Variant", "check_precision", "estimated_bytes",
    "find_model", "load_model", "load_variant", "model_names", "named_model", "parameter_count", "unsupported",
    "weight_bytes",
]  # fmt: skip

_MODULES = {
    "model": {"LoadedModel", "load_model"},
    "options": {"PRECISIONS", "check_precision"},
    "sizes": {"parameter_count", "weight_bytes"},
    "sources": {"ModelSource", "find_model", "model_names", "named_model"},
    "precision_support": {"VARIANTS", "unsupported"},
    "variants": {"Variant", "estimated_bytes", "load_variant"},
}


def __getattr__(name: str) -> Any:  # so that an option's choices cost no import of what loads models
    module = next((module for module, names in _MODULES.items() if name in names), None)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{module}"), name)
