"""What ``--device-map`` asks for: a word, or a file that says what goes where. Imports no torch by itself.

A file is one JSON object from module paths to devices; the nearest path above a module decides, and the empty
path is the whole model. The first GPU that it names is the one that inputs go to:

    {"": 0, "model.layers.40": 1, "lm_head": "cuda:1", "model.embed_tokens": "cpu"}
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from energyscope.errors import DeviceError, UsageError, did_you_mean
from energyscope.failures import first_line
from energyscope.loading.devices import gpu_names, pick_device, why_no_gpu
from energyscope.loading.sharding.placement import Placement, nearest

if TYPE_CHECKING:
    import torch
    from torch import nn

WORDS = ("auto", "balanced", "sequential")


def check_device_map(text: str) -> None:
    """Refuse what is neither a word nor a readable file. Imports no torch.

    Raises:
        UsageError: an unknown word, or a file that is missing or not a map.

    """
    if text not in WORDS:
        read_map(text)


def read_map(text: str) -> dict[str, str]:
    """Return what a file says: module paths and ``cpu`` or ``cuda:N``, in its order.

    Raises:
        UsageError: there is no such file, or it is not a map.

    """
    path = Path(text)
    if not path.is_file():
        near = did_you_mean(text, list(WORDS))
        hint = near if "did you mean" in near else f": give one of {', '.join(WORDS)}, or a JSON file"
        raise UsageError(f"--device-map {text!r} is not a file{hint}")
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        why = first_line(error)
        raise UsageError(f"the device map {text} cannot be read as JSON ({why}): correct it") from error
    if not isinstance(document, dict) or not document:
        raise UsageError(
            f'the device map {text} must be one JSON object of module paths and devices, like {{"": "cuda:0"}}'
        )
    return {module: _device_name(value, module, text) for module, value in document.items()}


def uses_host(text: str) -> bool:
    """Tell whether a file puts something in host memory; a word may do so too, once sizes are known."""
    return text not in WORDS and "cpu" in read_map(text).values()


def _device_name(value: Any, module: str, text: str) -> str:
    if value == "disk":
        raise UsageError(
            f"the device map {text} puts {module!r} on disk, whose energy is not measured: "
            "use cpu, or a GPU's number"
        )
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return f"cuda:{value}"
    kind, _, index = value.partition(":") if isinstance(value, str) else ("", "", "")
    if value == "cpu" or (kind == "cuda" and index.isdecimal()):
        return str(value)
    raise UsageError(f"the device map {text} puts {module!r} on {value!r}: use a GPU's number, cuda:N or cpu")


def map_devices(
    device_map: str, device: str = "auto", gpus: Sequence[torch.device] = ()
) -> tuple[torch.device, ...]:
    """Return the devices that a map may put a model on, that of its inputs first.

    For a word, ``gpus`` in their order, else all that this process sees, the one that ``device`` names first. For
    a file its GPUs, in the order in which it names them; the CPU alone where it names none.

    Raises:
        UsageError: the map cannot be read, or ``device`` or ``gpus`` contradict it.
        DeviceError: there is no GPU, or not the one that is named.

    """
    if device_map in WORDS:
        return _gpus_for_word(device_map, device, gpus)
    import torch

    names = dict.fromkeys(name for name in read_map(device_map).values() if name != "cpu")
    named = tuple(_gpu(name, device_map) for name in names)
    used = named or (torch.device("cpu"),)
    main = used[0]
    if device not in {"auto", *(("cuda",) if named else ())} and pick_device(device) != main:
        raise UsageError(
            f"the device map {device_map} puts the model's inputs on {main}, and --device says {device}: "
            "leave --device out"
        )
    if gpus and set(gpus) != set(used):
        raise UsageError(
            f"the device map {device_map} uses {', '.join(map(str, named)) or 'no GPU'}, and --gpu-id names "
            f"{', '.join(map(str, gpus))}: leave --gpu-id out"
        )
    return used


def _gpus_for_word(word: str, device: str, gpus: Sequence[torch.device]) -> tuple[torch.device, ...]:
    import torch

    if device == "cpu":
        raise UsageError(
            f"--device-map {word} spreads a model over GPUs, and --device cpu names none: leave one out"
        )
    if not torch.cuda.is_available():
        raise DeviceError(
            f"--device-map {word} spreads a model over GPUs, and {why_no_gpu()}: use --device cpu without it"
        )
    if gpus:
        return tuple(gpus)
    first = pick_device(device)
    return tuple(dict.fromkeys([first, *(torch.device("cuda", n) for n in range(torch.cuda.device_count()))]))


def _gpu(name: str, text: str) -> torch.device:
    import torch

    number = int(name.partition(":")[2])
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if not count:
        raise DeviceError(f"the device map {text} names {name}, and {why_no_gpu()}: name cpu alone, or no map")
    if number >= count:
        raise DeviceError(
            f"the device map {text} names {name}, which is not there: this machine has {gpu_names()}"
        )
    return torch.device("cuda", number)


def module_devices(model: nn.Module, entries: Mapping[str, str], text: str) -> dict[str, torch.device]:
    """Return the device of every tensor of a model by a file's entries, with as few module paths as possible.

    ``text`` names the file in messages. Buffers that no entry covers are left to the main device.

    Raises:
        UsageError: the file names a module that the model does not have, or leaves some out.

    """
    import torch

    modules = {path for path, _ in model.named_modules(remove_duplicate=False)}
    tensors = [path for path, _ in model.named_parameters(remove_duplicate=False)]
    tensors += [path for path, _ in model.named_buffers(remove_duplicate=False)]
    for path in entries:
        if path not in modules.union(tensors):
            near = did_you_mean(path, sorted(modules))
            hint = near if "did you mean" in near else ""
            raise UsageError(f"the device map {text} names {path!r}, which the model does not have{hint}")
    names = {path: nearest(path, entries) for path in tensors}
    missing = {path for path in model.state_dict() if names.get(path, "") is None}
    if left_out := sorted({path.rpartition(".")[0] or path for path in missing}):
        more = f" and {len(left_out) - 3} more" if len(left_out) > 3 else ""
        raise UsageError(
            f'the device map {text} leaves out {", ".join(left_out[:3])}{more}: add them, or "" for all the rest'
        )
    return _whole_modules(model, "", {path: torch.device(name) for path, name in names.items() if name})


def _whole_modules(module: nn.Module, path: str, devices: Mapping[str, torch.device]) -> dict[str, torch.device]:
    """Return the devices of a module's tensors by the largest modules that lie on one device as a whole."""
    below = {name: device for name, device in devices.items() if not path or name.startswith(f"{path}.")}
    if len(set(below.values())) < 2:
        return dict.fromkeys([path] if below else [], *set(below.values()))
    result = {name: device for name, device in below.items() if name.rpartition(".")[0] == path}
    for name, child in module.named_children():
        result |= _whole_modules(child, f"{path}.{name}".lstrip("."), below)
    return result


def check_placement(
    model: Any, placement: Placement, unsplit: Collection[str], quantized: Collection[str], text: str
) -> None:
    """Refuse a placement that could not run: accelerate moves what passes between modules, not within them.

    ``unsplit`` are the classes of modules that run on one device, ``quantized`` the paths of modules that cannot
    wait in host memory.

    Raises:
        UsageError: tied weights or such a module are on two devices, or a quantized one would wait.

    """
    from accelerate.utils.modeling import find_tied_parameters

    for group in find_tied_parameters(model):
        if len({placement.device_of(path) for path in group}) > 1:
            raise UsageError(f"{' and '.join(group)} are the same weights: let {text} put them on one device")
    for path, module in model.named_modules():
        if type(module).__name__ not in unsplit:
            continue
        if len({placement.runs_on(name) for name, _ in module.named_parameters(prefix=path)}) > 1:
            raise UsageError(
                f"{path} ({type(module).__name__}) adds its parts up, which must run on one device: "
                f"let {text} put it on one"
            )
    if offloaded := [path for path in quantized if placement.waits(path)]:
        raise UsageError(
            f"quantized layers cannot wait in host memory ({offloaded[0]}): let {text} put them on a GPU, or name "
            "them with --skip-modules"
        )
