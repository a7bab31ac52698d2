"""How long a run still takes: the running stage at the pace of its steps, later ones as they were estimated.

Arithmetic in microseconds a step: it also runs in the process that measures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from energyscope.reporting.terminal_live import TimeLeft, TimeRange

PhaseTime = tuple[float, float, int]  # least and most time (s), and steps of the most (0: as the stage reports)
Estimates = Mapping[str, Sequence[PhaseTime]]  # by stage; none of a stage that will be skipped


class StageProgress:
    """How far a stage is and how fast, by its steps, each of which is reported before the step's work.

    ``phase`` counts, from 0, what the stage measures one after the other: each begins its steps anew.
    """

    def __init__(self, now_s: float) -> None:
        self.done, self.total, self.phase = 0, 1, 0
        self._first = 0
        self._since_s = self._last_s = now_s
        self._started = False

    def step(self, done: int, total: int, now_s: float) -> None:
        """Record a step, with how many of all are finished."""
        if not self._started or done < self.done:
            self.phase += self._started
            self._first = done
            self._since_s = self._last_s = now_s
        elif done > self.done:
            self._last_s = now_s
        self.done, self.total, self._started = done, total, True

    def left(self, now_s: float, steps: int = 0) -> float | None:
        """Return how long (s) the other steps take at the pace of the finished ones; of ``steps``, if it is more.

        The present one takes what is left of such a step, or no longer where it has had more. None where no step
        is finished, or none is left: how long what comes after the last one takes, no step has shown.
        """
        finished, left = self.done - self._first, max(self.total, steps) - self.done
        if finished < 1 or left < 1:
            return None
        pace = (self._last_s - self._since_s) / finished
        return max(pace - (now_s - self._last_s), 0.0) + pace * (left - 1)

    def spent(self, now_s: float) -> float:
        """Return how long (s) the present phase has taken so far."""
        return now_s - self._since_s


def left_of_run(
    running: str, pace: StageProgress, waiting: Sequence[str], estimates: Estimates | None, now_s: float
) -> TimeLeft | None:
    """Return what is left of a run in the stage ``running`` and in those ``waiting``.

    ``estimates`` is None until the model is loaded. What will be skipped takes no time. None where the running
    stage is all there is, or where only stages are left of which nothing is known.
    """
    known = estimates or {}
    later = [name for name in waiting if not is_skipped(name, estimates)]
    now = _running(pace, known.get(running, ()), now_s)
    ranges = [time for time in (now, *(estimate_of(name, known) for name in later)) if time is not None]
    if estimates is None and not later:
        return None
    if not ranges:
        return TimeLeft(None, later) if estimates is None else None
    return TimeLeft(
        _sum(ranges), [*([running] if now is None else []), *(name for name in later if name not in known)]
    )


def phase_of(stage: str, pace: StageProgress, estimates: Estimates | None) -> tuple[int, int]:
    """Return which of its phases a running stage measures, from 1, and of how many that are known."""
    phases = max(len((estimates or {}).get(stage, ())), 1)
    return min(pace.phase + 1, phases), phases


def is_skipped(stage: str, estimates: Estimates | None) -> bool:
    """Return whether the plan knows that a stage will be skipped."""
    phases = (estimates or {}).get(stage)
    return phases is not None and not phases


def estimate_of(stage: str, estimates: Estimates | None) -> TimeRange | None:
    """Return how long a waiting stage takes; None where that is not known, or where it will be skipped."""
    phases = (estimates or {}).get(stage)
    return _sum([TimeRange(*phase[:2]) for phase in phases]) if phases else None


def _running(pace: StageProgress, phases: Sequence[PhaseTime], now_s: float) -> TimeRange | None:
    """Return what is left of the running stage: of its present phase, and the later ones as estimated."""
    present, later = phases[pace.phase : pace.phase + 1], phases[pace.phase + 1 :]
    least, most = pace.left(now_s), pace.left(now_s, present[0][2] if present else 0)
    if least is None and present:
        spent_s = pace.spent(now_s)
        least, most = (max(time_s - spent_s, 0.0) for time_s in present[0][:2])
    if least is None or most is None:
        return None
    return _sum([TimeRange(least, most), *(TimeRange(*phase[:2]) for phase in later)])


def _sum(ranges: Sequence[TimeRange]) -> TimeRange:
    return TimeRange(sum(time.least_s for time in ranges), sum(time.most_s for time in ranges))
