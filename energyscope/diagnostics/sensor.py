"""Properties of a GPU's sensors, which `energyscope doctor` measures with a load of its own.

The step test, and what is compared in it:

    load    ______|=============================|
    power   ...............................         read by a process of its own, each field
    counter  '    '    '    '    '    '    '        read by the sampler, around its expected ticks
                  |- step --|- agreement: 5 s --|

`energyscope.diagnostics.polling` measures what polling does to the load and to the counter itself.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np
import torch

from energyscope.diagnostics.polling import effect_of_polling
from energyscope.diagnostics.power_fields import counter_against_power, step_response
from energyscope.metering.choice import open_meter
from energyscope.metering.meter import Meter
from energyscope.metering.nvml.board import POWER_FIELDS, PowerField
from energyscope.metering.nvml.probe import Probe
from energyscope.metering.ticks import mean_power
from energyscope.progress import Progress, silent
from energyscope.reasons import reason
from energyscope.replay.calls import Call, RoundReplay
from energyscope.replay.rotation import l2_bytes

STAGE = "sensor"
IDLE_WATCH_S = 2.0  # at the start of a run
STEPS = 3  # the first one, watching the idle sensor, is over
IDLE_S = 2.5  # before a step: the slowest common field averages over one second
LAST_S = 1.0  # of idling, and of the load, in which a field shows what it settled at
STEP_S = 1.5  # after which every common field has settled
AGREEMENT_S = 5.0
LAST_SAMPLE_S = 0.05  # power is sampled beyond the last tick
WARM_UP_S = 0.4
INPUT_ROWS = 8  # so few that reading the weights is all the work: far below any power cap
WEIGHT_ROWS, WEIGHT_COLUMNS = 4096, 8192


def steady_load(device: torch.device) -> list[Call]:
    """Return a round of products with weights that are together beyond the L2 cache: steady, below the cap."""
    dtype = torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
    rows = torch.randn(INPUT_ROWS, WEIGHT_ROWS, device=device, dtype=dtype)
    own = WEIGHT_ROWS * WEIGHT_COLUMNS * rows.element_size()
    count = 1 + math.ceil(2 * (l2_bytes(device) or own) / own)
    weights = [torch.randn(WEIGHT_ROWS, WEIGHT_COLUMNS, device=device, dtype=dtype) for _ in range(count)]
    return [partial(torch.matmul, rows, weight) for weight in weights]


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


def characterise(
    uuid: str, replayer: RoundReplay, load: Sequence[Call], *, seconds: float = 10.0, progress: Progress = silent
) -> dict[str, Any]:
    """Measure the properties of a GPU's sensors, with a load on it; takes three times ``seconds``, and 20 s.

    ``seconds`` is how long the load runs in all for each way of polling.

    Returns:
        ``power_fields`` (lag and averaging of each), ``counter_power`` (their agreement), ``polling`` (what it
        costs in time and in counted energy); what is unknown has a ``reason``.

    Raises:
        MeterError: NVML cannot read the GPU at all.

    """
    progress(STAGE, "a step of power", 1, STEPS)
    replayer.run(load, WARM_UP_S)  # libraries load with the first calls: not during the step
    facts = _step_test(uuid, replayer, load)
    progress(STAGE, "the effect of polling", 2, STEPS)
    return {**facts, "polling": effect_of_polling(uuid, replayer, load, seconds=seconds)}


def _step_test(uuid: str, replayer: RoundReplay, load: Sequence[Call]) -> dict[str, Any]:
    with open_meter("auto", gpu_uuid=uuid) as meter, Probe(uuid, "power") as probe:
        replayer.synchronize()
        time.sleep(IDLE_S)
        begin = time.monotonic()
        replayer.run(load, STEP_S + AGREEMENT_S)
        end = time.monotonic()
        time.sleep(LAST_SAMPLE_S)
        probe.drain()
        ticks = meter.ticks(begin - IDLE_S, end)
    responses = {field: _response(probe, field, begin, end) for field in POWER_FIELDS}
    field = next((field for field in POWER_FIELDS if len(probe.trace(field)[0])), None)
    if meter.name != "nvml" or field is None:
        missing = reason("no-power-field" if field is None else "no-energy-counter")
        agreement: dict[str, Any] = {"ratio": None, "reason": missing}
    else:
        measured = counter_against_power(ticks, *probe.trace(field), begin + STEP_S, end)
        agreement = {"field": field, **asdict(measured)}
    return {"power_fields": responses, "counter_power": agreement}


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
