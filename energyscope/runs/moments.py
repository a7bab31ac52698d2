"""The names of the moments that a run profiled, and which of two runs are the same.

``prefill`` and ``decode@1024`` are moments in the one execution that a run measured, or in the first of two; the
other execution follows a slash: ``prefill/cuda-graph``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from energyscope.runs.method import execution_of

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
        """Read a name; what is no number of tokens is left out."""
        plain, _, execution = name.partition("/")
        phase, _, context = plain.partition("@")
        return cls(phase, int(context) if context.isdigit() else None, execution or None)


def same_moments(first: Run, second: Run) -> list[tuple[str, str]]:
    """Return the names that both runs give to one moment in one execution.

    Where no execution is common to both, what is left is one execution against the other: the moments of one name.
    """
    theirs = {_identity(second, scene): str(scene["name"]) for scene in second.scenes}
    ours = [(_identity(first, scene), str(scene["name"])) for scene in first.scenes]
    alike = [(name, theirs[identity]) for identity, name in ours if identity in theirs]
    named = set(theirs.values())
    return alike or [(name, name) for _, name in ours if name in named]


def unpaired(run: Run, names: Collection[str]) -> list[str]:
    """Return the moments of a run that are not among the ``names`` of those that were compared."""
    return [str(scene["name"]) for scene in run.scenes if scene["name"] not in names]


def in_both(run: Run) -> bool:
    """Tell whether a run measured some moment in two executions."""
    return any(Moment.of(str(scene["name"])).execution for scene in run.scenes)


def _identity(run: Run, scene: Mapping[str, Any]) -> tuple[str, int | None, str]:
    """Return the phase, context and execution of a moment; the length of a prompt is a matter of the workload."""
    moment = Moment.of(str(scene["name"]))
    return moment.phase, moment.context, str(scene.get("execution") or execution_of(run.document))
