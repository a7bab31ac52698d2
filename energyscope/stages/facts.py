"""What a run's numbers depend on and a reader must know: versions, the device, the model."""

from __future__ import annotations

import hashlib
import importlib.metadata
import itertools
import os
import platform
import resource
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from energyscope.adapter_registry import installed
from energyscope.diagnostics.sensor import idle_facts
from energyscope.errors import MeterError
from energyscope.loading import LoadedModel, parameter_count, weight_bytes
from energyscope.loading.devices import cuda_uuid
from energyscope.loading.linears import is_linear
from energyscope.loading.options import QUANTIZED
from energyscope.metering.amd.board import is_amd
from energyscope.metering.group import MeterGroup
from energyscope.metering.meter import CPU
from energyscope.reasons import Reason, join, reason, split
from energyscope.replay.marks import clock_for
from energyscope.replay.rotation import l2_bytes

if TYPE_CHECKING:
    from energyscope.workloads import Evaluation, Workload

BOOT = Path("/proc/sys/kernel/random/boot_id")
_BUSY_LOAD = 1.5  # for each core: the model gets less than half of the time
DIGESTED = 64  # values of each parameter
PACKAGES = ("energyscope-llm", "torch", "transformers", "accelerate", "bitsandbytes", "nvidia-ml-py", "numpy")


def environment() -> dict[str, Any]:
    """Return the versions of Python, CUDA or HIP and the packages that matter, and how FP32 products are made."""
    versions = {name.replace("-", "_"): _version(name) for name in PACKAGES}
    products = torch.get_float32_matmul_precision()  # on a GPU, products cost what TF32 or true FP32 costs
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cuda": torch.version.cuda,
        "hip": torch.version.hip,
        "threads": torch.get_num_threads(),
        "float32_matmul_precision": f"{products} ({'no TF32' if products == 'highest' else 'TF32 allowed'})",
        **versions,
    }


def _usable_cores() -> int:
    """Return the cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def clock(meter: MeterGroup, device: torch.device) -> str:
    """Return by which clock calls are timed: the ``host``'s, or the ``processor`` time of the thread."""
    return "host" if clock_for(meter, device) is None else "processor"


def load_of_host(device: torch.device, meter: MeterGroup) -> list[Reason]:
    """Return a reason where others use most of the CPU on which a model is timed: the load of the last minute.

    A meter that reads a sensor looks for others by itself.
    """
    cores, load = _usable_cores(), os.getloadavg()[0]
    busy = device.type == "cpu" and meter.modelled and load > _BUSY_LOAD * cores
    return [reason("busy-host", load=load, cores=cores)] if busy else []


def boot() -> str | None:
    """Return what names this start of the machine, which its monotonic clock counts from; None where unknown."""
    try:
        return BOOT.read_text(encoding="ascii").strip()
    except OSError:
        return None


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def gpu_uuid(device: torch.device) -> str | None:
    """Return the UUID of a CUDA device, as NVML writes that of a whole GPU; None for the CPU.

    That of an AMD GPU is as `cuda_uuid` has it.
    """
    if device.type != "cuda":
        return None
    uuid = cuda_uuid(device)
    return uuid if is_amd(uuid) else f"GPU-{uuid}"


def device_facts(device: torch.device) -> dict[str, Any]:
    """Return what is known of the device; on an NVIDIA GPU, with NVML's answers (None where it gives none).

    Of a MIG slice, ``uuid`` and ``memory_bytes`` are its own, and NVML's answers those of the whole GPU.
    """
    if device.type != "cuda":
        return {"type": "cpu", "name": _cpu_name(), "uuid": None, "index": None}
    properties = torch.cuda.get_device_properties(device)
    uuid = cuda_uuid(device)
    facts = {
        "type": "cuda",
        "name": properties.name,
        "uuid": gpu_uuid(device),
        "index": device.index,
        "l2_bytes": l2_bytes(device),
        "memory_bytes": properties.total_memory,
        "power_limit_w": None,
    }
    if is_amd(uuid):
        return facts
    try:
        from energyscope.metering.nvml.board import Board
        from energyscope.metering.nvml.devices import find_gpu

        gpu = find_gpu(uuid)
        return {**facts, **Board(gpu.parent_uuid or gpu.uuid).facts(), "uuid": gpu.uuid}
    except MeterError:
        return facts  # torch can use GPUs that NVML cannot be asked about; the meter says why


def spread_facts(devices: Sequence[torch.device]) -> list[dict[str, Any]] | None:
    """Return what is known of each GPU that a model is spread over; None where it is on one device."""
    alike = [device for device in devices if device.type == devices[0].type]
    return [{"place": str(device), **device_facts(device)} for device in alike] if len(alike) > 1 else None


def measured_gpus(meters: MeterGroup) -> list[str]:
    """Return the UUIDs of the GPUs whose energy is measured; a modelled meter measures none."""
    return [device for device in measured_devices(meters) if device != CPU]


def measured_devices(meters: MeterGroup) -> list[str]:
    """Return what is measured, and by one run at a time: the UUIDs of GPUs, or the processor as ``cpu``."""
    return [meter.device for meter in meters.meters if not meter.modelled]


def idle_sensor(meters: MeterGroup) -> dict[str, Any]:
    """Watch every started meter while nothing runs, some 2 s each: `MeterGroup.describe` with ``idle_w`` (W)."""
    before = meters.host.read()
    sensors = [{"device": meter.device, **idle_facts(meter)} for meter in meters.meters]
    host = meters.host.at_rest(before)
    powers = [sensor["idle_w"] for sensor in sensors]
    together = None if None in powers else sum(powers)
    return {**sensors[0], "idle_w": together, **({"devices": sensors} if len(sensors) > 1 else {}), **host}


