"""Where each module of a model lies, and accelerate's hooks, which move what passes between modules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from energyscope.reasons import Reason, reason

if TYPE_CHECKING:
    import torch


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
        words = path.split(".") if path else []
        above = (".".join(words[:end]) for end in range(len(words), -1, -1))
        return next((self.modules[name] for name in above if name in self.modules), self.main)

    def runs_on(self, path: str) -> torch.device:
        """Return where a module runs."""
        device = self.device_of(path)
        return self.main if self._waits(device) else device

    @property
    def devices(self) -> tuple[torch.device, ...]:
        """All devices that hold weights or run them, the main one first."""
        return tuple(dict.fromkeys([self.main, *self.modules.values()]))

    @property
    def offloaded(self) -> tuple[str, ...]:
        """The modules that wait in host memory."""
        return tuple(path for path, device in self.modules.items() if self._waits(device))

    def _waits(self, device: torch.device) -> bool:
        return str(device) == "cpu" != str(self.main)


def as_accelerate_has_it(placement: Placement) -> dict[str, int | str | torch.device]:
    """Return a placement with the names that accelerate and transformers know devices by."""
    return {path: _name(device) for path, device in placement.modules.items()}


def _name(device: torch.device) -> int | str | torch.device:
    """Return a GPU's number; of the CPU the word where modules wait in its memory, else (``cpu:0``) a device.

    That is how accelerate tells them apart. Only tests let a model over several devices compute on a CPU.
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
        as_accelerate_has_it(placement),
        main_device=_name(placement.main),
        skip_keys=getattr(model, "_skip_keys_device_placement", None),
        force_hooks=True,
    )


def undispatch(model: Any) -> None:
    """Take accelerate's hooks off a model, in place: what waits on the host is whole again, and ties hold.

    transformers puts them on before we have seen the model, with a main device of its own choice.
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
    """Say what waits on the host, for readers of the results."""
    waiting = placement.offloaded
    return (reason("waiting-modules", names=waiting, device=placement.main),) if waiting else ()
