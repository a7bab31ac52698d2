"""A meter that plays a trace of ticks back through the real interface, so that nobody needs a GPU for it."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any, Self

import numpy as np

from energyscope.errors import MeterError, UsageError
from energyscope.metering.meter import Reading, WithoutProcess, no_counter
from energyscope.metering.ticks import Ticks
from energyscope.reasons import reason

COLUMNS = ("time_s", "device", "energy_mj")


class RecordedMeter(WithoutProcess):
    """Returns ticks that were recorded before; times are those of the trace (s)."""

    name = "recorded"
    modelled = False

    def __init__(
        self, trace: Ticks, window_s: float = 0.4, *, device: str = "recorded", note: str = "a recorded trace"
    ) -> None:
        self.trace = trace
        self.window_s = window_s
        self.device = device
        self.note = note

    @classmethod
    def from_csv(cls, path: Path, *, device: str | None = None, window_s: float = 0.4) -> Self:
        """Return the meter that plays back one device of a run's power_trace.csv.

        ``device`` may be left out where the trace has only one. A fall of the energy is marked as a reset. A trace
        of an older run has no ``before_s``: the time of a tick is when it was seen.

        Raises:
            MeterError: the file is missing, or no power trace.
            UsageError: the trace has several devices, or not this one.

        """
        rows = _rows(path)
        devices = sorted({row["device"] for row in rows})
        if device is None and len(devices) == 1:
            device = devices[0]
        if device not in devices:
            raise UsageError(f"{path} holds {', '.join(devices) or 'no device'}: name one of them")
        before = "before_s" if "before_s" in rows[0] else "time_s"
        try:
            samples = [
                tuple(float(row[name]) for name in (before, "time_s", "energy_mj"))
                for row in rows
                if row["device"] == device
            ]
        except ValueError as error:
            raise MeterError(f"{path} is damaged: {error}") from error
        before_s, after_s, energy_mj = np.array(samples, dtype=float).T
        reset = np.concatenate([[False], np.diff(energy_mj) < 0])
        trace = Ticks(before_s, after_s, energy_mj, reset)
        return cls(trace, window_s, device=device, note=str(path))

    def ticks(self, begin_s: float, end_s: float) -> Ticks:
        return self.trace.between(begin_s, end_s)

    def read(self) -> Reading:
        raise no_counter(self.name)

    def describe(self) -> dict[str, Any]:
        notes = [reason("played-back", trace=self.note)]
        return {
            "meter": self.name,
            "modelled": False,
            "watts": None,
            "choice": reason("asked-for"),
            "notes": notes,
        }


def _rows(path: Path) -> list[dict[str, str]]:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            columns, rows = reader.fieldnames or (), list(reader)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise MeterError(f"the trace {path} cannot be read: {error}") from error
    missing = [name for name in COLUMNS if name not in columns]
    if missing:
        raise MeterError(f"{path} is no power trace: it has no column {missing[0]}")
    return rows
