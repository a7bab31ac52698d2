"""How long a run still takes: the running stage at the pace of its steps, later ones as they were estimated.

Arithmetic in microseconds a step: it also runs in the process that measures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from energyscope.reporting.terminal_live import TimeLeft, TimeRange

# Least and most time (s; None where nobody knows it before), steps of the most (0: as the stage reports), part.
PhaseTime = tuple[float | None, float | None, int, str]
Estimates = Mapping[str, Sequence[PhaseTime]]  # by stage; none of a stage that will be skipped


class StageProgress:
    """How far a stage is and how fast, by its steps, each of which is reported before the step's work.

    What a stage measures one after the other are its phases: each begins its steps anew, or is another ``part``.
    ``begun`` has the parts of those so far. A step that is reported again before any is finished was being
    prepared until then, which the others need not be.
    """

    def __init__(self, now_s: float) -> None:
        self.done, self.total = 0, 1
        self.begun: list[str] = []
        self._first = 0
        self._began_s = self._since_s = self._last_s = now_s

    def step(self, done: int, total: int, now_s: float, part: str = "") -> None:
        """Record a step, with how many of all are finished."""
        if not self.begun or part != self.begun[-1] or done < self.done:
            self.begun.append(part)
            self._first = done
            self._began_s = self._since_s = self._last_s = now_s
        elif done == self._first:
            self._since_s = self._last_s = now_s
        elif done > self.done:
            self._last_s = now_s
        self.done, self.total = done, total

    def place(self, phases: Sequence[PhaseTime]) -> tuple[PhaseTime | None, int]:
        """Return which of the phases is measured now (None: none of them), and how many are behind it."""
        place, present = -1, None
        for part in self.begun or [phase[3] for phase in phases[:1]]:
            match = next((i for i, phase in enumerate(phases) if i > place and phase[3] == part), None)
            present = None if match is None else phases[match]
            place = place if match is None else match
        return present, place if present else place + 1

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
        return now_s - self._began_s


def left_of_run(
    running: str, pace: StageProgress, waiting: Sequence[str], estimates: Estimates | None, now_s: float
) -> TimeLeft | None:
    """Return what is left of a run in the stage ``running`` and in those ``waiting``.

    ``estimates`` is None until the model is loaded. What will be skipped takes no time. None where the running
    stage is all there is, or where only stages are left of which nothing is known.
    """
    known = estimates or {}
    later = [name for name in waiting if not is_skipped(name, estimates)]
    if estimates is None and not later:
        return None
    now, without = _running(running, pace, known.get(running, ()), now_s)
    ranges = [time for time in (now, *(estimate_of(name, known) for name in later)) if time is not None]
    if not ranges:
        return TimeLeft(None, later) if estimates is None else None
    for name in later:
        without += _unknown(name, known[name]) if name in known else [name]
    return TimeLeft(_sum(ranges), without)


def phase_of(stage: str, pace: StageProgress, estimates: Estimates | None) -> tuple[int, int]:
    """Return which of its phases a running stage measures, from 1, and of how many that are known."""
    phases = (estimates or {}).get(stage, ())
    return min(pace.place(phases)[1] + 1, max(len(phases), 1)), max(len(phases), 1)


def is_skipped(stage: str, estimates: Estimates | None) -> bool:
    """Return whether the plan knows that a stage will be skipped."""
    phases = (estimates or {}).get(stage)
    return phases is not None and not phases


def estimate_of(stage: str, estimates: Estimates | None) -> TimeRange | None:
    """Return how long a waiting stage takes, as far as known; None where it is not, or is skipped."""
    ranges = _known((estimates or {}).get(stage, ()))
    return _sum(ranges) if ranges else None


def _running(
    stage: str, pace: StageProgress, phases: Sequence[PhaseTime], now_s: float
) -> tuple[TimeRange | None, list[str]]:
    """Return what is left of the running stage, and what of it nothing is known of.

    Its present phase takes the rest at its pace, and the later ones are as estimated.
    """
    present, behind = pace.place(phases)
    later = phases[behind + 1 :] if present else phases[behind:]
    least, most = pace.left(now_s), pace.left(now_s, present[2] if present else 0)
    if (least is None or most is None) and present is not None and (known := _known([present])):
        spent_s = pace.spent(now_s)
        least, most = (max(time_s - spent_s, 0.0) for time_s in (known[0].least_s, known[0].most_s))
    if least is None or most is None:
        part = pace.begun[-1] if pace.begun else ""
        ranges, without = _known(later), [f"{stage}: {part}" if part else stage]
    else:
        ranges, without = [TimeRange(least, most), *_known(later)], []
    return (_sum(ranges) if ranges else None), without + _unknown(stage, later)


def _known(phases: Sequence[PhaseTime]) -> list[TimeRange]:
    return [TimeRange(least, most) for least, most, *_ in phases if least is not None and most is not None]


def _unknown(stage: str, phases: Sequence[PhaseTime]) -> list[str]:
    return [f"{stage}: {part}" if part else stage for least, _, _, part in phases if least is None]


def _sum(ranges: Sequence[TimeRange]) -> TimeRange:
    return TimeRange(sum(time.least_s for time in ranges), sum(time.most_s for time in ranges))
