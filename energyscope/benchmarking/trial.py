"""From one timed loop and the counter's ticks beside it to the figures of a trial. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from energyscope.benchmarking.loop import Timing
from energyscope.metering.estimate import Window
from energyscope.metering.interval import NORMAL_QUANTILE
from energyscope.metering.ticks import Array, Ticks, fit_grid, unwrap
from energyscope.unknown import minus, quotient, times

FEWEST_FOR_P95, FEWEST_FOR_P99 = 20, 100  # passes: with fewer, they would be the largest one
JITTER = 0.9  # a tick that comes a little early still ends its sample


@dataclass(frozen=True)
class Metered:
    """What a meter saw of a loop: its window, mean powers (W) between readings, and the idle power (W)."""

    window: Window
    powers_w: Array
    idle_w: float | None
    modelled: bool


def power_samples(ticks: Sequence[Ticks], begin_s: float, end_s: float, interval_s: float) -> Array:
    """Return mean powers (W), (samples,), between readings of the counter inside of a loop.

    ``ticks`` are one device's each; their powers are added. A sample reaches from one tick of the first device to
    the next that is at least ``interval_s`` (s) later; where the board's ticks are further apart than that, from
    one tick to the next. There are none where a counter was reset.
    """
    grids = [(fit_grid(unwrap(meter_ticks)).time_s, unwrap(meter_ticks)) for meter_ticks in ticks]
    if not grids or any(len(meter_ticks) < 2 or bool(meter_ticks.reset.any()) for _, meter_ticks in grids):
        return np.zeros(0)
    first = grids[0][0]
    moments = _thinned(first[(first >= begin_s) & (first <= end_s)], interval_s * JITTER)
    if len(moments) < 2:
        return np.zeros(0)
    energy = sum(np.interp(moments, time_s, meter_ticks.energy_mj) for time_s, meter_ticks in grids)
    result: Array = np.diff(energy) / 1e3 / np.diff(moments)
    return result


def _thinned(moments: Array, apart_s: float) -> Array:
    samples: list[float] = []
    for time_s in moments:
        if not samples or time_s - samples[-1] >= apart_s:
            samples.append(float(time_s))
    return np.array(samples)


def latency_figures(timing: Timing, tokens: int) -> dict[str, Any]:
    """Return the columns on latency (s) and throughput; ``tokens`` are those of one pass."""
    latencies_s = timing.latencies_s
    p50, p95, p99 = (float(value) for value in np.percentile(latencies_s, [50, 95, 99]))
    return {
        "mean_latency": float(latencies_s.mean()),
        "std_latency": float(latencies_s.std(ddof=1)) if len(latencies_s) > 1 else None,
        "min_latency": float(latencies_s.min()),
        "max_latency": float(latencies_s.max()),
        "median_latency": float(np.median(latencies_s)),
        "p50_latency": p50,
        "p95_latency": p95 if len(latencies_s) >= FEWEST_FOR_P95 else None,
        "p99_latency": p99 if len(latencies_s) >= FEWEST_FOR_P99 else None,
        "throughput": timing.throughput,
        "tokens_per_s": tokens * len(latencies_s) / timing.calls.seconds,
        "iterations": len(latencies_s),
    }


def power_figures(metered: Metered) -> dict[str, Any]:
    """Return the columns on power (W); of stated watts nothing was sampled."""
    if metered.modelled or not len(metered.powers_w):
        names = ("std_power_w", "min_power_w", "max_power_w", "median_power_w")
        mean_w = metered.window.power_w
        return {"mean_power_w": mean_w, **dict.fromkeys(names), "num_power_samples": 0}
    powers_w = metered.powers_w
    return {
        "mean_power_w": float(powers_w.mean()),
        "std_power_w": float(powers_w.std(ddof=1)) if len(powers_w) > 1 else None,
        "min_power_w": float(powers_w.min()),
        "max_power_w": float(powers_w.max()),
        "median_power_w": float(np.median(powers_w)),
        "num_power_samples": len(powers_w),
    }


def energy_figures(metered: Metered, timing: Timing, tokens: int) -> dict[str, Any]:
    """Return the columns on energy; all None where the window has none.

    Static energy is idle power times time. The interval is what the ticks' times and steps leave open in this one
    trial; how trials differ is not in it.
    """
    window = metered.window
    energy_mj = window.energy_mj
    if metered.modelled and window.power_w is not None:  # stated watts: nothing was seen between ticks
        energy_mj = window.power_w * timing.mean_latency_s * 1e3
    energy_j = times(energy_mj, 1e-3)
    share = None if metered.modelled else window.timing_share
    half_mj = None if share is None or energy_mj is None else NORMAL_QUANTILE * share * energy_mj
    static_mj = None
    if metered.idle_w is not None and window.time_us is not None:
        static_mj = metered.idle_w * window.time_us * 1e-3
    return {
        "total_energy_j": times(energy_j, len(timing.latencies_s)),
        "energy_per_inference_j": energy_j,
        "energy_per_inference_mj": energy_mj,
        "inferences_per_joule": quotient(1.0, energy_j),
        "tokens_per_joule": quotient(float(tokens), energy_j),
        "energy_delay_product_js": times(energy_j, timing.mean_latency_s),
        "energy_ci_low_mj": minus(energy_mj, half_mj),
        "energy_ci_high_mj": None if half_mj is None or energy_mj is None else energy_mj + half_mj,
        "idle_w": metered.idle_w,
        "static_energy_per_inference_mj": static_mj,
        "dynamic_energy_per_inference_mj": minus(energy_mj, static_mj),
        "naive_energy_per_inference_mj": window.naive_mj,
        "ticks": window.ticks,
    }
