"""The names of the moments that a run profiled, and which of two runs are the same.

``prefill`` and ``decode@1024`` are moments in the one execution that a run measured, or in the first of two; the
other execution follows a slash: ``prefill/cuda-graph``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from energyscope.intervals import finite
from energyscope.runs.method import execution_of, passes_of

if TYPE_CHECKING:
    from energyscope.runs.store import Run


@dataclass(frozen=True)
class Moment:
    """What a name says: the phase, the tokens in the cache of a decode step, and the further execution, if any."""

    phase: str
    context: int | None
    execution: str | None

    @classmethod
    def of(cls, name: str) -> Self:
        """Read a name; a context that is not a number is left out."""
        plain, _, execution = name.partition("/")
        phase, _, context = plain.partition("@")
        return cls(phase, int(context) if context.isdigit() else None, execution or None)


def same_moments(first: Run, second: Run) -> list[tuple[str | None, str | None]]:
    """Return the names that both runs give to one moment in one execution; None in a run that names none.

    Where no execution is common to both, what is left is one execution against the other.
    """
    left, right = _moments(first), _moments(second)
    if pairs := [(name, right[key]) for key, name in left.items() if key in right]:
        return pairs
    left_firsts, right_firsts = _firsts(left), _firsts(right)
    return [(name, right_firsts[key]) for key, name in left_firsts.items() if key in right_firsts]


def _firsts(moments: Mapping[tuple[str, int | None, str], str | None]) -> dict[tuple[str, int | None], str | None]:
    """Return the first name of each phase and context, in whichever execution."""
    names: dict[tuple[str, int | None], str | None] = {}
    for (phase, context, _), name in moments.items():
        names.setdefault((phase, context), name)
    return names


def unpaired(run: Run, names: Collection[str | None]) -> list[str]:
    """Return the moments of a run that are not among the ``names`` of those that were compared."""
    return [str(scene["name"]) for scene in run.scenes if scene["name"] not in names]


def in_both(run: Run) -> bool:
    """Tell whether a run measured some moment in two executions."""
    return any(Moment.of(str(scene["name"])).execution for scene in run.scenes)


def _moments(run: Run) -> dict[tuple[str, int | None, str], str | None]:
    """Return the moments' names by phase, context and execution; the workload has the length of a prompt.

    A run from before moments had names has one: a pass of its phase.
    """
    execution = execution_of(run.document)
    if not run.scenes:
        return {(passes_of(run.document)[0], _context(run), execution): None}
    names: dict[tuple[str, int | None, str], str | None] = {}
    for scene in run.scenes:
        moment = Moment.of(str(scene["name"]))
        names[moment.phase, moment.context, str(scene.get("execution") or execution)] = str(scene["name"])
    return names


def _context(run: Run) -> int | None:
    """Return the tokens in the cache of the decode steps of a run that names no moments."""
    if run.energy is None or run.energy.empty or passes_of(run.document)[0] != "decode":
        return None
    context = finite(run.energy.iloc[0]["context_length"])
    return None if context is None else int(context)
