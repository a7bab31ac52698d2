"""Where each module of a model lies, and accelerate's hooks, which move what passes between modules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from energyscope.reasons import Reason, reason

if TYPE_CHECKING:
    import torch

Entry = TypeVar("Entry")


@dataclass(frozen=True)
class Placement:
    """The devices of a model's modules, by their paths: the nearest path above a module decides.

    ``main`` is where the inputs go. What lies on the CPU beside a main GPU waits there, and is copied to that GPU
    whenever it runs.
    """

    modules: Mapping[str, torch.device]
    main: torch.device

    def device_of(self, path: str) -> torch.device:
        """Return where a module or a parameter lies; what has no path above it lies on the main device."""
        return nearest(path, self.modules) or self.main

    def runs_on(self, path: str) -> torch.device:
        """Return where a module runs."""
        return self.main if self.waits(path) else self.device_of(path)

    def waits(self, path: str) -> bool:
        """Tell whether a module waits in host memory."""
        return str(self.device_of(path)) == "cpu" != str(self.main)

    @property
    def devices(self) -> tuple[torch.device, ...]:
        """All devices that hold weights or run them, the main one first."""
        return tuple(dict.fromkeys([self.main, *self.modules.values()]))

    @property
    def offloaded(self) -> tuple[str, ...]:
        """The modules that wait in host memory."""
        return tuple(path for path in self.modules if self.waits(path))


def nearest(path: str, entries: Mapping[str, Entry]) -> Entry | None:
    """Return the entry of a module path or of the nearest one above it; the empty path is above all."""
    words = path.split(".")
    above = (".".join(words[:end]) for end in range(len(words), -1, -1))
    return next((entries[name] for name in above if name in entries), None)


def accelerate_map(placement: Placement) -> dict[str, int | str | torch.device]:
    """Return the device of each module by the names that accelerate and transformers use."""
    return {path: _name(device) for path, device in placement.modules.items()}


def _name(device: torch.device) -> int | str | torch.device:
    """Return a GPU's number; ``cpu`` for the memory that modules wait in, a device for a CPU that computes.

    Only tests let a model over several devices compute on a CPU, which is ``cpu:0`` there.
    """
    import torch

    if device.type == "cuda":
        return device.index
    return "cpu" if device.index is None else torch.device(device.type)


def dispatch(model: Any, placement: Placement) -> None:
    """Put accelerate's hooks on a model, in place; its weights lie where the placement says."""
    from accelerate import dispatch_model

    dispatch_model(
        model,
        accelerate_map(placement),
        main_device=_name(placement.main),
        skip_keys=getattr(model, "_skip_keys_device_placement", None),
        force_hooks=True,
    )


def undispatch(model: Any) -> None:
    """Take accelerate's hooks off a model, in place: modules that wait have their weights again, and ties hold.

    transformers puts the hooks on while it loads, with a main device of its own choice.
    """
    from accelerate.hooks import remove_hook_from_module

    remove_hook_from_module(model, recurse=True)
    tied: dict[Any, Any] = {}
    for module in model.modules():
        if getattr(vars(module).get("forward"), "__func__", None) is type(module).forward:
            del module.forward  # put back as an attribute, where it would outlive a change of class
        for name, parameter in module.named_parameters(recurse=False):
            key = parameter.data_ptr(), parameter.shape, parameter.dtype
            if parameter.numel() and not parameter.is_meta:
                setattr(module, name, tied.setdefault(key, parameter))


def offload_notes(placement: Placement) -> tuple[Reason, ...]:
    """Return a note of the modules that wait in host memory, for readers of the results."""
    names = placement.offloaded
    return (reason("waiting-modules", names=names, device=placement.main),) if names else ()
