"""What a GPU was busy with while a load ran, and which part of it limits the load. Pure functions.

NVML's GPM counters give the shares between two samples. The sampler takes a sample after a tick, at least 0.1 s
after the one before, so a window of replay holds one or more pairs of samples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from energyscope.reasons import reason
from energyscope.unknown import mean, total

BUSY = 0.4  # of its peak, from which on a part of the GPU is said to limit a load
SHARES = ("sm", "tensor", "cuda_cores", "dram")
WAITING = "waiting"
_PARTS = {"tensor": "tensor cores", "cuda_cores": "CUDA cores", "dram": "memory"}


@dataclass(frozen=True)
class Activity:
    """How busy the parts of a GPU were: means over a time, each a share (0 to 1) of its peak; None where unknown.

    ``sm`` is the share of SMs that had work, ``tensor`` that of the tensor cores, ``cuda_cores`` that of the
    busiest of the SMs' other pipes (FP64, FP32, FP16, integer), ``dram`` that of the memory's bandwidth.
    ``memory_w`` is the power (W) of the memory. ``reason`` says why a board with the counters gave no shares.
    """

    sm: float | None = None
    tensor: float | None = None
    cuda_cores: float | None = None
    dram: float | None = None
    memory_w: float | None = None
    reason: str | None = None


def limited_by(activity: Activity | None) -> str | None:
    """Return what limits a load: ``tensor cores``, ``CUDA cores``, ``memory`` or ``waiting``; None if unknown.

    It is the part nearest to its peak, if that is 40 % of it or more. Below, the GPU mostly waits: for the host's
    launches (few SMs have work), or for data and for each other (SMs have work, and no part of them is busy).
    """
    if activity is None:
        return None
    shares = {name: share for key, name in _PARTS.items() if (share := getattr(activity, key)) is not None}
    if len(shares) < len(_PARTS):
        return None
    nearest = max(shares, key=lambda name: shares[name])
    return nearest if shares[nearest] >= BUSY else WAITING


def activity_of(states: Sequence[Mapping[str, Any]], begin_s: float, end_s: float) -> Activity | None:
    """Return what a board was busy with during a load, by its states then (s); None where they do not say.

    Only pairs of samples that lie within the load count. The power of the memory is that of the second half, since
    a reading still shows the load before.
    """
    samples = [state["activity"] for state in states if state.get("activity")]
    pairs = [item for item in samples if "begin_s" in item]
    inside = [item for item in pairs if begin_s <= item["begin_s"] and item["end_s"] <= end_s]
    middle_s = (begin_s + end_s) / 2
    late = [state["activity"] for state in states if state.get("activity") and state["after_s"] >= middle_s]
    memory_w = mean([item.get("memory_w") for item in late])
    if inside:
        seconds = [item["end_s"] - item["begin_s"] for item in inside]
        shares: dict[str, Any] = {key: _weighted([item[key] for item in inside], seconds) for key in SHARES}
        return Activity(**shares, memory_w=memory_w)
    why = next((item["reason"] for item in samples if "reason" in item), None)
    if why is None and pairs:
        why = reason("activity-not-sampled", seconds=end_s - begin_s)
    return Activity(memory_w=memory_w, reason=why) if why or memory_w is not None else None


def _weighted(values: Sequence[float | None], weights: Sequence[float]) -> float | None:
    """Return the mean of what is known, by its weights."""
    known = [(value, weight) for value, weight in zip(values, weights, strict=True) if value is not None]
    return sum(value * weight for value, weight in known) / sum(weight for _, weight in known) if known else None


def mean_activity(
    activities: Sequence[Activity | None], weights: Sequence[float] | None = None
) -> Activity | None:
    """Return the mean over windows, or over components with the times that they take as weights.

    Unknown shares are left out. None where nothing is known.
    """
    known = [activity or Activity() for activity in activities]
    weights = weights or [1.0] * len(known)
    means = {
        key: _weighted([getattr(activity, key) for activity in known], weights) for key in (*SHARES, "memory_w")
    }
    why = None if means["sm"] is not None else next((item.reason for item in known if item.reason), None)
    mean_of_all = Activity(**means, reason=why)
    return mean_of_all if mean_of_all != Activity() else None


def busiest(activities: Sequence[Activity | None]) -> Activity | None:
    """Return the activity of several devices as one: that of the device whose SMs had most work.

    A component runs on one of them while the others wait. The memory's power is the sum, as the energy is.
    """
    known = [activity for activity in activities if activity is not None]
    if not known:
        return None
    most = max(known, key=lambda activity: -1.0 if activity.sm is None else activity.sm)
    memory_w = total([None if activity is None else activity.memory_w for activity in activities])
    return replace(most, memory_w=memory_w)


def without(
    both: Activity | None, rest: Activity | None, both_us: float | None, rest_us: float | None
) -> Activity | None:
    """Return the activity of a call alone, from that of a call with something beside it and that of the latter.

    Share times time is the time at the peak, and power times time the energy: both are subtracted, as the energies
    are. Beside the call stands a pause, or the restoring of its inputs.
    """
    if both is None or rest is None or both_us is None or rest_us is None or both_us <= rest_us:
        return None
    if both.reason or rest.reason:
        return Activity(reason=both.reason or rest.reason)

    def alone(key: str) -> float | None:
        whole, beside = getattr(both, key), getattr(rest, key)
        return (
            None if whole is None or beside is None else (whole * both_us - beside * rest_us) / (both_us - rest_us)
        )

    shares = {key: alone(key) for key in SHARES}
    limited: dict[str, Any] = {
        key: None if share is None else min(max(share, 0.0), 1.0) for key, share in shares.items()
    }
    return Activity(**limited, memory_w=alone("memory_w"))
