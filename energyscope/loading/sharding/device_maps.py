"""What ``--device-map`` asks for, before any model is known: a word, or a file that says what goes where.

A file is one JSON object from module paths to devices; the nearest path above a module decides, and the empty
path is the whole model. The first GPU that it names is the one that inputs go to:

    {"": 0, "model.layers.40": 1, "lm_head": "cuda:1", "model.embed_tokens": "cpu"}
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from energyscope.adapters import did_you_mean
from energyscope.errors import DeviceError, UsageError
from energyscope.failures import first_line
from energyscope.loading.devices import pick_device, why_no_gpu

if TYPE_CHECKING:
    import torch

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
        raise UsageError(f"--device-map {text!r} is no file{hint}")
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"the device map {text} cannot be read as JSON ({first_line(error)}): mend it") from error
    if not isinstance(document, dict) or not document:
        raise UsageError(
            f'the device map {text} must be one JSON object of module paths and devices, like {{"": "cuda:0"}}'
        )
    return {module: _device_name(value, module, text) for module, value in document.items()}


def uses_host(text: str) -> bool:
    """Tell whether a map says that something lies in host memory; a word may find so later."""
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
        return _by_word(device_map, device, gpus)
    import torch

    names = dict.fromkeys(name for name in read_map(device_map).values() if name != "cpu")
    found = tuple(_gpu(name, device_map) for name in names)
    main = found[0] if found else torch.device("cpu")
    if device not in {"auto", *(("cuda",) if found else ())} and pick_device(device) != main:
        raise UsageError(
            f"the device map {device_map} puts the model's inputs on {main}, and --device says {device}: "
            "leave --device out"
        )
    if gpus and set(gpus) != set(found or (main,)):
        named = ", ".join(str(one) for one in found) or "no GPU"
        raise UsageError(
            f"the device map {device_map} uses {named}, and --gpu-id names {', '.join(str(one) for one in gpus)}: "
            "leave --gpu-id out"
        )
    return found or (main,)


def _by_word(word: str, device: str, gpus: Sequence[torch.device]) -> tuple[torch.device, ...]:
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
        there = ", ".join(f"cuda:{one}" for one in range(count))
        raise DeviceError(f"the device map {text} names {name}, which is not there: this machine has {there}")
    return torch.device("cuda", number)
