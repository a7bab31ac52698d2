"""The precisions that a benchmark compares: one model, loaded in each of them.

    fp32, fp16, bf16   all weights in that data type
    fp16-autocast      FP32 weights, products in FP16 (torch.autocast)
    int8               on a GPU bitsandbytes' LLM.int8(), on a CPU PyTorch's dynamic INT8, else torchao's
    int8-static        activation scales calibrated beforehand (torchao)
    nf4, fp4           4-bit weights (bitsandbytes)
    fp8, w8a8, w8a16, int4
                       by PyTorch's own kernels, and ours in Triton (`torch_kernels`)

All start from the same weights, random ones too, and leave the heads unquantized.
"""

from __future__ import annotations

import functools
import time
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from energyscope.errors import DeviceError, ModelError
from energyscope.loading.devices import pick_device
from energyscope.loading.files import model_files, one_line_errors
from energyscope.loading.linears import skipped_linears
from energyscope.loading.model import LoadedModel, load_model
from energyscope.loading.options import BY_TORCH, NATIVE, LoadOptions, LoadSettings, in_precision
from energyscope.loading.planning import heads, meta_model
from energyscope.loading.precision_support import VARIANTS, unsupported
from energyscope.loading.sizes import parameter_count, planned_bytes, stored_bytes
from energyscope.loading.sources import find_model
from energyscope.reasons import Reason, reason, words

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

__all__ = ["VARIANTS", "Variant", "estimated_bytes", "load_variant", "unsupported"]

_BITSANDBYTES = {"int8": "LLM.int8()", "nf4": "NF4", "fp4": "FP4"}


@dataclass(frozen=True)
class Variant:
    """A model in one of the benchmark's precisions.

    ``implementation`` says whose layers compute it; ``dtype`` what the (linear) weights are stored in;
    ``parameters`` counts weights as what they stand for, however they are packed, tied ones once; ``size_bytes``
    is what they take, with their scales (see `sizes.stored_bytes`); ``notes`` say what readers of its results must
    know.
    """

    loaded: LoadedModel
    precision: str
    implementation: str
    dtype: str
    parameters: int
    size_bytes: int
    notes: tuple[Reason, ...]


def load_variant(
    reference: str,
    precision: str,
    settings: LoadSettings | None = None,
    *,
    calibration: Sequence[Mapping[str, Tensor]] = (),
    **options: Any,
) -> Variant:
    """Load a model in one of ``VARIANTS``, ready for inference; ``settings`` and ``options`` as of `load_model`.

    ``calibration`` are batches of the model's inputs on the device, by which ``int8-static`` sets its scales;
    other precisions leave them alone. What is made from FP32 weights needs room for these while it is made.
    ``double_quant`` and ``compute_dtype`` are for 4-bit precisions, and ``skip_modules`` for quantized ones; the
    others leave them alone.

    Raises:
        UsageError: the model or the precision is unknown, or ``int8-static`` has nothing to calibrate on.
        ModelError: as for `load_model`, and where the quantized layers compute wrongly.
        DataError: a batch to calibrate on does not fit the model.
        DeviceError: the device cannot compute the precision (see `unsupported`), or there is no room.

    """
    started = time.perf_counter()
    settings = settings or LoadSettings(**options)
    target = settings.resolved().device
    if why := unsupported(precision, target):
        raise DeviceError(
            f"{precision} cannot be computed on {target}: {words(why)}; otherwise leave this precision out"
        )
    base = base_precision(precision, target)
    device = settings.device if settings.device_map else str(target)
    variant = _unconverted(load_model(reference, in_precision(replace(settings, device=device), base)))
    if base != precision:
        with one_line_errors(variant.loaded.name, LoadOptions(precision=precision, device=target)):
            variant = _converted(variant, precision, calibration, settings.skip_modules)
    loaded = replace(
        variant.loaded, precision=precision, notes=variant.notes, seconds=time.perf_counter() - started
    )
    return replace(variant, loaded=loaded)


def as_variant(loaded: LoadedModel) -> Variant | None:
    """Return a loaded model as the variant of its precision; None where that variant is made in another way."""
    is_base = base_precision(loaded.precision, loaded.device) == loaded.precision
    return _unconverted(loaded) if is_base else None


