"""Accelerate's hooks on a model over several devices: they move what passes between its modules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from energyscope.loading.sharding.placement import Placement
from energyscope.reasons import Reason, reason

if TYPE_CHECKING:
    import torch


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