def known_of_sensor(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a sensor's description says now, and what is only known from before."""
    known = {**before, **{key: value for key, value in now.items() if value is not None or key not in before}}
    if "devices" in before and "devices" in now:
        pairs = zip(before["devices"], now["devices"], strict=True)
        known["devices"] = [known_of_sensor(earlier, later) for earlier, later in pairs]
    return known


def host_so_far(before: Mapping[str, Any], now: Mapping[str, Any], stage: str) -> dict[str, Any]:
    """Return what a run knows of its host's counter: ``now`` is a stage's description of it, see `HostCounter`.

    ``before`` is what earlier stages left: their reasons stay where this one reads again. Where any stage reads
    the counter, a reason names the stage whose joules are missing.
    """
    if not now:
        return {}
    domains, why = now["host_domains"] or before.get("host_domains") or [], now["host_reason"]
    lost = [reason("in-stage", stage=stage, why=why) if domains else why] if why else []
    earlier = split(before.get("host_reason"))
    if domains and not before.get("host_domains"):  # it could not be read until now
        earlier = [reason("in-stage", stage="earlier stages", why=each) for each in earlier]
    return {"host_domains": domains, "host_reason": join([*earlier, *lost]) or None}


def _cpu_name() -> str:
    try:
        with Path("/proc/cpuinfo").open(encoding="ascii", errors="replace") as file:
            names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.processor() or platform.machine()


def host_peak_bytes() -> int:
    """Return the most host memory that this process has held so far, in bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def model_facts(loaded: LoadedModel) -> dict[str, Any]:
    """Return the model's identity and size."""
    config = getattr(loaded.model, "config", None)  # only models of transformers have one
    return {
        "name": loaded.name,
        "adapter": loaded.adapter.name,
        "adapter_from": origin.origin if (origin := installed().get(loaded.adapter.name)) else None,
        "model_type": getattr(config, "model_type", None),
        "task": loaded.adapter.task,
        "metric": loaded.adapter.metric,
        "source": loaded.source,
        "weights": loaded.weights,
        "weights_digest": weights_digest(loaded.model),
        "parameters": parameter_count(loaded.model),
        "size_bytes": weight_bytes(loaded.model),
        "layers": sum(
            len(loaded.model.get_submodule(stack)._modules)  # noqa: SLF001 - its length
            for stack in loaded.adapter.stacks
        ),
        "dtype": str(next(loaded.model.parameters()).dtype).removeprefix("torch."),
        "precision": loaded.precision,
        "quantization": quantization_facts(loaded),
        "attention": getattr(config, "_attn_implementation", None),
        "device_map": None if loaded.device_map is None else dict(loaded.device_map),
        "offloaded": list(loaded.offloaded),
        "host_peak_bytes": host_peak_bytes(),
    }


def weights_digest(model: nn.Module) -> str:
    """Return a digest of some values of each parameter and buffer, by which other weights show."""
    digest = hashlib.sha256()
    for name, tensor in itertools.chain(model.named_parameters(), model.named_buffers()):
        values = tensor.detach()
        digest.update(f"{name} {tuple(values.shape)} {values.dtype}".encode())
        if type(values.data) is torch.Tensor and not values.is_meta and values.is_contiguous() and values.numel():
            flat = values.data.view(-1)
            some = flat[:: max(1, len(flat) // DIGESTED)].contiguous()
            digest.update(some.view(torch.uint8).cpu().numpy().tobytes())
    return digest.hexdigest()[:16]


def quantization_facts(loaded: LoadedModel) -> dict[str, Any] | None:
    """Return a quantized model's method, options and the paths of the linears that it left as they are.

    ``double_quant`` is True where the scales of at least one layer are quantized, ``compute_dtype`` what 4-bit
    layers multiply in (several with commas between them); both are None for a method without them. The whole is
    None for a model that is not quantized.
    """
    if loaded.precision not in QUANTIZED:
        return None
    four_bit = [module for module in loaded.model.modules() if _holds(module, "Params4bit")]
    states = [getattr(layer.weight, "quant_state", None) for layer in four_bit]
    dtypes = {getattr(layer, "compute_dtype", None) for layer in four_bit} - {None}
    return {
        "method": loaded.precision,
        "double_quant": any(state.nested for state in states if state is not None) if four_bit else None,
        "compute_dtype": ", ".join(sorted(str(dtype).removeprefix("torch.") for dtype in dtypes)) or None,
        "skipped": [path for path, module in loaded.model.named_modules() if is_linear(module)],
    }


def _holds(module: nn.Module, kind: str) -> bool:
    """Tell a layer of bitsandbytes by its weight's class: importing that package takes seconds."""
    return type(getattr(module, "weight", None)).__name__ == kind


def workload_facts(workload: Workload, evaluation: Evaluation | None) -> dict[str, Any]:
    """Return what the model is fed, and on what its predictions are judged."""
    judged = None
    if evaluation is not None:
        order = None if evaluation.order is None else list(evaluation.order)
        judged = {
            "source": evaluation.source,
            "examples": evaluation.examples,
            "digest": evaluation.digest,
            "order": order,  # each example's place in the source: batches are ordered by length
        }
    return {
        "batch_size": workload.batch_size,
        "sequence_length": workload.sequence_length or None,  # images and sound have no tokens
        "decoder_length": workload.decoder_length or None,
        "tokens": workload.tokens,
        "tokens_per_forward": workload.tokens_of_pass or None,
        "kv_cache": False,
        "evaluation": judged,
    }
