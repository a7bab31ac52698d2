"""Choose a device for each module, from a model without weights, before any are read or drawn.

    --device-map auto, balanced   over all GPUs, about as much on each
    --device-map sequential       the first GPU full, then the next
    --device-map FILE             as the file says (`energyscope.loading.sharding.device_maps`)

The words are accelerate's, and mean what they mean there. What finds no room on the GPUs waits in host memory, and
is copied to the main one whenever it runs; quantized layers cannot wait there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import torch
from torch import nn

from energyscope.errors import DeviceError
from energyscope.loading.devices import gigabytes, usable_bytes
from energyscope.loading.libraries import silence_loggers
from energyscope.loading.linears import quantized_linears
from energyscope.loading.options import EIGHT_BIT, NATIVE, LoadOptions
from energyscope.loading.random_weights import float32_bytes
from energyscope.loading.sharding.device_maps import WORDS, check_placement, module_devices, read_map
from energyscope.loading.sharding.placement import Placement
from energyscope.loading.sizes import planned_parameters

CPU = torch.device("cpu")
_SHARE = 0.9  # of what is free: inputs, the KV cache and the allocator need room too


def place(model: Any, options: LoadOptions, keep: list[str], unsplit: Collection[str], name: str) -> Placement:
    """Return where the modules of a model go by ``options.device_map``.

    ``model`` is unquantized, in the data type of everything that stays so, and may be on the meta device. ``keep``
    names the modules that stay unquantized, ``unsplit`` the classes of modules that run on one device; ``name``
    is that of the weights in messages.

    Raises:
        UsageError: the file does not fit the model.
        DeviceError: the weights fit on no arrangement, or not on the file's.

    """
    text = options.device_map or ""
    if text in WORDS:
        devices = [*options.devices, *([CPU] if options.precision in NATIVE else [])]
        return infer_placement(model, options, keep, unsplit, {device: _free(device) for device in devices}, name)
    placement = _placement(module_devices(model, read_map(text), text), options)
    check_placement(model, placement, unsplit, quantized_linears(model, options.precision, keep), text)
    free = {device: _free(device) for device in placement.devices}
    needed = _needed(_sizes(model, options, keep), placement)
    short = [device for device in needed if 0 < free[device] < needed[device]]
    if short:
        parts = ", ".join(f"{gigabytes(needed[device])} on {device}" for device in short)
        raise DeviceError(f"{name}: the device map puts {parts}, and {_listed(free)}: move some of it elsewhere")
    return placement


def _placement(modules: Mapping[str, torch.device], options: LoadOptions) -> Placement:
    """Return the placement of modules whose main device is the first one of the options that has some."""
    return Placement(modules, next((device for device in options.devices if device in modules.values()), CPU))


def _sizes(model: nn.Module, options: LoadOptions, keep: list[str]) -> dict[str, int]:
    return dict(planned_parameters(model, options.widest, keep, double_quant=options.double_quant))


def _free(device: torch.device) -> int:
    """Return the bytes that are free for us, with those that PyTorch keeps for its next tensors; 0 if unknown."""
    return usable_bytes(device) or 0


def infer_placement(
    model: Any,
    options: LoadOptions,
    keep: list[str],
    unsplit: Collection[str],
    free: Mapping[torch.device, int],
    name: str,
) -> Placement:
    """Return accelerate's arrangement of a model over the devices that have ``free`` bytes, in their order.

    The CPU among them is the host, in whose memory modules may wait. The rest is as for `place`.

    Raises:
        DeviceError: it finds none, or none that a GPU could run.

    """
    from accelerate import infer_auto_device_map
    from accelerate.utils import get_balanced_memory

    silence_loggers()
    gpus = [device for device in free if device != CPU]
    dtypes = _dtypes(model, options, keep)
    sizes = _sizes(model, options, keep)
    total = sum(sizes.values())
    share = _bytes_without_scales(model, dtypes) / max(1, total)  # accelerate knows of no scales
    room = _room(model, options, free)
    memory: dict[int | str, int] = {number: int(share * room[device]) for number, device in enumerate(gpus)}
    memory["cpu"] = room.get(CPU, 0)
    settings: dict[str, Any] = {"no_split_module_classes": list(unsplit), "special_dtypes": dtypes}
    if options.device_map != "sequential":
        memory = get_balanced_memory(model, dict(memory), **settings)
    device_map = infer_auto_device_map(model, memory, **settings)
    if "disk" not in device_map.values():
        modules = {path: CPU if place == "cpu" else gpus[int(place)] for path, place in device_map.items()}
        placement = _placement(modules, options)
        needed = _needed(sizes, placement)
        if placement.main != CPU and all(needed[device] <= free[device] for device in needed):
            return placement
    raise _no_room(total, free, name)


def _room(model: nn.Module, options: LoadOptions, free: Mapping[torch.device, int]) -> dict[torch.device, int]:
    """Return the bytes that weights may take on each device.

    On the main GPU random weights are drawn in float32, of a few modules at a time, which needs room too.
    """
    room = {device: int(_SHARE * size) for device, size in free.items()}
    if options.weights == "random":
        main = options.devices[0]
        room[main] = max(0, min(room[main], free[main] - float32_bytes(model)))
    return room


def _dtypes(model: nn.Module, options: LoadOptions, keep: list[str]) -> dict[str, Any]:
    """Return the data types of quantized weights, by their paths, as accelerate takes them."""
    from accelerate.utils import CustomDtype

    dtype = torch.int8 if options.precision in EIGHT_BIT else CustomDtype.INT4
    return {f"{path}.weight": dtype for path in quantized_linears(model, options.widest, keep)}


def _bytes_without_scales(model: nn.Module, dtypes: Mapping[str, Any]) -> float:
    from accelerate.utils.modeling import dtype_byte_size

    sizes = [
        parameter.numel() * dtype_byte_size(dtypes.get(path, parameter.dtype))
        for path, parameter in model.named_parameters()
    ]
    return float(sum(sizes))


def _needed(sizes: Mapping[str, int], placement: Placement) -> dict[torch.device, int]:
    """Return the bytes of weights on each device; on the main one with those of the largest copy."""
    needed = dict.fromkeys(placement.devices, 0)
    copied: dict[str, int] = {}
    for path, size in sizes.items():
        needed[placement.device_of(path)] += size
        if placement.waits(path):
            module = path.rpartition(".")[0]
            copied[module] = copied.get(module, 0) + size
    needed[placement.main] += max(copied.values(), default=0)
    return needed


def _no_room(needed: int, free: Mapping[torch.device, int], name: str) -> DeviceError:
    waiting = "" if CPU in free else ", where alone quantized weights can be"
    return DeviceError(
        f"{name} needs about {gigabytes(needed)} of memory and finds no arrangement: {_listed(free)}{waiting} "
        f"(a tenth is left for inputs): use a smaller --precision or model, more GPUs, or end what else uses them"
    )


def _listed(free: Mapping[torch.device, int]) -> str:
    return ", ".join(
        f"{'the host' if device == CPU else device} has {gigabytes(size)} free" for device, size in free.items()
    )
