"""What a run has put on disk so far, read beside it: its stages' states and its finished measurements.

The measuring process syncs a line to its journal for every finished measurement anyway. Reading it from another
process costs it nothing, where handing pictures out of it would take time between windows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from energyscope.accounting.measured import measure
from energyscope.accounting.records import MODEL
from energyscope.intervals import Interval
from energyscope.reporting.terminal_live import MOST, Costly, Power
from energyscope.runs import schema

Entry = Mapping[str, Any]

PROFILE = "profile"
MOST_BYTES = 1 << 24  # of the journal at once: the lines of a long stage, when it is read late


class RunFollower:
    """Follows one run directory, which may not be there yet."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self.document: dict[str, Any] = {}
        self._changed = 0
        self._read = 0
        self._latest: Entry = {}
        self._header: Entry = {}
        self._scene = ""
        self._entries: dict[str, list[Entry]] = {}
        self._known: dict[str, tuple[int, Interval | None]] = {}

    def update(self) -> None:
        """Read what was written since the last call.

        A file that cannot be read now is left for the next call; a finished line that is no entry is passed over.
        """
        if self.path is None:
            return
        try:
            self._read_document(self.path / schema.RUN_FILE)
            for entry in self._new(self.path / schema.JOURNAL_FILE):
                self._take(entry)
        except (OSError, ValueError):
            return

    def _read_document(self, path: Path) -> None:
        changed = path.stat().st_mtime_ns
        if changed != self._changed:
            self.document = json.loads(path.read_text(encoding="utf-8"))
            self._changed = changed

    def _new(self, path: Path) -> Iterator[Entry]:
        """Yield the journal's finished new lines that hold measurements of power."""
        with path.open("rb") as file:
            file.seek(self._read)
            whole, _, _ = file.read(MOST_BYTES).rpartition(b"\n")
        self._read += len(whole) + 1 if whole else 0
        for line in whole.split(b"\n"):
            if b'"window"' in line or b'"header"' in line or b'"row"' in line or b'"empty"' in line:
                entry = _entry(line)
                if entry is not None:
                    yield entry

    def _take(self, entry: Entry) -> None:
        if "window" in entry or "row" in entry:
            self._latest = entry
        if entry.get("stage") != PROFILE:
            return
        if "header" in entry:
            self._header, self._scene, self._entries = entry["header"], str(entry.get("scene") or ""), {}
            self._known = {}
        elif "subject" in entry:
            self._entries.setdefault(entry["subject"], []).append(entry)

    @property
    def modelled(self) -> bool:
        """Whether the run's joules are time x stated watts."""
        return bool((self.document.get("sensor") or {}).get("modelled"))

    @property
    def moment(self) -> str:
        """The scene that is profiled, such as ``prefill`` or ``decode@1024``; empty before."""
        return self._scene

    @property
    def stages(self) -> dict[str, Mapping[str, Any]]:
        """The stages' states, as run.json holds them."""
        return dict(self.document.get("stages") or {})

    def power(self, stage: str) -> Power | None:
        """Return the power in the latest measurement, if it is of this stage and has one."""
        if self._latest.get("stage") != stage:
            return None
        found = self._latest.get("window") or self._latest.get("row") or {}
        watts = found.get("power_w") if "power_w" in found else found.get("mean_power_w")
        if not isinstance(watts, int | float):
            return None
        return Power(float(watts), self._latest.get("clock_mhz"), self._latest.get("temperature_c"))

    def costliest(self, most: int = MOST) -> list[Costly]:
        """Return the components without parts that take most energy in a pass of the model, costliest first.

        Each as the report would have it of the windows so far; what stands for several components is
        one line.
        """
        tree = {one["name"]: one for one in self._header.get("tree", ())}
        parents = {one["parent"] for one in tree.values()}
        whole = self._energy(MODEL, 1.0)
        found = []
        for target in self._header.get("subjects", ()):
            name, *others = target["members"]
            energy = self._energy(target["key"], tree[name].get("calls") or 1) if name in tree else None
            if target["what"] in {"node", "group"} and name not in parents and energy is not None:
                share = energy.value / whole.value if whole is not None and whole.value else None
                windows, shown = len(self._entries[target["key"]]), one_name(target["key"].partition(":")[2])
                found.append(Costly(shown, energy, share, windows, 1 + len(others)))
        return sorted(found, key=lambda one: -one.energy.value)[:most]

    def _energy(self, key: str, calls: float) -> Interval | None:
        entries = self._entries.get(key)
        if not entries:
            return None
        known = self._known.get(key)
        if known is None or known[0] != len(entries):  # a thousand components take too long twice a second
            known = len(entries), _energy_of(entries, self._header.get("passes", 5))
            self._known[key] = known
        return None if known[1] is None else known[1].scaled(calls)


def _entry(line: bytes) -> Entry | None:
    """Return a line of the journal; None of one that a crash or a full disk left broken."""
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _energy_of(entries: Sequence[Entry], passes: int) -> Interval | None:
    energy = measure(entries, None, first=passes).energy
    return None if energy.mean is None else Interval(energy.mean, energy.low, energy.high)


def one_name(name: str) -> str:
    """Return the name of several layers' components as the tables write it: ``transformer.h.*``."""
    return name.replace("{layer}", "*")
