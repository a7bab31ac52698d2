"""What the page of a measured server is made of: its loads as rows, with intervals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from energyscope import format as fmt
from energyscope.intervals import Interval, interval
from energyscope.reporting.section import Page
from energyscope.serving.curve import REQUEST, too_noisy
from energyscope.serving.run import ServingRun, load_serving

Entry = dict[str, Any]


@dataclass(frozen=True)
class Server:
    """A measured server as the page shows it."""

    run: ServingRun

    @classmethod
    def load(cls, path: Path) -> Server:
        """Read the run in a directory."""
        return cls(load_serving(path))

    @cached_property
    def loads(self) -> list[Entry]:
        """Every load that asked something, with the energy of its requests, and its work, as intervals."""
        table = self.run.loads.astype(object).where(self.run.loads.notna(), None)
        return [
            {
                **{str(name): value for name, value in row.items()},
                "request": interval(row["request_j"], row["request_low_j"], row["request_high_j"]),
                "work": (work := interval(row["work_j"], row["work_low_j"], row["work_high_j"])),
                "noisy": row["quality"] == "invalid",
                "work_noisy": too_noisy(work, int(row["slots"] or 0)),
            }
            for row in table.to_dict("records")
        ]

    @cached_property
    def curve(self) -> list[Entry]:
        """The loads of the user's request: by users, then by rates."""
        rows = [row for row in self.loads if row["kind"] == REQUEST]
        return sorted(rows, key=lambda row: (row["users"] is None, row["users"] or row["rate_per_s"] or 0))

    @property
    def document(self) -> Entry:
        """All results as plain data: ``serving.json``, and its ``loads``."""
        loads = [
            {name: value for name, value in row.items() if name not in {"request", "work", "work_noisy"}}
            for row in self.loads
        ]
        return {**self.run.serving, "loads": loads}

    @property
    def phases(self) -> list[Entry]:
        """What a token of prompts and answers takes beyond the idle engine."""
        return [{**phase, "token": _interval(phase)} for phase in self.run.serving["phases"]]

    @property
    def costs(self) -> list[Entry]:
        """What one unit of each cause costs."""
        return [{**cost, "cost": _interval(cost)} for cost in self.run.serving["costs"]]

    @property
    def idle(self) -> Interval | None:
        """The power of the loaded, idle engine (W)."""
        return _interval(self.run.serving.get("idle_w") or {})

    @property
    def held_out(self) -> list[Entry]:
        """Loads that nothing was fitted to: measured and predicted."""
        return list(self.run.serving["held_out"])

    @property
    def disturbed(self) -> list[str]:
        """What may have disturbed the numbers, in a few words each."""
        notes = (self.run.document.get("serving") or {}).get("notes") or []
        loads = " ".join(str(row["reasons"]) for row in self.loads)
        found = {
            "the engine's process is not known": any("engine-" in str(note) for note in notes),
            "other processes used its GPUs": "other-process" in loads,
            "some requests failed": any(row["failed"] for row in self.loads),
        }
        return [words for words, is_so in found.items() if is_so]

    @property
    def worst(self) -> float | None:
        """The largest error of a held-out load."""
        return max((abs(part["error"]) for part in self.held_out), default=None)


SERVER: Page[Server] = Page("serving")


def asked_by(row: Entry) -> str:
    """Return who asked: ``8 users``, or ``2 per second``, which is what was asked for and not what chance drew."""
    if row["users"] is not None:
        return fmt.count(int(row["users"]), "user")
    return str(row["load"]).removeprefix("requests at ")


def engine_of(document: Mapping[str, Any]) -> str:
    """Return what the engine of a `run.json` calls itself, and its version; "" where it states neither."""
    endpoint = (document.get("serving") or {}).get("endpoint") or {}
    return " ".join(str(endpoint[key]) for key in ("owner", "version") if endpoint.get(key))


def _interval(entry: Entry) -> Interval | None:
    return interval(entry.get("value"), entry.get("low"), entry.get("high"))
