"""Load a model, with its adapter and tokenizer, on a device at a precision.

A model is named by a short name, a bundled name, a local folder or a Hugging Face id. Its weights are the
trained ones, or random ones of the true shape that are built on the device itself.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from energyscope.adapters import Adapter
from energyscope.errors import UsageError
from energyscope.loading import building
from energyscope.loading.devices import pick_device
from energyscope.loading.options import PRECISIONS, QUANTIZED, LoadOptions, Weights
from energyscope.loading.random_weights import spare_small_layers
from energyscope.loading.sources import ModelSource, find_model, model_names

if TYPE_CHECKING:
    import torch
    from torch import nn

__all__ = [
    "PRECISIONS", "LoadedModel", "ModelSource", "check_precision", "find_model", "load_model", "model_names",
    "parameter_count", "pick_device", "weight_bytes",
]  # fmt: skip


@dataclass(frozen=True)
class LoadedModel:
    """A model in evaluation mode on its device, with what is needed to feed and to read it.

    ``tokenizer`` is None where there is none, with the reason beside it; ``weights`` says what the numbers
    in the weights are; ``source`` where they came from; ``seconds`` how long loading took; ``notes`` what a
    reader of its results must know.
    """

    name: str
    model: nn.Module
    adapter: Adapter
    tokenizer: Any
    tokenizer_reason: str | None
    precision: str
    device: torch.device
    weights: Literal["pretrained", "random", "bundled"]
    source: str
    seconds: float
    notes: tuple[str, ...] = ()


def load_model(
    reference: str,
    *,
    precision: str = "fp32",
    device: str = "auto",
    weights: Weights = "pretrained",
    seed: int = 0,
    trust_remote_code: bool = False,
    allow_pickle: bool = False,
) -> LoadedModel:
    """Load a model and put it on the device, ready for inference.

    ``reference`` is a short name, a bundled name, a local folder or a Hugging Face id; ``precision`` one of
    fp32, fp16, bf16, or int8, nf4, fp4, which quantize all linears but the head; ``device`` auto (the GPU if
    there is one), cpu, cuda or cuda:N. Quantized layers are tried on random inputs, and 4-bit ones that compute
    wrongly are mended, which is noted. ``weights="random"`` builds the true shape with random weights from
    ``seed``. ``trust_remote_code`` runs the model's own Python code; ``allow_pickle`` accepts ``.bin``
    weights, which can run code when they are read.

    Raises:
        UsageError: the model or the precision is unknown.
        ModelError: the weights are missing, broken or out of reach, no adapter serves the model, or its quantized
            layers cannot be computed rightly here.
        DeviceError: there is no such device, or not enough memory on it.

    """
    started = time.perf_counter()
    check_precision(precision)
    found = find_model(reference)
    options = LoadOptions(precision, pick_device(device), weights, seed, trust_remote_code, allow_pickle)
    building.silence_libraries()
    with building.one_line_errors(found.name, options):
        folder = building.files_of(found, options)
        adapter = building.adapter_of(found, folder)
        config = building.configuration_of(found, folder, options)
        model = building.build_model(found, folder, adapter, config, options)
        tokenizer, reason = building.tokenizer_of(folder, options)
        model.eval().requires_grad_(False)
        spare_small_layers(model)
        notes = _mended(model, options) if precision in QUANTIZED else ()
    return LoadedModel(
        name=found.name,
        model=model,
        adapter=adapter,
        tokenizer=tokenizer,
        tokenizer_reason=reason,
        precision=precision,
        device=options.device,
        weights="bundled" if found.kind == "bundled" and weights == "pretrained" else weights,
        source=found.source,
        seconds=time.perf_counter() - started,
        notes=notes,
    )


def _mended(model: nn.Module, options: LoadOptions) -> tuple[str, ...]:
    from energyscope.loading.kernel_trials import mend_layers

    return mend_layers(model, options)


def check_precision(precision: str) -> None:
    """Refuse what a model cannot be loaded in.

    Raises:
        UsageError: it is not one of ``PRECISIONS``.

    """
    if precision not in PRECISIONS:
        raise UsageError(f"a model cannot be loaded in {precision!r}: use one of {', '.join(PRECISIONS)}")


def parameter_count(model: nn.Module) -> int:
    """Return the number of parameters, tied ones once; 4-bit weights count as what they stand for."""
    return sum(_logical_count(parameter) for parameter in model.parameters())


def weight_bytes(model: nn.Module) -> int:
    """Return the bytes of all parameters, tied ones once, with the scales of quantized ones."""
    return sum(
        parameter.numel() * parameter.element_size() + _scale_bytes(parameter) for parameter in model.parameters()
    )


def _logical_count(parameter: Any) -> int:
    state = getattr(parameter, "quant_state", None)
    return int(parameter.numel()) if state is None else int(state.shape.numel())


def _scale_bytes(parameter: Any) -> int:
    state = getattr(parameter, "quant_state", None)
    if state is not None:
        return int(state.absmax.numel() * state.absmax.element_size())
    is_int8 = type(parameter).__name__ == "Int8Params"
    return 4 * int(parameter.shape[0]) if is_int8 else 0  # one float32 scale for each row
