"""A model split over the processes of torchrun by transformers' own plan: each has a share of every large matrix.

transformers' plan (``tp_plan``) says how: a linear's outputs (``colwise``) or inputs (``rowwise``, whose partial
sums the ranks add up) are divided, as Shoeybi et al. 2019 (Megatron-LM, arXiv 1909.08053) have it. transformers
reads each rank's share alone and puts a forward of its own on each linear. Two things of it are changed here, so
that modules can be copied, counted and replayed like any other:

- a rank's share is a plain tensor: transformers wraps it (DTensor) and unwraps it around every call, which is host
  time alone. What it computes through the wrapper is computed as the wrapper would: embeddings look up their own
  rows and are summed, and outputs that all ranks need (the head's) are gathered;
- a copy of a module computes with its own weights: transformers' forward holds on to the module it was made for.
"""

from __future__ import annotations

import math
import os
import re
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from energyscope.errors import DeviceError, ModelError, UsageError
from energyscope.loading.split_forwards import SPLIT_STYLES, forward_of
from energyscope.reasons import Reason, reason

if TYPE_CHECKING:
    import torch
    from torch import nn

IDLE = timedelta(hours=12)  # a rank may wait that long for another's next call
WHOLE_STYLES = {"replicate", "replicated_with_grad_allreduce"}  # nothing to do but in training


def world_size() -> int:
    """Return how many processes share a model; 1 where none were joined."""
    import torch.distributed as dist

    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank_device(name: str, local_rank: int, ranks: int) -> torch.device:
    """Return the device of one of the ranks: the GPU of its number, or the CPU where there are none.

    Raises:
        DeviceError: there are fewer GPUs than ranks.
        UsageError: ranks were asked to share a device that transformers would not put them on.

    """
    import torch

    if not torch.cuda.is_available():
        if name not in {"auto", "cpu"}:
            raise DeviceError(f"--device {name} needs NVIDIA GPUs, and torch finds none: use --device cpu")
        return torch.device("cpu")
    if name == "cpu":
        raise UsageError("--tensor-parallel takes GPUs where there are some: set CUDA_VISIBLE_DEVICES= as well")
    count = torch.cuda.device_count()
    if count < ranks:
        raise DeviceError(f"{ranks} processes need a GPU each, and {count} are visible: start {count} at most")
    return torch.device("cuda", local_rank)


def join(device: torch.device) -> None:
    """Join the processes that torchrun started on this machine: NCCL between GPUs, gloo between CPU processes.

    Raises:
        DeviceError: they cannot reach each other.

    """
    import torch
    import torch.distributed as dist

    if Path("/sys/class/net/lo").exists():
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # one machine: its name need not resolve
    try:
        if device.type == "cuda":
            torch.cuda.set_device(device)
            dist.init_process_group("nccl", device_id=device, timeout=IDLE)
        else:
            dist.init_process_group("gloo", timeout=IDLE)
    except (RuntimeError, ValueError) as error:
        raise DeviceError(f"the processes of torchrun cannot reach each other: {error}") from error


def leave() -> None:
    """Leave the other processes, after the last call that all of them make."""
    import torch.distributed as dist

    if dist.is_initialized():
        dist.destroy_process_group()


def check_plan(name: str, model: Any, ranks: int) -> None:
    """Refuse a model that cannot be split; ``model`` may be on the meta device.

    Raises:
        UsageError: transformers has no plan for it, its heads cannot be divided evenly, or the plan divides in a
            way that cannot be replayed here.

    """
    plan = plan_of(model)
    if not plan:
        raise UsageError(
            f"transformers has no tensor-parallel plan for {name} ({type(model).__name__}): leave "
            "--tensor-parallel out, and use --device-map to spread it"
        )
    unknown = sorted(set(plan.values()) - SPLIT_STYLES - WHOLE_STYLES)
    if unknown:
        raise UsageError(
            f"the tensor-parallel plan of {name} splits by {', '.join(unknown)}, which cannot be replayed yet: "
            "use --device-map"
        )
    _check_heads(name, model.config.get_text_config(), ranks)


