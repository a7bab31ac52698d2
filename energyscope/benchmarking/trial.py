"""From one timed loop and the counter's ticks beside it to the figures of a trial. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from energyscope.benchmarking.loop import Timing
from energyscope.metering.interval import NORMAL_QUANTILE
from energyscope.metering.ticks import Array, Ticks, fit_grid, unwrap
from energyscope.metering.window import Window
from energyscope.unknown import minus, quotient, times

FEWEST_FOR_P95, FEWEST_FOR_P99 = 20, 100  # passes: with fewer, they would be the largest one
JITTER = 0.9  # a tick that comes a little early still ends its sample
STATISTICS = ("mean", "std", "min", "max", "median")


def power_samples(ticks: Sequence[Ticks], begin_s: float, end_s: float, interval_s: float) -> Array:
    """Return mean powers (W), (samples,), between readings of the counter inside of a loop.

    ``ticks`` are one device's each; their powers are added. A sample reaches from one tick of the first device to
    the next that is at least ``interval_s`` (s) later; where the board's ticks are further apart than that, from
    one tick to the next. There are none where a counter was reset.
    """
    counters = [unwrap(ticks_of_meter) for ticks_of_meter in ticks]
    if not counters or any(len(counter) < 2 or bool(counter.reset.any()) for counter in counters):
        return np.zeros(0)
    times_s = [fit_grid(counter).time_s for counter in counters]
    inside = times_s[0][(times_s[0] >= begin_s) & (times_s[0] <= end_s)]
    samples_s: list[float] = []
    for time_s in inside:
        if not samples_s or time_s - samples_s[-1] >= interval_s * JITTER:
            samples_s.append(float(time_s))
    if len(samples_s) < 2:
        return np.zeros(0)
    energy_mj = np.zeros(len(samples_s))
    for ticks_s, counter in zip(times_s, counters, strict=True):
        energy_mj += np.interp(samples_s, ticks_s, counter.energy_mj)
    result: Array = np.diff(energy_mj) / 1e3 / np.diff(samples_s)
    return result


def latency_figures(timing: Timing, tokens: int) -> dict[str, Any]:
    """Return the columns on latency (s) and throughput; ``tokens`` are those of one pass."""
    latencies_s = timing.latencies_s
    p50, p95, p99 = (float(value) for value in np.percentile(latencies_s, [50, 95, 99]))
    return {
        **{f"{name}_latency": value for name, value in _statistics(latencies_s).items()},
        "p50_latency": p50,
        "p95_latency": p95 if len(latencies_s) >= FEWEST_FOR_P95 else None,
        "p99_latency": p99 if len(latencies_s) >= FEWEST_FOR_P99 else None,
        "throughput": timing.throughput,
        "tokens_per_s": tokens * len(latencies_s) / timing.calls.seconds if tokens else None,  # images have none
        "iterations": len(latencies_s),
    }


def power_figures(window: Window, powers_w: Array) -> dict[str, Any]:
    """Return the columns on power (W), of its samples; where there are none, the window's power alone."""
    statistics = _statistics(powers_w) if len(powers_w) else {"mean": window.power_w}
    columns = {f"{name}_power_w": statistics.get(name) for name in STATISTICS}
    return {**columns, "num_power_samples": len(powers_w)}


def _statistics(values: Array) -> dict[str, float | None]:
    """Return mean, deviation (None of one value), extremes and median."""
    deviation = float(values.std(ddof=1)) if len(values) > 1 else None
    numbers = (float(values.mean()), deviation, float(values.min()), float(values.max()), float(np.median(values)))
    return dict(zip(STATISTICS, numbers, strict=True))


def energy_figures(
    window: Window, timing: Timing, tokens: int, idle_w: float | None, *, modelled: bool
) -> dict[str, Any]:
    """Return the columns on energy; all None where the window has none.

    Static energy is idle power (W) times time. The interval is the uncertainty of the ticks' times and steps in
    this one trial; the spread between trials is not in it.
    """
    energy_mj = window.energy_mj
    if modelled and window.power_w is not None:  # stated watts: nothing was measured between ticks
        energy_mj = window.power_w * timing.mean_latency_s * 1e3
    energy_j = times(energy_mj, 1e-3)
    share = None if modelled else window.timing_share
    half_mj = None if share is None or energy_mj is None else NORMAL_QUANTILE * share * energy_mj
    static_mj = None
    if idle_w is not None and window.time_us is not None:
        static_mj = idle_w * window.time_us * 1e-3
    return {
        "total_energy_j": times(energy_j, len(timing.latencies_s)),
        "energy_per_inference_j": energy_j,
        "energy_per_inference_mj": energy_mj,
        "inferences_per_joule": quotient(1.0, energy_j),
        "tokens_per_joule": quotient(float(tokens), energy_j) if tokens else None,
        "energy_delay_product_js": times(energy_j, timing.mean_latency_s),
        "energy_ci_low_mj": minus(energy_mj, half_mj),
        "energy_ci_high_mj": None if half_mj is None or energy_mj is None else energy_mj + half_mj,
        "idle_w": idle_w,
        "static_energy_per_inference_mj": static_mj,
        "dynamic_energy_per_inference_mj": minus(energy_mj, static_mj),
        "naive_energy_per_inference_mj": window.naive_mj,
        "ticks": window.ticks,
    }
