"""How much time a profile spends on each component, and so on all of them. Plain arithmetic (seconds)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from energyscope.accounting.records import MODEL
from energyscope.metering.waiting import IDLE_S, SETTLE_S
from energyscope.replay.targets import Target

PREHEAT_S = 5.0
REWARM_S = 0.5
IDLING_S = SETTLE_S + IDLE_S  # before passes and after the last
LEADS_S = (0.0, 0.3, 0.6, 1.0)  # for which a load may run before it counts
SETTLED_S = 1.0  # at the end of a replay that shows which is needed
SETTLING_REPLAYS = 3
OVERHEAD_S = 0.06  # between two windows: copies, warm-up, estimate
TICKS_S = 0.04  # and, where a sensor is read, its last tick: 0.54 s a window of 0.42 s, on an H200, all in all
LONGER_MODEL = 8.0  # times the usual window, where the host sets the pace; half of it in a brief session
TURNS = 4.0  # passes of the model that time each of its usual levels once: layers, blocks, and parts of these
TOGETHER = 8.0  # times the usual window, where one is that of all components, timed in the model
IN_TURN_S = 0.1  # in each of the first passes, for timing a component in turn with the model
MEASURED_BUDGET_S = 6.0
MODELLED_BUDGET_S = 1.8  # time x watts of a shared host does not get better for ever
REPEATED_SHARE = 0.08  # of all windows are taken again at most
MODELLED_REPEATED_SHARE = 0.3  # a CPU's windows are short, and its stalls are many


@dataclass(frozen=True)
class SamplingBudget:
    """How much is spent on each component.

    ``passes`` windows are taken of every target, then as many more as its spread asks for to bring the relative 95
    % half-width to ``target_interval``, within ``budget_s`` seconds a target (None: the meter's usual).
    ``window_s`` None takes the meter's own. ``preheat_s`` brings the board to its working temperature first. With
    ``settle_capped`` loads that the power limit slows run for the longest lead before they count. Idle power is
    measured before each pass (``idle_each_pass``), or before the first, halfway and at the end: three times, for
    an interval. Where several ``phases`` are profiled and nobody gave a budget, each is ``brief``: it has its
    first windows only, so that the run ends in minutes.
    """

    passes: int = 5
    target_interval: float = 0.01
    budget_s: float | None = None
    window_s: float | None = None
    phases: int = 1
    preheat_s: float = PREHEAT_S
    settle_capped: bool = False
    idle_each_pass: bool = True

    def window_for(self, meter_window_s: float) -> float:
        return self.window_s or meter_window_s

    def limit(self, meter_window_s: float, *, modelled: bool, took_s: float = 0.0) -> int:
        """Return the most windows of one target; ``took_s`` is what one took, if that was longer than planned."""
        budget = self.budget_s or (MODELLED_BUDGET_S if modelled else MEASURED_BUDGET_S)
        return max(self.passes, int(budget / (max(self.window_for(meter_window_s), took_s) + OVERHEAD_S)))

    def idles_before(self, number: int) -> bool:
        """Tell whether idle power is measured before a pass."""
        return self.idle_each_pass or number in {0, self.passes // 2}

    @property
    def brief(self) -> bool:
        """Whether no windows are taken beyond the first ones."""
        return self.phases > 1 and self.budget_s is None

    @property
    def longer_model(self) -> float:
        """How many times the usual window the model's is, where the host sets the pace."""
        return LONGER_MODEL / 2 if self.brief else LONGER_MODEL


def typical_window_s(device: str, *, modelled: bool) -> float:
    """Return the usual window (s) of the meters of a type of device (``cuda`` or ``cpu``)."""
    return 0.42 if device == "cuda" else 0.15 if modelled else 0.3


def first_windows(each: int, sampling_budget: SamplingBudget) -> int:
    """Return the windows of the first passes, ``each`` of which visits every target, and the model's last one."""
    return sampling_budget.passes * each + 1


def most_retaken(windows: int, *, modelled: bool) -> int:
    """Return how many of so many windows may be taken again because the host stalled."""
    return int((MODELLED_REPEATED_SHARE if modelled else REPEATED_SHARE) * windows)


class ReplayTime(NamedTuple):
    """Windows and seconds of the passes over targets: the first ones, and where all targets need more."""

    windows: int
    windows_most: int
    least_s: float
    most_s: float


def replay_time(
    plan: Sequence[Target],
    sampling_budget: SamplingBudget,
    meter_window_s: float,
    *,
    modelled: bool,
    eager: bool = False,
    together: bool = False,
    pass_s: float = 0.0,
) -> ReplayTime:
    """Return about how long the passes over a plan take.

    Run ``eager``, it is not known beforehand whether the host sets the pace: at most, it does. Timed ``together``
    in the model, all targets share a pass's window. A window has one call at least: of the model's, which take
    ``pass_s`` (0: not known), and of parts of it.
    """

    def host_paced_s(passes: int) -> float:
        if modelled or not eager:
            return 0.0
        longer_s = (sampling_budget.longer_model - 1) * sampling_budget.window_for(meter_window_s)
        return passes * longer_s + sampling_budget.passes * len(plan) * IN_TURN_S

    def seconds(windows: int, passes: int) -> float:
        between = OVERHEAD_S if modelled else OVERHEAD_S + TICKS_S
        settling = SETTLING_REPLAYS * (
            sampling_budget.window_for(meter_window_s) + LEADS_S[-1] + SETTLED_S + between
        )
        idles = sum(map(sampling_budget.idles_before, range(passes)))
        idling = idles * REWARM_S + (idles + 1) * IDLING_S
        fixed = 0.0 if modelled else sampling_budget.preheat_s + settling + idling
        return fixed + windows * (window_s + between)

    usual_s = sampling_budget.window_for(meter_window_s)
    wholes = sum(target.what == "without" or target.key == MODEL for target in plan)
    longer_s = max(0.0, pass_s - usual_s) * wholes / len(plan)
    window_s = max(TOGETHER * usual_s, TURNS * pass_s) if together else usual_s + longer_s
    each = 1 if together else len(plan)
    windows, passes = first_windows(each, sampling_budget) - together, sampling_budget.passes
    least_s = seconds(windows, passes)
    if sampling_budget.brief:
        return ReplayTime(windows, windows, least_s, least_s + host_paced_s(passes + 1))
    limit = sampling_budget.limit(
        meter_window_s, modelled=modelled, took_s=window_s / TOGETHER if together else pass_s
    )
    windows_most = limit * each + (not together)
    return ReplayTime(windows, windows_most, least_s, seconds(windows_most, limit) + host_paced_s(limit + 1))


class TimeEstimate(NamedTuple):
    """How long (s) a phase or ``part`` of a stage takes where targets are precise at once, or all need more.

    Both are None of what nobody knows before it begins. ``steps_most`` are its steps in the second case, retaken
    windows included (0: not known).
    """

    least_s: float | None
    most_s: float | None
    steps_most: int = 0
    part: str = ""

    @classmethod
    def of_replays(
        cls, time: ReplayTime, *, modelled: bool, before_s: float = 0.0, part: str = ""
    ) -> TimeEstimate:
        """Return the time of a session that begins ``before_s`` later, with windows that are taken again."""
        most = time.windows_most + most_retaken(time.windows_most, modelled=modelled)
        most_s = time.most_s * most / time.windows_most
        return cls(before_s + time.least_s, before_s + most_s, most, part)