def _unconverted(loaded: LoadedModel) -> Variant:
    """Return a model as it was loaded as a variant; its notes say what is computed around quantized layers."""
    precision, notes, implementation = loaded.precision, loaded.notes, "torch"
    if precision in _BITSANDBYTES:
        implementation = f"bitsandbytes {_BITSANDBYTES[precision]}"
        dtype = LoadOptions(precision=precision, device=loaded.device).dtype
        notes = (*notes, reason("unquantized-dtype", dtype=str(dtype).removeprefix("torch.")))
    elif precision in BY_TORCH:
        from energyscope.loading.torch_kernels import IMPLEMENTATIONS

        implementation = IMPLEMENTATIONS[precision]
    return Variant(
        loaded=loaded,
        precision=precision,
        implementation=implementation,
        dtype=NATIVE.get(precision, precision),
        parameters=parameter_count(loaded.model),
        size_bytes=stored_bytes(loaded.model),
        notes=notes,
    )


def base_precision(precision: str, device: torch.device) -> str:
    """Return the precision of `load_model` that one of ``VARIANTS`` is made from, or itself."""
    made = {"fp16-autocast", "int8-static", *(("int8",) if device.type == "cpu" else ())}
    return "fp32" if precision in made else precision


def _converted(
    variant: Variant, precision: str, calibration: Sequence[Mapping[str, Tensor]], skip_modules: Sequence[str]
) -> Variant:
    """Convert a float32 model in place to a precision that is made from it."""
    from energyscope.loading import cpu_int8

    model = variant.loaded.model
    if precision == "fp16-autocast":
        put_in_autocast(model, variant.loaded.device)
        weights = (reason("autocast-weights"),)
        return replace(variant, precision=precision, implementation="torch autocast", notes=weights)
    keep = [*heads(variant.loaded.adapter), *skipped_linears(model, skip_modules)]
    if precision == "int8-static":
        implementation, notes = cpu_int8.TORCHAO_STATIC, cpu_int8.quantize_static(model, keep, calibration)
    else:
        implementation, notes = cpu_int8.quantize_dynamic(model, keep)
    return replace(
        variant,
        precision=precision,
        implementation=implementation,
        dtype="int8",
        size_bytes=stored_bytes(model),
        notes=notes,
    )


def put_in_autocast(model: nn.Module, device: torch.device) -> None:
    """Make a model compute inside `torch.autocast` to float16 whenever it is called, in place.

    Its class, its modules and its weights stay; a copy of it computes so too. Its outputs are float16 where their
    last operation is one that autocast casts.
    """
    import torch

    own: Any = type(model).forward

    @functools.wraps(own)  # callers look at the signature
    def forward(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        with torch.autocast(device.type, torch.float16):
            return own(self, *args, **kwargs)

    bound: Any = types.MethodType(forward, model)  # bound anew when the model is copied, as a closure would not be
    if hasattr(model, "_old_forward"):  # accelerate's hook is around it, and stays so
        model._old_forward = bound  # noqa: SLF001
    else:
        model.forward = bound


def estimated_bytes(
    reference: str,
    precision: str,
    *,
    device: str = "auto",
    trust_remote_code: bool = False,
    adapter: str | None = None,
) -> int | None:
    """Return the bytes that a model's weights will take in a precision, without loading them.

    Scales are taken as float32; some layers keep them shorter, or keep more beside them (a few per cent). None
    where the model's configuration cannot be had or read, which loading says in words.

    Raises:
        UsageError: the model or the precision is unknown.
        DeviceError: there is no such device.

    """
    target = pick_device(device)
    unsupported(precision, target)
    source = find_model(reference)
    base = base_precision(precision, target)
    options = LoadOptions(  # random weights: the configuration suffices
        precision=base, device=target, weights="random", trust_remote_code=trust_remote_code, adapter=adapter
    )
    try:
        with model_files(source, options) as files:
            model = meta_model(files, options)
    except ModelError:
        return None
    stored = precision if precision in {base, "fp16-autocast"} else "int8"
    return planned_bytes(model, base if stored == "fp16-autocast" else stored, heads(files.adapter))
