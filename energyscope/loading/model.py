"""Load a model, with its adapter and tokenizer, on a device at a precision.

A model is named by a short name, a bundled name, a local folder or a Hugging Face id. Its weights are the
trained ones, or random ones of the true shape that are built on the device itself.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from energyscope.adapters import Adapter
from energyscope.errors import UsageError
from energyscope.loading import building
from energyscope.loading import tensor_parallel as shares
from energyscope.loading.options import PRECISIONS, QUANTIZED, LoadOptions, LoadSettings, check_quantization
from energyscope.loading.planning import plan_model
from energyscope.loading.random_weights import spare_small_layers
from energyscope.loading.sharding.placement import Placement, dispatch, offload_notes
from energyscope.loading.sizes import distinct_parameters, tensor_bytes
from energyscope.loading.sources import ModelSource, find_model, model_names
from energyscope.reasons import Reason, reason

if TYPE_CHECKING:
    import torch
    from torch import nn

__all__ = [
    "PRECISIONS", "LoadedModel", "ModelSource", "check_precision", "find_model", "load_model", "model_names",
    "parameter_count", "weight_bytes",
]  # fmt: skip


@dataclass(frozen=True)
class LoadedModel:
    """A model in evaluation mode on its device, with what is needed to feed and to read it.

    ``tokenizer`` is None where there is none, with the reason beside it; ``weights`` says what the numbers
    in the weights are; ``source`` where they came from; ``seconds`` how long loading took; ``notes`` what a
    reader of its results must know.

    ``device`` is where its inputs go, and the first of ``devices``, which hold its weights or run them.
    ``device_map`` says which module lies on which where there are several, and ``offloaded`` names the modules
    whose weights wait in host memory and are copied to ``device`` whenever they run. Of a model that is split over
    ``ranks`` processes (tensor parallel), this is one process's share.
    """

    name: str
    model: nn.Module
    adapter: Adapter
    tokenizer: Any
    tokenizer_reason: Reason | None
    precision: str
    device: torch.device
    weights: Literal["pretrained", "random", "bundled"]
    source: str
    seconds: float
    notes: tuple[Reason, ...] = ()
    devices: tuple[torch.device, ...] = ()
    device_map: Mapping[str, str] | None = None
    offloaded: tuple[str, ...] = ()
    ranks: int = 1

    def __post_init__(self) -> None:
        """Without a map, the model's device is all of them."""
        if not self.devices:
            object.__setattr__(self, "devices", (self.device,))


def load_model(reference: str, settings: LoadSettings | None = None, **options: Any) -> LoadedModel:
    """Load a model and put it on the device, ready for inference.

    ``reference`` is a short name, a bundled name, a local folder or a Hugging Face id. How it is loaded is said by
    ``settings``, or by its fields as keywords (`energyscope.loading.options.LoadSettings`). Quantized layers are
    tried on random inputs, and 4-bit ones that compute wrongly are mended, which is noted.

    Raises:
        TypeError: a keyword is no field of the settings.
        UsageError: the model or the precision is unknown, or an option does not fit it.
        ModelError: the weights are missing, broken or out of reach, no adapter serves the model, or its quantized
            layers cannot be computed rightly here.
        DeviceError: there is no such device, or not enough memory on it.

    """
    asked = settings or LoadSettings(**options)
    started = time.perf_counter()
    check_precision(asked.precision)
    source = find_model(reference)
    check_quantization(
        asked.precision,
        double_quant=asked.double_quant,
        compute_dtype=asked.compute_dtype,
        skip_modules=asked.skip_modules,
    )
    resolved = asked.resolved()
    with building.opened(source, resolved) as files:
        plan = plan_model(files, resolved)
        model = building.build_model(files, plan)
        tokenizer, why_none = building.tokenizer_of(files.folder, resolved)
        model.eval().requires_grad_(False)
        spare_small_layers(model)
        notes = _mended(model, plan.options) if asked.precision in QUANTIZED else ()
        notes += _unnested(model, asked.double_quant)
        if plan.placement:
            dispatch(model, plan.placement)
            notes += offload_notes(plan.placement)
        ranks = shares.world_size() if asked.tensor_parallel else 1
        notes += shares.notes(ranks) if asked.tensor_parallel else ()
    return LoadedModel(
        name=source.name,
        model=model,
        adapter=files.adapter,
        tokenizer=tokenizer,
        tokenizer_reason=why_none,
        precision=asked.precision,
        device=plan.options.device,
        weights="bundled" if source.kind == "bundled" and asked.weights == "pretrained" else asked.weights,
        source=source.source,
        seconds=time.perf_counter() - started,
        notes=notes,
        ranks=ranks,
        **(_spread(plan.placement) if plan.placement else {}),
    )


def _spread(placement: Placement) -> dict[str, Any]:
    named = {path: str(device) for path, device in placement.modules.items()}
    return {"devices": placement.devices, "device_map": named, "offloaded": placement.offloaded}


def _mended(model: nn.Module, options: LoadOptions) -> tuple[Reason, ...]:
    from energyscope.loading.kernel_trials import mend_layers

    return mend_layers(model, options)


def _unnested(model: nn.Module, double_quant: bool) -> tuple[Reason, ...]:
    """Say so where the processor's kernels have undone double quantization when the layers were tried."""
    states = [getattr(parameter, "quant_state", None) for parameter in model.parameters()]
    undone = sum(not state.nested for state in states if state is not None)
    return (reason("double-quant-undone", layers=undone),) if double_quant and undone else ()


def check_precision(precision: str) -> None:
    """Refuse what a model cannot be loaded in.

    Raises:
        UsageError: it is not one of ``PRECISIONS``.

    """
    if precision not in PRECISIONS:
        raise UsageError(f"a model cannot be loaded in {precision!r}: use one of {', '.join(PRECISIONS)}")


def parameter_count(model: nn.Module) -> int:
    """Return the number of parameters, tied ones once; 4-bit weights count as what they stand for."""
    return sum(_logical_count(parameter) for parameter in distinct_parameters(model))


def weight_bytes(model: nn.Module) -> int:
    """Return the bytes of all parameters, tied ones once, with the scales of quantized ones."""
    return sum(tensor_bytes(parameter) for parameter in distinct_parameters(model))


def _logical_count(parameter: Any) -> int:
    state = getattr(parameter, "quant_state", None)
    return int(parameter.numel()) if state is None else int(state.shape.numel())
