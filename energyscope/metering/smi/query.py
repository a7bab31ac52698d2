"""Questions to the nvidia-smi command: which fields it knows, and what its answers mean."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping, Sequence

from energyscope.errors import MeterError

TIMEOUT_S = 20.0
MISSING = "the nvidia-smi command is not on PATH: install the driver's utilities, or use another --meter"

# What is asked at every sample; of several names for one thing, the first that this version knows.
CANDIDATES: Mapping[str, tuple[str, ...]] = {
    "reading_w": ("power.draw.instant", "power.draw"),
    "sm_clock_mhz": ("clocks.sm",),
    "temperature_c": ("temperature.gpu",),
    "throttle": ("clocks_event_reasons.active", "clocks_throttle_reasons.active"),
    "power_limit_w": ("enforced.power.limit",),
}


def ask(uuid: str, fields: Sequence[str], of: str = "gpu") -> list[list[str]]:
    """Return nvidia-smi's answers about a GPU: a list of values for each line.

    Raises:
        MeterError: the command is missing, does not answer, or refuses the question.

    """
    command = ["nvidia-smi", f"--id={uuid}", f"--query-{of}={','.join(fields)}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except FileNotFoundError as error:
        raise MeterError(MISSING) from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MeterError(f"nvidia-smi does not answer: {error}") from error
    if done.returncode != 0:
        lines = (done.stdout + done.stderr).strip().splitlines() or ["no message"]
        raise MeterError(f"nvidia-smi failed ({done.returncode}): {lines[0]}")
    return [values(line) for line in done.stdout.splitlines() if line.strip()]


def values(line: str) -> list[str]:
    """Return the values of one line of CSV without header."""
    return [value.strip() for value in line.split(",")]


def number(text: str) -> float | None:
    """Return a value as a number (bits are hexadecimal); None for ``[N/A]`` and its like."""
    try:
        return float(int(text, 16)) if text.startswith("0x") else float(text)
    except ValueError:
        return None


def known_fields(uuid: str) -> dict[str, str]:
    """Return, for each key of CANDIDATES, the field that this nvidia-smi and this GPU answer.

    Raises:
        MeterError: nvidia-smi cannot be used, or reports no power of this GPU.

    """
    ask(uuid, ["name"])  # a missing command or an unknown GPU says so here, once
    fields = {key: _first_that_answers(uuid, names) for key, names in CANDIDATES.items()}
    if fields["reading_w"] is None:
        raise MeterError("nvidia-smi reports no power of this GPU ([N/A]): use another --meter")
    return {key: field for key, field in fields.items() if field is not None}


def _first_that_answers(uuid: str, names: Iterable[str]) -> str | None:
    for name in names:
        try:
            answer = ask(uuid, [name])
        except MeterError:
            continue  # this version does not know the field
        if answer and number(answer[0][0]) is not None:
            return name
    return None


def mig_mode(uuid: str) -> bool:
    """Return whether a GPU is in MIG mode; boards and versions without MIG are not."""
    try:
        return ask(uuid, ["mig.mode.current"]) == [["Enabled"]]
    except MeterError:
        return False
