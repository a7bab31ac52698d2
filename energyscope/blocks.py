"""Building blocks for scripts: warm up, log power, run timed inference, compute energy.

Each does one step that `energyscope.run` does as part of a stage:

    loaded = load_model("tiny-gpt2")
    workload = profile_inputs(loaded, sequence_length=64)
    warm_up(loaded, workload)
    with PowerLog(loaded.device) as log:
        timing = run_inference(loaded, workload, iterations=200)
    energy = compute_energy(log, timing)
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Self

import torch

from energyscope.benchmarking import loop
from energyscope.benchmarking.loop import Timing, WarmUp
from energyscope.errors import UsageError
from energyscope.loading import LoadedModel
from energyscope.metering.choice import DEFAULT_INTERVAL_S, DEFAULT_WATTS, open_meter
from energyscope.metering.ticks import Ticks
from energyscope.metering.window import estimate_window
from energyscope.replay.capture import forward_inputs
from energyscope.stages.facts import gpu_uuid
from energyscope.workloads import Workload


@dataclass(frozen=True)
class Energy:
    """Energy of a timed loop; ``energy_mj`` per forward pass. None, with ``reason``, where it is unknown."""

    energy_mj: float | None
    power_w: float | None
    ticks: int
    modelled: bool
    reason: str | None


def warm_up(loaded: LoadedModel, workload: Workload, steps: int = 10) -> WarmUp:
    """Run some forward passes, and more until their latency is stable; return how many, and whether it is."""
    return loop.warm_up([_forward(loaded, workload)], loaded.device, steps=steps)


def run_inference(loaded: LoadedModel, workload: Workload, iterations: int = 100) -> Timing:
    """Time forward passes one by one, the device synchronised after each; nothing else is in the loop.

    Raises:
        UsageError: fewer than one iteration.

    """
    if iterations < 1:
        raise UsageError(f"iterations must be 1 or more, not {iterations}")
    call = _forward(loaded, workload)
    return loop.timed([call], loaded.device, iterations=iterations, batch_size=workload.batch_size)


def _forward(loaded: LoadedModel, workload: Workload) -> Any:
    return partial(loaded.model, **forward_inputs(loaded.model, workload.inputs))


class PowerLog:
    """Watches a device's energy counter while the ``with`` block runs; ``ticks`` are there afterwards.

    On a CPU without readable counters, or with ``meter="modelled"``, the joules are time x ``watts``, and
    ``modelled`` says so. The
    nvidia-smi meter samples every ``sample_interval_s`` (s); ``whole_gpu`` measures all of a GPU in MIG mode.
    """

    def __init__(
        self,
        device: torch.device,
        *,
        meter: str = "auto",
        watts: float = DEFAULT_WATTS,
        sample_interval_s: float = DEFAULT_INTERVAL_S,
        whole_gpu: bool = False,
    ) -> None:
        self.meter = open_meter(
            meter, gpu_uuid=gpu_uuid(device), watts=watts, interval_s=sample_interval_s, whole_gpu=whole_gpu
        )
        self.modelled = self.meter.modelled
        self.ticks: Ticks | None = None
        self._begin = 0.0

    def __enter__(self) -> Self:
        self._begin = time.monotonic()
        self.meter.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                time.sleep(0 if self.modelled else 0.01)  # the last tick is seen a read later
                self.ticks = self.meter.ticks(self._begin, time.monotonic())
        finally:
            self.meter.__exit__(kind, error, trace)


def compute_energy(log: PowerLog, timing: Timing) -> Energy:
    """Return the energy per forward pass of a timed loop that ran inside the log's block.

    Raises:
        UsageError: the log's block has not ended.

    """
    if log.ticks is None:
        raise UsageError("compute the energy after the PowerLog's with block has ended")
    window = estimate_window(log.ticks, timing.calls, settle_s=log.meter.settle_s)
    return Energy(window.energy_mj, window.power_w, window.ticks, log.modelled, window.reason)
