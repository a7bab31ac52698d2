"""What a run's numbers depend on and a reader must know: versions, the device, the model."""

from __future__ import annotations

import importlib.metadata
import platform
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from energyscope.errors import MeterError
from energyscope.loading import LoadedModel, parameter_count, weight_bytes
from energyscope.replay.rotation import l2_bytes

if TYPE_CHECKING:
    from energyscope.workloads import Evaluation, Workload

PACKAGES = ("energyscope-llm", "torch", "transformers", "accelerate", "bitsandbytes", "nvidia-ml-py", "numpy")


def environment() -> dict[str, Any]:
    """Return the versions of Python, of the packages that matter, and of CUDA."""
    versions = {name.replace("-", "_"): _version(name) for name in PACKAGES}
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cuda": torch.version.cuda,
        "threads": torch.get_num_threads(),
        **versions,
    }


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def gpu_uuid(device: torch.device) -> str | None:
    """Return the UUID by which NVML knows a CUDA device; None for the CPU.

    CUDA and NVML may number GPUs differently, and CUDA_VISIBLE_DEVICES changes only CUDA's numbers.
    """
    if device.type != "cuda":
        return None
    return f"GPU-{torch.cuda.get_device_properties(device).uuid}"


def device_facts(device: torch.device) -> dict[str, Any]:
    """Return what is known of the device; on a GPU, with NVML's answers (None where it gives none)."""
    if device.type != "cuda":
        return {"type": "cpu", "name": _cpu_name(), "uuid": None, "index": None}
    properties = torch.cuda.get_device_properties(device)
    facts = {
        "type": "cuda",
        "name": properties.name,
        "uuid": gpu_uuid(device),
        "index": device.index,
        "l2_bytes": l2_bytes(device),
        "memory_bytes": properties.total_memory,
        "power_limit_w": None,
    }
    try:
        from energyscope.metering.board import Board

        return {**facts, **Board(str(facts["uuid"])).facts()}
    except MeterError:
        return facts  # torch can use GPUs that NVML cannot be asked about; the meter says why


def _cpu_name() -> str:
    try:
        with Path("/proc/cpuinfo").open(encoding="ascii", errors="replace") as file:
            names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.processor() or platform.machine()


def model_facts(loaded: LoadedModel) -> dict[str, Any]:
    """Return the model's identity and size."""
    config = loaded.model.config
    return {
        "name": loaded.name,
        "adapter": loaded.adapter.name,
        "model_type": getattr(config, "model_type", None),
        "task": loaded.adapter.task,
        "metric": loaded.adapter.metric,
        "source": loaded.source,
        "weights": loaded.weights,
        "parameters": parameter_count(loaded.model),
        "size_bytes": weight_bytes(loaded.model),
        "layers": len(loaded.model.get_submodule(loaded.adapter.layers)._modules),  # noqa: SLF001 - its length
        "dtype": str(next(loaded.model.parameters()).dtype).removeprefix("torch."),
        "precision": loaded.precision,
        "attention": getattr(config, "_attn_implementation", None),
    }


def workload_facts(workload: Workload, evaluation: Evaluation | None) -> dict[str, Any]:
    """Return what the model is fed, and on what its predictions are judged."""
    judged = None if evaluation is None else {"source": evaluation.source, "examples": evaluation.examples}
    return {
        "batch_size": workload.batch_size,
        "sequence_length": workload.sequence_length,
        "tokens": workload.tokens,
        "tokens_per_forward": workload.batch_size * workload.sequence_length,
        "kv_cache": False,
        "evaluation": judged,
    }
