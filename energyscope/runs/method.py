"""The revision of the method: whether passes of different runs measure the same thing.

run.json notes the revision that a run was made with; a run without one is of revision 0. Raise `REVISION` with
every change after which the same model, on the same board and with the same software, measures something else,
and state in `CHANGES` what was changed and which passes it concerns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from energyscope.reasons import Reason, join, reason

FIELD = "method"  # of run.json


@dataclass(frozen=True)
class MethodChange:
    """A change of the method: ``before`` says how earlier passes differ; phases or executions None: all."""

    revision: int
    before: Reason
    phases: frozenset[str] | None = None
    executions: frozenset[str] | None = None

    def concerns(self, phase: str, execution: str) -> bool:
        """Tell whether the change alters what passes of this phase and execution measure."""
        return (self.phases is None or phase in self.phases) and (
            self.executions is None or execution in self.executions
        )


CHANGES = (MethodChange(1, reason("graph-masks"), frozenset({"prefill"}), frozenset({"cuda-graph"})),)
REVISION = CHANGES[-1].revision


def revision_of(document: Mapping[str, Any]) -> int:
    """Return the revision that run.json notes, 0 where it notes none."""
    revision = document.get(FIELD)
    return revision if isinstance(revision, int) else 0


def method_of(document: Mapping[str, Any], phase: str, execution: str) -> int:
    """Return the last revision whose passes of this phase and execution measure what this run's do.

    A run that no later change concerns is as good as one of today: passes are alike where this number is.
    """
    revision = revision_of(document)
    later = _changes(revision, phase, execution)
    return later[0].revision - 1 if later else max(revision, REVISION)


def _changes(after: int, phase: str, execution: str) -> list[MethodChange]:
    """Return the changes since a revision that concern passes of a phase and execution."""
    return [change for change in CHANGES if change.revision > after and change.concerns(phase, execution)]


def passes_of(document: Mapping[str, Any], phase: str | None = None, *, eager: bool = False) -> tuple[str, str]:
    """Return the phase and the execution of a run's passes.

    ``phase`` None is that of the document's phase; ``eager``: they ran eagerly, whatever was set.
    """
    phase = phase or (document.get("scene") or document.get("settings") or {}).get("phase")
    return "decode" if phase == "decode" else "prefill", "eager" if eager else execution_of(document)


def execution_of(document: Mapping[str, Any]) -> str:
    """Return the execution of a phase of a run; of a whole run, that of all stages but the profile.

    A run of both executions is eager outside the profile, and so are the first runs, which had no choice.
    """
    execution = (document.get("settings") or {}).get("execution") or "eager"
    return "eager" if execution == "both" else str(execution)


def changes_between(first: int, second: int, phase: str, execution: str) -> Reason:
    """Return how two methods of such passes differ; revisions of a newer energyscope are not known here."""
    low, high = sorted((first, second))
    changes = [change.before for change in _changes(low, phase, execution) if change.revision <= high]
    return reason("methods-differ", first=first, second=second, changes=join(changes) or None)


def changes_since(method: int, phase: str, execution: str) -> str | None:
    """Return what was corrected since such passes were measured; None if nothing was."""
    return join(change.before for change in _changes(method, phase, execution)) or None
