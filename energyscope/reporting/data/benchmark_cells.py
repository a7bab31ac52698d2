"""The parts of a benchmark: a precision as it was loaded, a cell of what was measured, and a prediction."""

from __future__ import annotations

from dataclasses import dataclass

from energyscope.notes import NOT_ITS_KERNELS
from energyscope.reporting.data.work import work_in
from energyscope.runs.intervals import Interval, difference

INVALID = "invalid"
_TITLES = {"fp16-autocast": "FP16 autocast", "int8-static": "INT8 static"}


def precision_title(name: str) -> str:
    """Return what a precision is called in prose and charts, such as ``"FP16"`` for ``"fp16"``."""
    return _TITLES.get(name) or name.upper()


@dataclass(frozen=True)
class Precision:
    """One precision as it was loaded. ``size_mb`` is in 10^6 bytes; what is not known is None."""

    name: str
    implementation: str
    dtype: str
    parameters: float | None
    size_mb: float | None
    load_seconds: float | None
    notes: list[str]

    @property
    def title(self) -> str:
        return precision_title(self.name)

    @property
    def foreign(self) -> bool:
        """Whether its notes say that its time and energy are not those of bitsandbytes' kernels."""
        return any(NOT_ITS_KERNELS in note for note in self.notes)


@dataclass(frozen=True)
class BenchmarkCell:
    """One precision at one batch size and length: means over the trials with 95 % intervals, None where unknown.

    Energies are in mJ for one inference (a forward pass over the batch), ``energy_delay_product_js`` in J s.
    ``speedup`` and ``energy_ratio`` (this / baseline) are against the baseline at the same batch size and length.
    """

    precision: str
    batch_size: int
    sequence_length: int
    trials: int | None
    latency_s: Interval | None
    median_latency_s: Interval | None
    p95_latency_s: Interval | None
    p99_latency_s: Interval | None
    throughput: Interval | None
    tokens_per_s: Interval | None
    power_w: Interval | None
    energy_mj: Interval | None
    dynamic_energy_mj: Interval | None
    inferences_per_joule: Interval | None
    tokens_per_joule: Interval | None
    energy_delay_product_js: Interval | None
    speedup: Interval | None
    energy_ratio: Interval | None
    peak_allocated_gb: float | None
    energy_spread: float | None
    quality: str
    reasons: str
    foreign: bool = False  # see `Precision.foreign`

    @property
    def title(self) -> str:
        return precision_title(self.precision)

    @property
    def marked_title(self) -> str:
        """Its title beside a time or an energy: with a mark where these are not its kernels'."""
        return f"{self.title} *" if self.foreign else self.title

    @property
    def shape(self) -> tuple[int, int]:
        """Its batch size and its length in tokens."""
        return self.batch_size, self.sequence_length

    @property
    def invalid(self) -> bool:
        """Whether its energy is known but did not reach grade C."""
        return self.quality == INVALID and self.energy_mj is not None

    @property
    def static_energy_mj(self) -> float | None:
        """The idle power's part of the energy, mJ; None where the two parts are not known."""
        if self.energy_mj is None or self.dynamic_energy_mj is None:
            return None
        return difference(self.energy_mj, self.dynamic_energy_mj).value

    @property
    def work_mj(self) -> float | None:
        """The dynamic part of the energy, mJ; None where it is not known, or no part of the whole."""
        return work_in(self.energy_mj, self.dynamic_energy_mj.value if self.dynamic_energy_mj else None)


@dataclass(frozen=True)
class Prediction:
    """How well one precision predicts. ``difference`` (this - baseline, paired), ``kl`` (nats) and ``agreement``
    (share of equal answers) are against the baseline, None for the baseline itself.
    """

    precision: str
    metric: str
    value: Interval
    examples: int | None
    correct: int | None
    difference: Interval | None
    kl: Interval | None
    agreement: Interval | None

    @property
    def title(self) -> str:
        return precision_title(self.precision)

    @property
    def no_worse(self) -> bool:
        """Whether it is the baseline, or its interval shows no loss against the baseline."""
        if self.difference is not None and not self.difference.known:
            return False
        if self.difference is None or not self.difference.excludes(0.0):
            return True
        return (self.difference.value < 0) == (self.metric == "perplexity")
