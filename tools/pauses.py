"""A run of energyscope in which every component is replayed with a pause after each call.

    python tools/pauses.py PERIODS run MODEL --stages profile ...     # on a GPU; the pause in periods of a call

Shows whether what a call takes depends on what runs around it. The model itself is replayed as usual; 0 gives the
usual run.
"""

from __future__ import annotations

import sys

from energyscope.accounting.records import MODEL, Entry
from energyscope.cli.app import main
from energyscope.stages import session
from energyscope.stages.pauses import Pauses


class PausesForAll(Pauses):
    """Pauses of ``periods`` of a call for every target but the model."""

    periods = 0.0

    def begin(self, entry: Entry, before: list[Entry]) -> bool:
        """Give a target its pause after its first window."""
        key, period_s = entry["subject"], (entry.get("period_us") or 0.0) / 1e6
        if not self.periods or key == MODEL:
            return super().begin(entry, before)
        if key in self._pause_s or not period_s:
            return False
        self._pause_s[key], self._period_s[key] = self.periods * period_s, (1 + self.periods) * period_s
        return True


if __name__ == "__main__":
    PausesForAll.periods = float(sys.argv.pop(1))
    session.Pauses = PausesForAll  # type: ignore[misc]
    main()
