"""What a benchmark was asked to do: one frozen record, checked before anything is loaded. No torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from energyscope.settings.fields import PANELS, check_each, setting

MOST_USED, HOW = PANELS[0], PANELS[2]
AUTO = ("auto",)
USUAL = {  # what auto tries on a device; a CPU's mixed precision and 4-bit kernels are rarely worth the time
    "cuda": ("fp32", "fp16", "bf16", "fp16-autocast", "int8", "w8a8", "w8a16", "nf4"),
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

    precisions: tuple[str, ...] = setting(
        AUTO,
        "fp32, fp16, bf16, fp16-autocast, fp8, int8, int8-static, w8a8, w8a16, int4, nf4, fp4; auto: the usual "
        "ones that this device supports. The baseline is fp32, else bf16, fp16 or the first.",
        MOST_USED,
        option="--precision",
        metavar="P[,P...]",
        lower=True,
    )
    batch_sizes: tuple[int, ...] = setting(
        (), "Sequences in a forward pass.", MOST_USED, option="--batch-size", least=1
    )
    sequence_lengths: tuple[int, ...] = setting(
        (),
        "Tokens of a sequence.",
        MOST_USED,
        option="--sequence-length",
        least=1,
        unset="128, or the model's maximum",
    )
    trials: int = setting(
        3, "Trials of each setting, in shuffled blocks.", MOST_USED, option=("--trials", "--trial"), least=1
    )
    num_iters: int = setting(
        1000, "Timed forward passes per trial; more if the meter needs a longer one.", HOW, least=1
    )
    warmup_steps: int = setting(100, "Warm-up passes at least; more until the latency is stable.", HOW, least=0)
    trial_seconds: float | None = setting(
        1.0,
        "Most seconds per trial, with fewer passes if needed.",
        HOW,
        above=0,
        most=3600,
        unit="seconds",
        unset="no limit",
    )
    power_sample_interval_s: float = setting(
        0.1,
        "Milliseconds between power samples; the board's own interval at least.",
        HOW,
        option="--power-sample-interval",
        metavar="MS",
        above=0,
        most=10,
        unit="milliseconds",
        per_unit=1e-3,
    )
    execution: Literal["eager", "cuda-graph"] = "eager"

    def check(self) -> None:
        """Refuse what cannot be.

        Raises:
            UsageError: a number out of range, or an empty list, with what to give instead.

        """
        check_each(self)
