"""Properties of a GPU's sensors, which `energyscope doctor` measures with a load of its own.

The step test, and what is compared in it, where agreement is asked for:

    load    =|______|=============================|
    power    ...............................         read by a process of its own, each field
    counter   '    '    '    '    '    '    '        read by the sampler, around its expected ticks
             |-idle-|- step --|- agreement: 5 s --|

`energyscope.diagnostics.polling` measures what polling does to the load and to the counter itself.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import Any, Protocol

import numpy as np
import torch

from energyscope.diagnostics.power_fields import counter_against_power, step_response
from energyscope.metering.choice import open_meter
from energyscope.metering.host import NO_HOST, open_host
from energyscope.metering.meter import CPU, Meter
from energyscope.metering.nvml.board import POWER_FIELDS, PowerField
from energyscope.metering.nvml.probe import Probe
from energyscope.metering.ticks import Ticks, mean_power
from energyscope.reasons import reason
from energyscope.replay.calls import Call, RoundReplay
from energyscope.replay.rotation import l2_bytes

FEWEST_POWERS = 3  # whose scatter is told
IDLE_WATCH_S = 2.0  # at the start of a run
IDLE_S = (
    1.5  # before a step; power settled, and the slowest field with it, in the second that a meter takes to start
)
LAST_S = 1.0  # of idling, and of the load, in which a field shows what it settled at
STEP_S = 1.5  # after which every common field has settled
AGREEMENT_S = 5.0
LAST_SAMPLE_S = 0.05  # power is sampled beyond the last tick
WARM_UP_S = 0.4
INPUT_ROWS = 8  # so few that reading the weights is all the work: far below any power cap
WEIGHT_ROWS, WEIGHT_COLUMNS = 4096, 8192
PROCESSOR_ROWS = 512


class LoadReplay(RoundReplay, Protocol):
    """Runs a round of calls for some seconds, and knows what memory (bytes) this process holds on the device."""

    def own_bytes(self) -> int | None: ...


def steady_load(device: torch.device) -> list[Call]:
    """Return a round of products with weights that are together beyond the L2 cache: steady, below the cap."""
    with torch.cuda.device(device):
        dtype = torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
    rows = torch.randn(INPUT_ROWS, WEIGHT_ROWS, device=device, dtype=dtype)
    own = WEIGHT_ROWS * WEIGHT_COLUMNS * rows.element_size()
    count = 1 + math.ceil(2 * (l2_bytes(device) or own) / own)
    weights = [torch.randn(WEIGHT_ROWS, WEIGHT_COLUMNS, device=device, dtype=dtype) for _ in range(count)]
    return [partial(torch.matmul, rows, weight) for weight in weights]


def processor_load() -> list[Call]:
    """Return a round of one product that keeps all threads busy."""
    rows, weight = (torch.randn(PROCESSOR_ROWS, PROCESSOR_ROWS) for _ in range(2))
    return [partial(torch.matmul, rows, weight)]


def power_noise(ticks: Ticks) -> float | None:
    """Return the relative deviation of the power from tick to tick; None of too few, or of no power."""
    power = np.diff(ticks.energy_mj) / np.diff(ticks.time_s)
    if len(power) < FEWEST_POWERS or power.mean() <= 0:
        return None
    return float(power.std(ddof=1) / power.mean())


def idle_facts(meter: Meter, seconds: float = IDLE_WATCH_S) -> dict[str, Any]:
    """Watch a started meter for some seconds while nothing runs; the short form, for the start of a run.

    Returns:
        What the meter says of its sensor (period, jitter, quantum, cost of a read) and ``idle_w``.

    """
    if meter.modelled:
        return {**meter.describe(), "idle_w": None}
    begin = time.monotonic()
    time.sleep(seconds)
    end = time.monotonic()
    idle = mean_power(meter.ticks(begin, end), begin, end)
    return {**meter.describe(), "idle_w": idle}


def step_test(
    uuid: str, replayer: LoadReplay, load: Sequence[Call], *, agreement_s: float = 0.0
) -> dict[str, Any]:
    """Watch a GPU's sensors at rest, and while a load begins; takes some 7 s, and ``agreement_s`` of load more.

    Returns:
        `idle_facts`, ``bystanders``, and where NVML answers ``power_fields``: lag and averaging of each. With
        ``agreement_s``, ``counter_power``: whether counter and power agree. What is unknown has a ``reason``.

    Raises:
        MeterError: no meter can read the GPU.

    """
    watched = open_meter("auto", gpu_uuid=uuid)  # refuses a GPU that it cannot read before anything runs there
    replayer.run(load, WARM_UP_S)  # libraries load with the first calls: not during the step
    replayer.synchronize()
    with watched as meter:
        if meter.name == "nvidia-smi":  # chosen only where NVML cannot be read
            return _at_rest(meter, replayer)
        with Probe(uuid, "power") as probe:
            sensor = _at_rest(meter, replayer)
            begin = time.monotonic()
            replayer.run(load, STEP_S + max(LAST_S, agreement_s))
            end = time.monotonic()
            time.sleep(LAST_SAMPLE_S)
            probe.drain()
            ticks = meter.ticks(begin, end)
    sensor["power_fields"] = {field: _response(probe, field, begin, end) for field in POWER_FIELDS}
    if agreement_s:
        sensor["counter_power"] = _agreement(meter, ticks, probe, begin + STEP_S, end)
    return sensor


def load_test(meter: Meter, replayer: LoadReplay, load: Sequence[Call]) -> dict[str, Any]:
    """Watch a meter of a counter at rest and under a load; takes some 5 s.

    Returns:
        `idle_facts`, ``bystanders``, ``load_w``, and ``idle_noise`` and ``load_noise``: the relative deviation of
        the power from tick to tick.

    Raises:
        MeterError: the meter was lost.

    """
    replayer.run(load, WARM_UP_S)
    replayer.synchronize()
    with meter:
        begin = time.monotonic()
        sensor = _at_rest(meter, replayer)
        middle = time.monotonic()
        replayer.run(load, STEP_S)
        end = time.monotonic()
        time.sleep(LAST_SAMPLE_S)
        rest, loaded = meter.ticks(begin, middle), meter.ticks(middle, end)
    load_w = mean_power(loaded, middle, end)
    return {**sensor, "load_w": load_w, "idle_noise": power_noise(rest), "load_noise": power_noise(loaded)}


def _at_rest(meter: Meter, replayer: LoadReplay) -> dict[str, Any]:
    host = NO_HOST if meter.device == CPU else open_host()
    before = host.read()
    facts = {**idle_facts(meter, IDLE_S), **host.at_rest(before)}
    return {**facts, "bystanders": meter.bystanders(replayer.own_bytes())}


def _agreement(meter: Meter, ticks: Ticks, probe: Probe, begin_s: float, end_s: float) -> dict[str, Any]:
    field = next((field for field in POWER_FIELDS if len(probe.trace(field)[0])), None)
    if meter.name != "nvml" or field is None:
        return {"ratio": None, "reason": reason("no-power-field" if field is None else "no-energy-counter")}
    return {"field": field, **asdict(counter_against_power(ticks, *probe.trace(field), begin_s, end_s))}


def _response(probe: Probe, field: PowerField, begin_s: float, end_s: float) -> dict[str, Any]:
    times, power = probe.trace(field)
    before = power[(times > begin_s - LAST_S) & (times < begin_s)]
    after = power[(times > end_s - LAST_S) & (times < end_s)]
    if not len(before) or not len(after):
        return {"lag_s": None, "averaging_s": None, "reason": reason("field-silent")}
    idle_w, load_w = float(np.median(before)), float(np.median(after))
    watched = (times > begin_s - LAST_S) & (times < end_s)
    response = step_response(times[watched], power[watched], begin_s, idle_w, load_w)
    return {**asdict(response), "idle_w": idle_w, "load_w": load_w}
