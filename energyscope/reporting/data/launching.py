"""What launching from the host costs: moments that were measured eagerly and in a CUDA graph, side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from energyscope.reporting import text
from energyscope.reporting.data.execution import CUDA_GRAPH, EAGER, name_of
from energyscope.reporting.data.work import work_in
from energyscope.runs.compare_surroundings import CLOCKS_APART
from energyscope.runs.intervals import Interval, ratio

if TYPE_CHECKING:
    from energyscope.reporting.data.scenes import SceneData

WHOLE = "whole model"


@dataclass(frozen=True)
class Launched:
    """What all components of a kind, or the whole model, take in each execution (mJ per pass or step).

    ``dynamic_mj`` is the part of it beyond idle power times time, eager and of the graph; None where not known.
    ``invalid`` names the executions in which some value of it is below grade C, ``hollow`` those in which all are.
    """

    kind: str
    eager: Interval
    graph: Interval
    invalid: tuple[str, ...] = ()
    hollow: tuple[str, ...] = ()
    dynamic_mj: tuple[float | None, float | None] = (None, None)

    def work(self, execution: str) -> float | None:
        """Return the dynamic part (mJ) in one execution; None where it is not known, or no part of the whole."""
        at = (EAGER, CUDA_GRAPH).index(execution)
        return work_in((self.eager, self.graph)[at], self.dynamic_mj[at])

    @property
    def share(self) -> Interval | None:
        """The graph's energy as a share of the eager one; None where one of them is not positive."""
        return ratio(self.graph, self.eager)


@dataclass(frozen=True)
class Launching:
    """One moment in both executions: its kinds in the order of the eager profile, and the whole model.

    ``share_of_time`` is the graph's time as a share of the eager one; ``left_out`` are kinds of which some value
    is missing in either execution, so that they are not set side by side. ``clocks_mhz`` are the median clocks,
    eager and of the graph; None where one was not read.
    """

    moment: str
    unit: str
    kinds: list[Launched]
    whole: Launched
    share_of_time: Interval | None
    modelled: bool
    left_out: tuple[str, ...] = ()
    clocks_mhz: tuple[float, float] | None = None

    @property
    def other_clocks(self) -> str:
        """Say at which clocks eager execution and the graph ran, where these are so far apart that they matter."""
        if self.clocks_mhz is None or abs(self.clocks_mhz[1] / self.clocks_mhz[0] - 1) <= CLOCKS_APART:
            return ""
        eager, graph = self.clocks_mhz
        return f"; it ran at {graph:,.0f} MHz, and eager execution at {eager:,.0f} MHz"

    @property
    def weak(self) -> str:
        """Say in which execution the whole model is not to be relied on; empty where in none."""
        named = " and ".join(name_of(name) for name in self.whole.invalid)
        return f"below grade C: {named}" if named else ""

    @property
    def said(self) -> str:
        """Say what of the eager energy and time a graph takes, and what that means.

        Of values that are not to be relied on, that are time multiplied by watts, or that were measured at other
        clocks, nothing is concluded.
        """
        share = self.whole.share
        if share is None:
            return ""
        word = " (MODELLED)" if self.modelled else ""
        grade = f" ({self.weak})" if self.weak else ""
        times = f" and {text.percent(self.share_of_time.value)} of its time" if self.share_of_time else ""
        moment = self.moment[0].upper() + self.moment[1:]
        taken = f"{text.percent_with_limits(share)}{word} of the energy of eager execution{grade}{times}"
        return f"{moment}: a CUDA graph takes {taken}{self._meaning(share)}."

    @property
    def split(self) -> str:
        """Say how much of each is work, and how much is idle power times time; nothing where below grade C."""
        eager, graph = self.whole.work(EAGER), self.whole.work(CUDA_GRAPH)
        if eager is None or graph is None or self.modelled or self.whole.invalid:
            return ""
        waiting = [self.whole.eager.value - eager, self.whole.graph.value - graph]
        static = f"{text.quantity(waiting[0], 'mJ')} eagerly and {text.quantity(waiting[1], 'mJ')} in the graph"
        work = f"{text.quantity(eager, 'mJ')} and {text.quantity(graph, 'mJ')}"
        return f"Idle power times time is {static}, the work beyond it {work} (parts without an interval)."

    def _meaning(self, share: Interval) -> str:
        if self.weak or self.modelled or self.other_clocks:
            return self.other_clocks
        if not share.excludes(1.0):
            return "; that launching from the host costs energy is not shown" if share.known else ""
        return "; the rest is what launching from the host costs" if share.value < 1 else ""


def launchings(scenes: Sequence[SceneData]) -> list[Launching]:
    """Return the moments that were measured in both executions, in their order."""
    eager = [scene for scene in scenes if scene.execution == EAGER]
    graphs = {scene.moment: scene for scene in scenes if scene.execution == CUDA_GRAPH}
    pairs = ((scene, graphs[scene.moment]) for scene in eager if scene.moment in graphs)
    return [found for first, second in pairs if (found := _launching(first, second)) is not None]


def alone_in(scenes: Sequence[SceneData]) -> list[str]:
    """Say which moments were measured in one execution alone, in a run that has two."""
    measured: dict[str, list[str]] = {}
    for scene in scenes:
        measured.setdefault(scene.moment, []).append(scene.execution)
    if len({execution for own in measured.values() for execution in own}) < 2:
        return []
    lone = [(moment, name_of(own[0])) for moment, own in measured.items() if len(own) == 1]
    return [
        f"{moment[0].upper()}{moment[1:]} was measured in one execution alone: {name}." for moment, name in lone
    ]


def _launching(eager: SceneData, graph: SceneData) -> Launching | None:
    if eager.energy.model is None or graph.energy.model is None:
        return None
    weak = tuple(one.execution for one in (eager, graph) if one.tree.root is not None and one.tree.root.invalid)
    works = (eager.dynamic_mj, graph.dynamic_mj)
    kinds = list(_kinds(eager, graph))
    every = dict.fromkeys(entry.kind for scene in (eager, graph) for entry in scene.energy.kinds)
    return Launching(
        moment=eager.moment,
        unit=eager.unit,
        kinds=kinds,
        whole=Launched(WHOLE, eager.energy.model, graph.energy.model, weak, weak, works),
        share_of_time=ratio(graph.time_us, eager.time_us) if graph.time_us and eager.time_us else None,
        modelled=eager.modelled,
        clocks_mhz=(eager.clock_mhz, graph.clock_mhz) if eager.clock_mhz and graph.clock_mhz else None,
        left_out=tuple(kind for kind in every if kind not in {row.kind for row in kinds}),
    )


def _kinds(eager: SceneData, graph: SceneData) -> Iterator[Launched]:
    """Yield the kinds whose every component has a value in both."""
    others = {entry.kind: entry for entry in graph.energy.kinds if not entry.missing}
    for entry in eager.energy.kinds:
        other = others.get(entry.kind)
        if other is not None and not entry.missing:
            both = ((EAGER, entry), (CUDA_GRAPH, other))
            weak = tuple(name for name, one in both if one.invalid)
            hollow = tuple(name for name, one in both if one.all_invalid)
            works = (entry.dynamic_mj, other.dynamic_mj)
            yield Launched(entry.kind, entry.energy, other.energy, weak, hollow, works)
