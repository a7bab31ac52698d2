"""How much of a stage's time is spent and planned, and what still fits into it. Plain arithmetic (seconds)."""

from __future__ import annotations

from dataclasses import dataclass

from energyscope.reasons import Reason, reason

OVERRUN = 1.3  # of the budget, after which no further pass begins


@dataclass
class Budget:
    """``seconds`` in all, from ``begin_s`` of some clock on; ``planned_s`` are those of what is set up already."""

    seconds: float
    passes: int
    begin_s: float
    planned_s: float = 0.0

    def refused(self, now_s: float, setup_s: float, window_s: float) -> Reason | None:
        """Return why something that takes so long to set up, and for a window, no longer fits; None if it does."""
        needed = setup_s + self.passes * window_s
        left = max(self.seconds - (now_s - self.begin_s) - self.planned_s, 0.0)
        if needed <= left:
            return None
        return reason("beyond-time-budget", needed_s=needed, left_s=left, budget_s=self.seconds)

    def plan(self, window_s: float) -> None:
        """Reserve a window of each pass."""
        self.planned_s += self.passes * window_s

    def over(self, now_s: float) -> bool:
        """Tell whether much more than the budget is spent."""
        return now_s - self.begin_s > OVERRUN * self.seconds
