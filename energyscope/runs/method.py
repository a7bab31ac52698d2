"""The revision of the method: what passes measured apart in time have in common, where no version tells.

run.json notes the revision that a run was made with; a run without one is of revision 0. Raise `REVISION` with
every change after which the same model, on the same board and with the same software, measures something else,
and say in `CHANGES` what was changed and which passes it concerns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from energyscope.reasons import Reason, join, reason

FIELD = "method"  # of run.json


@dataclass(frozen=True)
class MethodChange:
    """What a ``revision`` changed, said of the passes before it; None of phases and executions: of all."""

    revision: int
    before: Reason
    phases: frozenset[str] | None = None
    executions: frozenset[str] | None = None

    def concerns(self, phase: str, execution: str) -> bool:
        """Tell whether passes of this phase and execution measure something else since."""
        return (self.phases is None or phase in self.phases) and (
            self.executions is None or execution in self.executions
        )


CHANGES = (
    MethodChange(
        1,
        reason("graph-masks"),
        frozenset({"prefill"}),
        frozenset({"cuda-graph"}),
    ),
)
REVISION = CHANGES[-1].revision


def revision_of(document: Mapping[str, Any]) -> int:
    """Return the revision that run.json notes, 0 where it notes none."""
    found = document.get(FIELD)
    return found if isinstance(found, int) else 0


def method_of(document: Mapping[str, Any], phase: str, execution: str) -> int:
    """Return the last revision whose passes of this phase and execution measure what this run's do.

    A run that no later change concerns is as good as one of today: passes are alike where this number is.
    """
    revision = revision_of(document)
    lacking = [one.revision for one in CHANGES if one.revision > revision and one.concerns(phase, execution)]
    return lacking[0] - 1 if lacking else max(revision, REVISION)


def passes_of(document: Mapping[str, Any], phase: str | None = None, *, eager: bool = False) -> tuple[str, str]:
    """Return the phase and the execution of a run's passes.

    ``phase`` None: that of the moment that the document is of; ``eager``: so they ran, whatever was set.
    """
    settings = document.get("settings") or {}
    known = phase or (document.get("scene") or settings).get("phase")
    return "decode" if known == "decode" else "prefill", "eager" if eager else execution_of(document)


def execution_of(document: Mapping[str, Any]) -> str:
    """Return the execution of a moment of a run; of a whole run, that of all stages but the profile.

    Where both were asked for, only the profile knows them; the first runs had no choice, and were eager.
    """
    asked = (document.get("settings") or {}).get("execution") or "eager"
    return "eager" if asked == "both" else str(asked)


def changes_between(first: int, second: int, phase: str, execution: str) -> Reason:
    """Say what two methods of such passes differ in; a revision of a newer energyscope is not known here."""
    low, high = sorted((first, second))
    changes = [one.before for one in CHANGES if low < one.revision <= high and one.concerns(phase, execution)]
    return reason("methods-differ", first=first, second=second, changes=join(changes) or None)


def lacking(method: int, phase: str, execution: str) -> str | None:
    """Say what was mended since such passes were measured; None where nothing was."""
    changes = [one.before for one in CHANGES if one.revision > method and one.concerns(phase, execution)]
    return join(changes) or None
