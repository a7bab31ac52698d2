"""What a benchmark was asked to do: one frozen record, checked before anything is loaded. No torch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from energyscope.errors import UsageError

AUTO = ("auto",)
USUAL = {  # what auto tries on a device; a CPU's mixed precision and 4-bit kernels are rarely worth the time
    "cuda": ("fp32", "fp16", "bf16", "fp16-autocast", "int8", "nf4"),
    "cpu": ("fp32", "fp16", "bf16", "int8"),
}


@dataclass(frozen=True)
class BenchmarkSettings:
    """The settings of the benchmark.

    ``precisions`` ``auto`` are the usual ones that the device can do. No ``batch_sizes`` or ``sequence_lengths``
    are those of the run. A trial has ``num_iters`` forward passes, fewer where ``trial_seconds`` (s; None: no
    limit) are over, more where the meter needs a longer window. ``warmup_steps`` is the least; 0 is no warm-up.
    Passes are launched one by one (``eager``) or as one CUDA graph each; a run's benchmark takes the run's.
    ``power_sample_interval_s`` (s) is how far apart samples of power are at least.
    """

    precisions: tuple[str, ...] = AUTO
    batch_sizes: tuple[int, ...] = ()
    sequence_lengths: tuple[int, ...] = ()
    num_iters: int = 1000
    warmup_steps: int = 100
    trials: int = 3
    trial_seconds: float | None = 1.0
    power_sample_interval_s: float = 0.1
    execution: Literal["eager", "cuda-graph"] = "eager"

    def check(self) -> None:
        """Refuse what cannot be.

        Raises:
            UsageError: a number out of range, or an empty list, with what to give instead.

        """
        if not self.precisions:
            raise UsageError("the benchmark's precisions name nothing: leave them out, or name one")
        for option, values, least in (
            ("--num-iters", (self.num_iters,), 1),
            ("--warmup-steps", (self.warmup_steps,), 0),
            ("--trials", (self.trials,), 1),
            ("--batch-size", self.batch_sizes, 1),
            ("--sequence-length", self.sequence_lengths, 1),
        ):
            for value in values:
                if value < least:
                    raise UsageError(f"{option} must be {least} or more, not {value}")
        if not 0 < self.power_sample_interval_s <= 10:
            raise UsageError(
                "--power-sample-interval must be above 0 and at most 10,000 milliseconds, "
                f"not {self.power_sample_interval_s * 1e3:g}"
            )
        seconds = self.trial_seconds
        if seconds is not None and not (0 < seconds <= 3600 and math.isfinite(seconds)):
            raise UsageError(f"--trial-seconds must be above 0 and at most 3600 seconds, not {seconds:g}")
