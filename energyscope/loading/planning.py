"""The plan of a load, made from a model's shape alone: which modules stay unquantized, and what goes where."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any

from energyscope.adapters import Adapter
from energyscope.errors import DeviceError, ModelError
from energyscope.loading import tensor_parallel
from energyscope.loading.devices import require_room
from energyscope.loading.files import ModelFiles, model_files
from energyscope.loading.linears import skipped_linears
from energyscope.loading.options import LoadOptions
from energyscope.loading.sharding.placement import Placement
from energyscope.loading.sizes import planned_bytes
from energyscope.loading.sources import find_model

# Predictions suffer most when a head is quantized, and a head that is tied to the embedding cannot be.
_HEADS = {"lm_head", "classifier", "pooler"}


@dataclass(frozen=True)
class LoadPlan:
    """What is settled before weights are read or drawn.

    ``keep`` names the modules that stay unquantized; ``placement`` is None where ``options.device`` has the whole
    model.
    """

    options: LoadOptions
    keep: list[str]
    placement: Placement | None = None


@dataclass(frozen=True)
class LoadEstimate:
    """What loading a model would take: the bytes of its weights, and why they have no room (None: they have)."""

    weight_bytes: int
    refused: str | None


def plan_model(files: ModelFiles, options: LoadOptions) -> LoadPlan:
    """Return what a model's shape and the room on the devices decide.

    Raises:
        UsageError: modules to skip are not there, the device map does not fit the model, or it cannot be split
            over processes.
        ModelError: the weights are stored quantized.
        DeviceError: there is not enough memory.

    """
    return _plan(files, *_shape(files, options), options)


def estimate_load(reference: str, options: LoadOptions) -> LoadEstimate:
    """Return what loading a model would take, from its configuration alone.

    Raises:
        UsageError: there is no such model, or the options do not fit it.
        ModelError: its files are out of reach, no adapter serves it, or its weights are stored quantized.

    """
    random = replace(options, weights="random")  # no weights are looked for
    with model_files(find_model(reference), random) as files:
        shape, keep = _shape(files, options)
        needed = planned_bytes(shape, options.precision, keep, double_quant=options.double_quant)
        try:
            _plan(files, shape, keep, options)
        except DeviceError as error:
            return LoadEstimate(needed, str(error))
    return LoadEstimate(needed, None)


def _shape(files: ModelFiles, options: LoadOptions) -> tuple[Any, list[str]]:
    """Return the unquantized model on the meta device, and the modules of it that stay unquantized."""
    stored = getattr(files.config, "quantization_config", None)
    if stored:
        method = stored.get("quant_method") if isinstance(stored, dict) else getattr(stored, "quant_method", "?")
        raise ModelError(
            f"{files.source.name} is stored quantized ({method}): give the original, and quantize with --precision"
        )
    shape = meta_model(files, options)
    return shape, [*heads(files.adapter), *skipped_linears(shape, options.skip_modules)]


def _plan(files: ModelFiles, shape: Any, keep: list[str], options: LoadOptions) -> LoadPlan:
    name = f"{files.source.name} in {options.precision}"
    if options.device_map is not None:
        from energyscope.loading.sharding.placing import place

        placement = place(shape, options, keep, _unsplit_classes(shape, files.adapter), name)
        if len(placement.devices) > 1:
            return LoadPlan(replace(options, device=placement.main), keep, placement)
        options = replace(options, device=placement.main)
    if options.tensor_parallel:
        ranks = tensor_parallel.world_size()
        tensor_parallel.check_plan(files.source.name, shape, ranks)
        require_room(tensor_parallel.share_bytes(shape, ranks), options.device, f"a share of {name}")
        return LoadPlan(options, keep)
    needed = planned_bytes(shape, options.widest, keep, double_quant=options.double_quant)
    require_room(needed, options.device, name)
    return LoadPlan(options, keep)


def _unsplit_classes(model: Any, adapter: Adapter) -> list[str]:
    """Return the classes of modules that run on one device: transformers' own list, and that of the layers."""
    named = set(getattr(model, "_no_split_modules", None) or ())
    return sorted(named | {type(layer).__name__ for layer in model.get_submodule(adapter.layers)})


def heads(adapter: Adapter) -> list[str]:
    """Return the paths of the modules that stay unquantized."""
    return [part.path for part in adapter.parts if part.kind in _HEADS]


def meta_model(files: ModelFiles, options: LoadOptions) -> Any:
    """Return the unquantized model on the meta device, which takes no memory."""
    import torch

    with torch.device("meta"):
        return empty_model(files, options)


def empty_model(files: ModelFiles, options: LoadOptions) -> Any:
    """Return the unquantized model as transformers builds it in the current device context."""
    return auto_class(files.adapter).from_config(
        copy.deepcopy(files.config), dtype=options.dtype, trust_remote_code=options.trust_remote_code
    )


def auto_class(adapter: Adapter) -> Any:
    import transformers

    model_class = getattr(transformers, adapter.auto_class, None)
    if model_class is None:
        raise ModelError(f"the adapter {adapter.name!r} names {adapter.auto_class!r}, which transformers lacks")
    return model_class
