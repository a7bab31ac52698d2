"""Load a model, with its adapter and tokenizer, on a device at a precision.

A model is named by a short name, a bundled name, a local folder or a Hugging Face id. Its weights are the
trained ones, or random ones of the true shape that are built on the device itself.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from energyscope.adapters import Adapter
from energyscope.errors import UsageError
from energyscope.loading import building
from energyscope.loading import tensor_parallel as shares
from energyscope.loading.devices import pick_device
from energyscope.loading.options import PRECISIONS, QUANTIZED, LoadOptions, Weights, check_quantization
from energyscope.loading.planning import plan_model
from energyscope.loading.random_weights import spare_small_layers
from energyscope.loading.sharding.device_maps import map_devices
from energyscope.loading.sharding.dispatching import dispatch, offload_notes
from energyscope.loading.sizes import distinct_parameters, tensor_bytes
from energyscope.loading.sources import ModelSource, find_model, model_names
from energyscope.reasons import Reason, reason

if TYPE_CHECKING:
    import torch
    from torch import nn

    from energyscope.loading.sharding.placement import Placement

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


def load_options(
    *, device: str = "auto", device_map: str | None = None, devices: Sequence[torch.device] = (), **rest: Any
) -> LoadOptions:
    """Return the options of `load_model` with the devices found; ``rest`` are fields of `LoadOptions`.

    Raises:
        UsageError: the device map cannot be used here.
        DeviceError: there is no such device.

    """
    spread = map_devices(device_map, device, devices) if device_map else ()
    main = spread[0] if spread else pick_device(device)
    rest["skip_modules"] = tuple(rest.get("skip_modules", ()))
    return LoadOptions(device=main, device_map=device_map, devices=spread, **rest)


def load_model(  # noqa: PLR0913  each is an option of the command line
    reference: str,
    *,
    precision: str = "fp32",
    device: str = "auto",
    weights: Weights = "pretrained",
    seed: int = 0,
    trust_remote_code: bool = False,
    allow_pickle: bool = False,
    device_map: str | None = None,
    devices: Sequence[torch.device] = (),
    double_quant: bool = False,
    compute_dtype: str | None = None,
    skip_modules: Sequence[str] = (),
    tensor_parallel: bool = False,
) -> LoadedModel:
    """Load a model and put it on the device, ready for inference.

    ``reference`` is a short name, a bundled name, a local folder or a Hugging Face id; ``precision`` one of
    fp32, fp16, bf16, or int8, nf4, fp4, which quantize all linears but the head; ``device`` auto (the GPU if
    there is one), cpu, cuda or cuda:N. Quantized layers are tried on random inputs, and 4-bit ones that compute
    wrongly are mended, which is noted. ``weights="random"`` builds the true shape with random weights from
    ``seed``. ``trust_remote_code`` runs the model's own Python code; ``allow_pickle`` accepts ``.bin``
    weights, which can run code when they are read.

    ``device_map`` spreads the model over devices: auto, balanced, sequential, or a JSON file of module paths and
    devices (see `energyscope.loading.sharding.device_maps`); ``devices`` are the GPUs that a word may take, in
    their order, all if none is named. ``double_quant`` quantizes the scales of 4-bit weights, ``compute_dtype``
    (fp32, fp16, bf16) is what 4-bit layers multiply in, and ``skip_modules`` names more modules that stay
    unquantized. ``tensor_parallel`` loads this process's share of a model that is split over the processes which
    were joined before (`energyscope.loading.tensor_parallel.join`).

    Raises:
        UsageError: the model or the precision is unknown, or one of the last five does not fit it.
        ModelError: the weights are missing, broken or out of reach, no adapter serves the model, or its quantized
            layers cannot be computed rightly here.
        DeviceError: there is no such device, or not enough memory on it.

    """
    started = time.perf_counter()
    check_precision(precision)
    found = find_model(reference)
    check_quantization(
        precision, double_quant=double_quant, compute_dtype=compute_dtype, skip_modules=skip_modules
    )
    options = load_options(
        precision=precision,
        device=device,
        weights=weights,
        seed=seed,
        trust_remote_code=trust_remote_code,
        allow_pickle=allow_pickle,
        device_map=device_map,
        devices=devices,
        double_quant=double_quant,
        compute_dtype=compute_dtype,
        skip_modules=skip_modules,
        tensor_parallel=tensor_parallel,
    )
    building.silence_libraries()
    with building.one_line_errors(found.name, options):
        folder = building.files_of(found, options)
        adapter = building.adapter_of(found, folder)
        config = building.configuration_of(found, folder, options)
        plan = plan_model(found, adapter, config, options)
        model = building.build_model(found, folder, adapter, config, plan)
        tokenizer, why_none = building.tokenizer_of(folder, options)
        model.eval().requires_grad_(False)
        spare_small_layers(model)
        notes = _mended(model, plan.options) + _unnested(model, double_quant) if precision in QUANTIZED else ()
        if plan.placement:
            dispatch(model, plan.placement)
            notes += offload_notes(plan.placement)
        ranks = shares.world_size() if tensor_parallel else 1
        notes += shares.notes(ranks) if tensor_parallel else ()
    return LoadedModel(
        name=found.name,
        model=model,
        adapter=adapter,
        tokenizer=tokenizer,
        tokenizer_reason=why_none,
        precision=precision,
        device=plan.options.device,
        weights="bundled" if found.kind == "bundled" and weights == "pretrained" else weights,
        source=found.source,
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
    states = [getattr(one, "quant_state", None) for one in model.parameters()]
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
