"""Which targets are replayed with a pause after every call, and how long it is.

There are two reasons for one. Alone, back to back, a component may reach the power cap and lose its clocks, which
it keeps in the model. And its period may beat with the sensor's (`energyscope.metering.beats`); a pause gives it
another. The energy of pauses is measured by itself and subtracted.
"""

from __future__ import annotations

from collections.abc import Sequence

from energyscope.accounting import records
from energyscope.accounting.records import Entry
from energyscope.metering.beats import ALIASING, aliasing, detuned_pause


class Pauses:
    """The pauses (s) of targets, by key; ``interval_s`` is that of the sensor's samples, None where not known,
    and ``samples`` says whether it takes any.

    Targets keep the pauses that they had in ``earlier`` windows.
    """

    def __init__(
        self,
        interval_s: float | None,
        *,
        samples: bool = True,
        eager: bool = False,
        earlier: Sequence[Entry] = (),
    ) -> None:
        self._samples = samples
        self._interval_s = interval_s
        self._eager = eager
        paused = [entry for entry in earlier if entry.get("rest_us") is not None and "period_us" in entry]
        self._pause_s = {entry["subject"]: entry["rest_us"] / 1e6 for entry in paused}
        self._period_s = {entry["subject"]: entry["period_us"] / 1e6 for entry in paused}  # to bring a call to

    def of(self, key: str) -> float | None:
        """Return the pause after each call of a target, None where it has none."""
        return self._pause_s.get(key)

    def begin(self, entry: Entry, before: Sequence[Entry]) -> bool:
        """Give a target pauses if its window needs them and has none; return whether it was so."""
        key, period_s = entry["subject"], (entry.get("period_us") or 0.0) / 1e6
        if key in self._pause_s or not period_s:
            return False
        capped = records.slowed_by_cap(entry, before)
        if not capped and (self._interval_s is None or not self.beats(entry, before)):
            return False
        pause_s = least_s = period_s if capped else 0.0
        if self._interval_s is not None:
            pause_s = detuned_pause(period_s, self._interval_s, _seconds(entry), least_s=least_s)
        self._pause_s[key], self._period_s[key] = pause_s, period_s + pause_s
        return True

    def beats(self, entry: Entry, before: Sequence[Entry]) -> bool:
        """Whether a window may beat with the sensor: by its period, or by how its power scatters.

        Work that a host paces, launching each kernel, does not: its period wanders, and a pause would pass while
        the host launches, so that subtracting it takes away what was never added.
        """
        if not self._samples:
            return False
        if self._eager and records.host_paced(entry):
            return False
        return self._near_ratio(entry) or records.scatters([*before, entry], entry["subject"])

    def tune(self, entry: Entry) -> bool:
        """Correct a pause by the period that a window with it had; return whether it was too far off.

        A pause is a kernel that counts cycles, so its length depends on the clock.
        """
        key = entry["subject"]
        wanted_s, had_us = self._period_s.get(key), entry.get("period_us")
        if wanted_s is None or had_us is None:
            return False
        self._pause_s[key] = max(self._pause_s[key] + wanted_s - had_us / 1e6, 0.0)
        return self._near_ratio(entry)

    def _near_ratio(self, entry: Entry) -> bool:
        period_us = entry.get("period_us")
        if self._interval_s is None or period_us is None:
            return False
        return aliasing(period_us / 1e6, self._interval_s, _seconds(entry)) > ALIASING


def _seconds(entry: Entry) -> float:
    """Return how long a window's own replay ran (s), without that of what is subtracted from it."""
    begin_s, end_s = entry["ran_s"]
    return float(end_s - begin_s)
