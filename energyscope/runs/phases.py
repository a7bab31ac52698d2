"""The names of the phases that a run profiled, and which of two runs are the same.

``prefill`` and ``decode@1024`` are phases in the one execution that a run measured, or in the first of two; the
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
class PhaseName:
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


def same_phases(first: Run, second: Run) -> list[tuple[str | None, str | None]]:
    """Return the names that both runs give to one phase in one execution; None in a run that names none.

    Where no execution is common to both, what is left is one execution against the other.
    """
    left, right = _phases(first), _phases(second)
    if pairs := [(name, right[key]) for key, name in left.items() if key in right]:
        return pairs
    left_firsts, right_firsts = _firsts(left), _firsts(right)
    return [(name, right_firsts[key]) for key, name in left_firsts.items() if key in right_firsts]


def _firsts(phases: Mapping[tuple[str, int | None, str], str | None]) -> dict[tuple[str, int | None], str | None]:
    """Return the first name of each phase and context, in whichever execution."""
    names: dict[tuple[str, int | None], str | None] = {}
    for (phase, context, _), name in phases.items():
        names.setdefault((phase, context), name)
    return names


def unmatched(run: Run, names: Collection[str | None]) -> list[str]:
    """Return the phases of a run that are not among the ``names`` of those that were compared."""
    return [str(entry["name"]) for entry in run.scenes if entry["name"] not in names]


def has_two_executions(run: Run) -> bool:
    """Tell whether a run measured some phase in two executions."""
    return any(PhaseName.of(str(entry["name"])).execution for entry in run.scenes)


def _phases(run: Run) -> dict[tuple[str, int | None, str], str | None]:
    """Return the phases' names by phase, context and execution; the workload has the length of a prompt.

    A run from before phases had names has one: a pass of its phase.
    """
    execution = execution_of(run.document)
    if not run.scenes:
        return {(passes_of(run.document)[0], _context(run), execution): None}
    names: dict[tuple[str, int | None, str], str | None] = {}
    for entry in run.scenes:
        parsed = PhaseName.of(str(entry["name"]))
        names[parsed.phase, parsed.context, str(entry.get("execution") or execution)] = str(entry["name"])
    return names


def _context(run: Run) -> int | None:
    """Return the tokens in the cache of the decode steps of a run that names no phases."""
    if run.energy is None or run.energy.empty or passes_of(run.document)[0] != "decode":
        return None
    context = finite(run.energy.iloc[0]["context_length"])
    return None if context is None else int(context)
