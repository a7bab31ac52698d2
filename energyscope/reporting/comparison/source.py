"""What the page is made of: the runs under names that tell them apart, their comparison, and their moments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from energyscope.reporting.data.execution import name_of
from energyscope.runs.compare import Comparison, GenerationComparison, PairComparison, compare
from energyscope.runs.compare_benchmark import BenchmarkComparison
from energyscope.runs.compare_names import told_apart
from energyscope.runs.moments import Moment
from energyscope.runs.store import Run
from energyscope.runs.tree import EnergyTree, energy_tree


@dataclass(frozen=True)
class Source:
    """Runs, the baseline first, and how they differ."""

    runs: tuple[Run, ...]
    comparison: Comparison

    @classmethod
    def of(cls, runs: Sequence[Run], comparison: Comparison | None = None) -> Source:
        """Take runs with names that tell them apart, and compare them where that was not done."""
        return cls(tuple(told_apart(runs)), comparison or compare(runs))

    @property
    def names(self) -> list[str]:
        """The runs' names, the baseline's first."""
        return [run.name for run in self.runs]

    @property
    def pairs(self) -> tuple[PairComparison, ...]:
        """The comparisons of profiles in which something was measured."""
        return tuple(pair for pair in self.comparison.pairs if pair.whole or pair.parts)

    @property
    def several(self) -> bool:
        """Whether there is more than one other run."""
        return len(self.runs) > 2

    @property
    def modelled(self) -> bool:
        """Whether any run's joules are modelled."""
        return any(run.modelled for run in self.runs)

    @property
    def all_modelled(self) -> bool:
        """Whether every run's joules are modelled."""
        return all(run.modelled for run in self.runs)

    @property
    def word(self) -> str:
        """What joules are called at the beginning of a title."""
        if self.all_modelled:
            return "Modelled energy"
        return "Energy, partly MODELLED" if self.modelled else "Energy"

    @property
    def word_before(self) -> str:
        """What joules are called where a title goes on after the word."""
        return f"{self.word}," if "," in self.word else self.word

    @property
    def scenes(self) -> list[str | None]:
        """The moments that were compared, None for runs without a choice of them."""
        return list(dict.fromkeys(pair.scene for pair in self.pairs))

    @cached_property
    def trees(self) -> dict[tuple[str, str | None], EnergyTree]:
        """The component trees of the compared moments by run and moment, as the baseline names it."""
        found: dict[tuple[str, str | None], EnergyTree] = {}
        for pair in self.pairs:
            for name, scene in ((pair.baseline, pair.scene), (pair.other, pair.other_scene)):
                run = next(one for one in self.runs if one.name == name)
                chosen = run if scene is None else run.scene(scene)
                if chosen.energy is not None and not chosen.energy.empty:
                    found.setdefault((name, pair.scene), energy_tree(chosen.energy))
        return found

    def title_of(self, one: PairComparison | GenerationComparison | BenchmarkComparison) -> str:
        """Name what is compared, as far as there is more than one of it."""
        scene = getattr(one, "scene", None)
        at = moment(scene) if len(self.scenes) > 1 else ""
        if not self.several:
            return at[:1].upper() + at[1:]
        return f"{one.other}{f', {at}' if at else ''}"

    def at(self, pair: PairComparison) -> str:
        """Say at which moment a sentence holds, where there are several."""
        if pair.scene is None or len(self.scenes) < 2:
            return ""
        at = Moment.of(pair.scene)
        step = at.context is not None and at.execution is None
        return f" at {at.context:,} tokens" if step else f" ({moment(pair.scene)})"


def moment(scene: str | None) -> str:
    """Write a moment in words: ``decode@1024`` is a decode step at 1,024 tokens."""
    if scene is None:
        return ""
    at = Moment.of(scene)
    plain = at.phase if at.context is None else f"{at.phase} step at {at.context:,} tokens"
    return plain if at.execution is None else f"{plain}, {name_of(at.execution)}"
