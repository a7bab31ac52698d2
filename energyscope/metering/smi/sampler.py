"""The process that runs nvidia-smi in a loop; its arguments are UUID, SECONDS and KEY=FIELD,KEY=FIELD...

nvidia-smi does not say when it read what it prints, so that each line is stamped as it arrives, by a process
that does nothing else. Like NVML's sampler it prints one JSON line a reading, and ends when its standard input
closes; nvidia-smi ends with it.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

from energyscope.metering.nvml.sampler import Emit, asleep_s, print_record, stdin_open
from energyscope.metering.smi.query import MISSING, number, values

SILENCE_S = 10.0
LOOK_S = 0.25
MAXIMUM_FAILURES = 20  # lines in a row without a power


def loop_command(uuid: str, interval_s: float, fields: Sequence[str]) -> list[str]:
    """Return nvidia-smi's own sampling loop; its interval is in whole milliseconds."""
    milliseconds = max(1, round(interval_s * 1e3))
    query = f"--query-gpu={','.join(fields)}"
    return ["nvidia-smi", f"--id={uuid}", query, "--format=csv,noheader,nounits", "-lms", str(milliseconds)]


def lines(source: int, silence_s: float) -> Iterator[tuple[float, str]]:
    """Yield each line from a file descriptor with its arrival (monotonic, s), until it or standard input closes.

    Raises:
        TimeoutError: nothing came for too long.

    """
    rest, last_s = b"", time.monotonic()
    while stdin_open():
        readable, _, _ = select.select([source, sys.stdin], [], [], LOOK_S)
        now = time.monotonic()
        if now - last_s > silence_s:
            raise TimeoutError
        if source not in readable:
            continue
        try:
            chunk = os.read(source, 65536)
        except OSError:  # how a terminal says that its other end is closed
            return
        last_s = now
        *complete, rest = (rest + chunk).split(b"\n")
        for line in complete:
            yield now, line.decode(errors="replace").strip()
        if not chunk:
            return


def reading(at_s: float, line: str, keys: Sequence[str]) -> dict[str, Any] | None:
    """Return the record of one line, None where it holds no power."""
    fields = dict(zip(keys, map(number, values(line)), strict=False))
    power = fields.get("reading_w")
    if len(fields) != len(keys) or power is None or power <= 0:
        return None
    throttle = fields.get("throttle")
    state = {key: fields.get(key) for key in ("sm_clock_mhz", "temperature_c", "power_limit_w")}
    bits = None if throttle is None else int(throttle)
    return {"before_s": at_s, "after_s": at_s, "reading_w": power, "power_w": power, "throttle": bits, **state}


def relay(source: int, keys: Sequence[str], silence_s: float, emit: Emit) -> None:
    """Emit a record for each line with a power; where that ends by itself, the last record says why."""
    failures, last_line = 0, "no message"
    try:
        for at_s, line in lines(source, silence_s):
            record = reading(at_s, line, keys)
            if record is not None:
                failures = 0
                emit({**record, "asleep_s": asleep_s()})
                continue
            failures, last_line = failures + 1, line or last_line
            if failures >= MAXIMUM_FAILURES:
                emit({"lost": f"nvidia-smi reports no power any more: {last_line}"})
                return
    except TimeoutError:
        emit({"lost": f"nvidia-smi has said nothing for {silence_s:g} s"})
        return
    if stdin_open():
        emit({"lost": f"nvidia-smi ended by itself: {last_line}"})


def main() -> None:
    """Relay nvidia-smi until standard input closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # nvidia-smi inherits it: the measuring process decides
    uuid, interval_s = sys.argv[1], float(sys.argv[2])
    pairs = [pair.split("=", 1) for pair in sys.argv[3].split(",")]
    near, far = os.openpty()  # to a pipe, a program may hold back many lines
    try:
        command = loop_command(uuid, interval_s, [field for _, field in pairs])
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=far, stderr=far)
    except FileNotFoundError:
        print_record({"lost": MISSING})
        return
    os.close(far)
    try:
        relay(near, [key for key, _ in pairs], max(SILENCE_S, 5 * interval_s), print_record)
    except BrokenPipeError:
        sys.stderr.close()
    finally:
        process.kill()
        process.wait()


if __name__ == "__main__":
    main()
