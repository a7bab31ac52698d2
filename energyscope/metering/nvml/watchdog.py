"""Changes a GPU's limits and puts them back: ``python -m energyscope.metering.nvml.watchdog UUID``.

See `energyscope.metering.nvml.limits`. It answers each line of its standard input with one: what it found at
first, ``{}`` once a limit holds, or an ``error``. Its exit status is 0 if the limits are as they were found.
"""

from __future__ import annotations

import json
import signal
import sys
from contextlib import suppress
from typing import Any

from energyscope.errors import MeterError
from energyscope.metering.claims import LIMITS, claimed
from energyscope.metering.nvml.limits import AdjustableGpu, Limit
from energyscope.metering.nvml.sampler import print_record


def main() -> int:
    """Serve until standard input closes or a signal comes, and return the exit status."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _stop)
    uuid = sys.argv[1]
    with claimed([uuid], "limits", whose=LIMITS) as others:
        if others:
            _say({"error": f"another process changes the limits of {uuid}: wait for its end"})
            return 0
        try:
            gpu = AdjustableGpu(uuid)
            facts = gpu.facts()
        except MeterError as error:
            _say({"error": str(error)})
            return 0
        return _serve(gpu, facts)


def _serve(gpu: AdjustableGpu, facts: dict[str, Any]) -> int:
    restored = False
    try:
        with suppress(_Stopped):
            _listen(gpu, facts)
    finally:
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        restored = _restore(gpu)
    return 0 if restored else 1


def _listen(gpu: AdjustableGpu, facts: dict[str, Any]) -> None:
    _say(facts)
    for line in sys.stdin:
        try:
            gpu.set(Limit(**json.loads(line)))
            _say({})
        except MeterError as error:
            _say({"error": str(error)})


def _restore(gpu: AdjustableGpu) -> bool:
    try:
        gpu.restore()
    except MeterError as error:
        sys.stderr.write(f"energyscope: {error}\n")
        return False
    return True


class _Stopped(BaseException):
    """A signal came."""


def _stop(*_: Any) -> None:
    raise _Stopped


def _say(answer: dict[str, Any]) -> None:
    with suppress(BrokenPipeError):
        print_record(answer)


if __name__ == "__main__":
    with suppress(_Stopped):  # before anything was changed
        sys.exit(main())
