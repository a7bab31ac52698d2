"""A device map's file on a model: what it leaves out, what it names wrongly, and what must stay together."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from energyscope.adapters import did_you_mean
from energyscope.errors import UsageError

if TYPE_CHECKING:
    from energyscope.loading.sharding.placement import Placement


def spread(model: nn.Module, entries: Mapping[str, str], text: str) -> dict[str, torch.device]:
    """Return the fewest module paths that say where every tensor of a model lies, by a file's entries.

    ``text`` names the file in messages. Buffers that no entry covers are left to the main device.

    Raises:
        UsageError: the file names a module that the model has not, or leaves some out.

    """
    tensors = _tensors(model)
    known = {path for path, _ in model.named_modules(remove_duplicate=False)} | set(tensors)
    for path in entries:
        if path not in known:
            near = did_you_mean(path, sorted(known - set(tensors)))
            raise UsageError(
                f"the device map {text} names {path!r}, which the model has not{near if 'mean' in near else ''}"
            )
    homes = {path: _nearest(path, entries) for path in tensors}
    stored = set(model.state_dict())
    left = sorted(_above(path for path, home in homes.items() if home is None and path in stored))
    if left:
        more = f" and {len(left) - 3} more" if len(left) > 3 else ""
        raise UsageError(
            f'the device map {text} leaves out {", ".join(left[:3])}{more}: add them, or "" for all the rest'
        )
    return _covered(model, "", {path: home for path, home in homes.items() if home is not None})


def _tensors(model: nn.Module) -> list[str]:
    parameters = [path for path, _ in model.named_parameters(remove_duplicate=False)]
    return parameters + [path for path, _ in model.named_buffers(remove_duplicate=False)]


def _above(paths: Iterable[str]) -> set[str]:
    return {path.rpartition(".")[0] or path for path in paths}


def _nearest(path: str, entries: Mapping[str, str]) -> torch.device | None:
    words = path.split(".")
    above = (".".join(words[:end]) for end in range(len(words), -1, -1))
    return next((torch.device(entries[one]) for one in above if one in entries), None)


def _covered(module: nn.Module, path: str, homes: Mapping[str, torch.device]) -> dict[str, torch.device]:
    below = {one: home for one, home in homes.items() if not path or one.startswith(f"{path}.")}
    devices = set(below.values())
    if len(devices) < 2:
        return dict.fromkeys([path] if devices else [], *devices)
    found = {one: home for one, home in below.items() if one.rpartition(".")[0] == path}
    for name, child in module.named_children():
        found |= _covered(child, f"{path}.{name}".lstrip("."), below)
    return found


def check_spread(
    model: Any, placement: Placement, whole: Collection[str], quantized: Collection[str], text: str
) -> None:
    """Refuse a placement that could not run: accelerate moves what passes between modules, not what is within.

    ``whole`` are the classes of modules that run on one device, ``quantized`` the paths of modules that cannot
    wait in host memory.

    Raises:
        UsageError: tied weights or such a module are on two devices, or a quantized one would wait.

    """
    from accelerate.utils.modeling import find_tied_parameters

    for group in find_tied_parameters(model):
        if len({placement.device_of(path) for path in group}) > 1:
            raise UsageError(f"{' and '.join(group)} are the same weights: let {text} put them on one device")
    for path, module in model.named_modules():
        if type(module).__name__ not in whole:
            continue
        inner = (one for one, _ in module.named_parameters(prefix=path))
        places = {placement.runs_on(one) for one in inner}
        if len(places) > 1:
            raise UsageError(
                f"{path} ({type(module).__name__}) adds its parts up, which must run on one device: "
                f"let {text} put it on one"
            )
    waiting = [path for path in quantized if placement.runs_on(path) != placement.device_of(path)]
    if waiting:
        raise UsageError(
            f"quantized layers cannot wait in host memory ({waiting[0]}): let {text} put them on a GPU, or name "
            "them with --skip-modules"
        )