def _check_heads(name: str, config: Any, ranks: int) -> None:
    queries = getattr(config, "num_attention_heads", None)
    if not isinstance(queries, int):
        return
    keys = getattr(config, "num_key_value_heads", None) or queries
    if queries % ranks or keys % ranks:
        divisor = math.gcd(queries, keys)
        possible = [str(number) for number in range(2, divisor + 1) if divisor % number == 0]
        instead = f"start {' or '.join(possible[:4])} of them" if possible else "use --device-map"
        raise UsageError(
            f"the {queries} heads of {name}, {keys} of them for keys and values, cannot be divided evenly over "
            f"{ranks} processes: {instead}"
        )


def plan_of(model: Any) -> dict[str, str]:
    """Return how transformers would split a model: module paths, their layers' numbers as ``*``, and styles."""
    return dict(getattr(model, "_tp_plan", None) or {})


def style_of(path: str, plan: dict[str, str]) -> str | None:
    """Return a plan's style for a module, None where it names none."""
    return plan.get(re.sub(r"(?<=\.)\d+(?=\.|$)", "*", path))


def share_bytes(model: nn.Module, ranks: int) -> int:
    """Return the bytes of weights that each rank holds, about: what the plan divides, divided; tied ones once."""
    plan = plan_of(model)
    seen: set[int] = set()
    total = 0.0
    for path, module in model.named_modules():
        split = style_of(path, plan) in SPLIT_STYLES
        for weight in module.parameters(recurse=False):
            if id(weight) not in seen:
                seen.add(id(weight))
                total += weight.nbytes / (ranks if split else 1)
    return round(total)


def distributed_config() -> Any:
    """Return what `from_pretrained` needs to read a rank's share alone.

    Raises:
        ModelError: this transformers is too old.

    """
    try:
        from transformers.distributed import DistributedConfig

        return DistributedConfig(tp_size=world_size())
    except (ImportError, TypeError) as error:
        message = "--tensor-parallel needs transformers 5.17 or newer: update it, or use --device-map"
        raise ModelError(message) from error


def split_meta_model(model: Any) -> Any:
    """Return a model on the meta device with each rank's share of the weights, and the forwards of the plan."""
    _untie(model)
    model_class = type(model)
    config, _, mesh = model_class.prepare_distribute_model(distributed_config())
    split = model_class.maybe_distribute_model(model, config, mesh)
    unwrap(split)
    return split


def _untie(model: nn.Module) -> None:
    """Give each module weights of its own: tied ones are split one by one, and tied again once they are filled."""
    from torch import nn

    seen: set[int] = set()
    for module in model.modules():
        for name, weight in list(module.named_parameters(recurse=False)):
            if id(weight) in seen:
                setattr(module, name, nn.Parameter(weight.detach().clone(), requires_grad=False))
            seen.add(id(weight))


def unwrap(model: Any) -> None:
    """Make a split model's shares plain tensors, and its forwards such that copies of modules keep their own."""
    from torch import nn
    from torch.distributed.tensor import DTensor

    plan = plan_of(model)
    shares: dict[int, nn.Parameter] = {}  # by the id of the wrapped weight: tied ones become one
    meshes = [weight.device_mesh for weight in model.parameters() if isinstance(weight, DTensor)]
    if not meshes:
        raise ModelError("transformers split no weight of the model: leave --tensor-parallel out")
    for path, module in model.named_modules():
        for name, weight in list(module.named_parameters(recurse=False)):
            if isinstance(weight, DTensor):
                local = weight.to_local().detach()
                setattr(module, name, shares.setdefault(id(weight), nn.Parameter(local, requires_grad=False)))
        style = style_of(path, plan)
        if style in SPLIT_STYLES:
            module.forward = forward_of(module, style, meshes[0])


def notes() -> tuple[Reason, ...]:
    """Return what readers of a split model's results must know."""
    return reason("split-over-processes", processes=world_size()), reason("plain-shares")
