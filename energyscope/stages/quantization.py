"""What quantization a loaded model really has, read from its layers: defaults depend on the device."""

from __future__ import annotations

from typing import Any

from torch import nn

from energyscope.loading import LoadedModel
from energyscope.loading.linears import is_linear
from energyscope.loading.options import QUANTIZED


def quantization_facts(loaded: LoadedModel) -> dict[str, Any] | None:
    """Return a quantized model's method, options and the paths of the linears that it left as they are.

    ``double_quant`` is True where the scales of at least one layer are quantized, ``compute_dtype`` what 4-bit
    layers multiply in (several with commas between them); both are None for a method without them. The whole is
    None for a model that is not quantized.
    """
    if loaded.precision not in QUANTIZED:
        return None
    four_bit = [one for one in loaded.model.modules() if _holds(one, "Params4bit")]
    states = [getattr(layer.weight, "quant_state", None) for layer in four_bit]
    dtypes = {getattr(layer, "compute_dtype", None) for layer in four_bit} - {None}
    return {
        "method": loaded.precision,
        "double_quant": any(state.nested for state in states if state is not None) if four_bit else None,
        "compute_dtype": ", ".join(sorted(str(one).removeprefix("torch.") for one in dtypes)) or None,
        "skipped": [path for path, module in loaded.model.named_modules() if is_linear(module)],
    }


def _holds(module: nn.Module, kind: str) -> bool:
    """Tell a layer of bitsandbytes by its weight's class: importing that package takes seconds."""
    return type(getattr(module, "weight", None)).__name__ == kind
