"""Watches a counter: ``python -m energyscope.metering.counter.sampler MODULE:CLASS PLACE``.

Such counters change about every millisecond, and reading them costs the processor, which may be what is measured.
So only every 20 ms a change is waited for, with reads so close together that its time is known to a tenth of a
millisecond:

    counter   | | | | | | | | | | | | | | | | | | | | | | | | |     changes
    reads     ''''                                ''''              until one is seen; then it rests

Where a counter has several domains, a change of any of them ends the wait; the others show what they did up to a
millisecond before.
"""

from __future__ import annotations

import math
import pkgutil
import signal
import sys
import time
from collections.abc import Callable

from energyscope.errors import MeterError
from energyscope.metering.nvml.sampler import Emit, asleep_s, print_record, readings, stdin_open

REST_S = 0.02
SHARP_PAUSE_S, PAUSE_S = 0.00005, 0.001  # between reads while a change is due, and once it is late
DUE_S = 0.005
STATE = {"sm_clock_mhz": None, "temperature_c": None}  # not read


def watch(
    read_mj: Callable[[], float], emit: Emit, keep_going: Callable[[], bool], *, most_gap_s: float = math.inf
) -> None:
    """Emit a record for a change of the counter, some 20 ms after the one before.

    A record has ``before_s`` and ``after_s`` (between which it changed), ``energy_mj``, ``read_s`` (the cost of
    the read), ``power_w`` (since the record before), ``asleep_s``, and ``reset``: the counter fell, or two reads
    were more than ``most_gap_s`` (s) apart.
    """
    last_s, last_mj = math.inf, -math.inf  # of the read before
    since_s: float | None = None  # when a change began to be waited for
    tick: tuple[float, float] | None = None
    reset = False
    for mid_s, cost_s, energy_mj in readings(read_mj, emit, keep_going):
        reset |= mid_s - last_s > most_gap_s or energy_mj < last_mj
        changed = since_s is not None and energy_mj != last_mj
        if changed:
            middle_s = (last_s + mid_s) / 2
            power_w = None if tick is None or reset else (energy_mj - tick[1]) / 1e3 / (middle_s - tick[0])
            record = {"before_s": last_s, "after_s": mid_s, "energy_mj": energy_mj, "read_s": cost_s}
            emit({**record, "reset": reset, "power_w": power_w, "asleep_s": asleep_s(), **STATE})
            tick, since_s, reset = (middle_s, energy_mj), None, False
        elif since_s is None:
            since_s = mid_s
        last_s, last_mj = mid_s, energy_mj
        waited_s = mid_s - since_s if since_s is not None else 0.0
        time.sleep(REST_S if changed else SHARP_PAUSE_S if waited_s < DUE_S else PAUSE_S)


def main() -> None:
    """Watch the counter of a class at a place until standard input closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the measuring process, which ends this one
    try:
        counter = pkgutil.resolve_name(sys.argv[1])(sys.argv[2])
        watch(counter.energy_mj, print_record, stdin_open, most_gap_s=counter.most_gap_s)
    except MeterError as error:
        print_record({"lost": str(error)})
    except BrokenPipeError:
        sys.stderr.close()


if __name__ == "__main__":
    main()
