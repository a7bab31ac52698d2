"""What says how far a run's numbers, or those of one moment of its inference, may be relied on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from energyscope.reporting.data.closure import ClosureRow, closure_sentences, closures
from energyscope.reporting.data.execution import TRIGGERED, execution_of
from energyscope.reporting.data.faithful import ReplayRow, replay_rows, replay_sentences
from energyscope.reporting.data.passes import PassRow, drift_sentence, effort, passes
from energyscope.reporting.data.simpler import SimplerRow, simpler_rows, simpler_sentences

if TYPE_CHECKING:
    from energyscope.runs.store import Run
    from energyscope.runs.tree import EnergyTree


@dataclass(frozen=True)
class Trust:
    """What says how far the numbers may be relied on: rows for tables, and sentences that read them.

    Lists are empty where a run has nothing to say, as runs of older versions do not.
    """

    closures: list[ClosureRow]
    closure_said: list[str]
    replay: list[ReplayRow]
    replay_said: list[str]
    simpler: list[SimplerRow]
    simpler_said: list[str]
    passes: list[PassRow]
    passes_said: list[str]


def trust_of(run: Run, tree: EnergyTree | None) -> Trust:
    """Gather closure, replay against the model, simpler methods and drift of a run (or of one scene of it)."""
    closed, replay = closures(run.document), replay_rows(run.document)
    replayed = execution_of(run).sampling != TRIGGERED  # which is itself the simplest of methods
    simpler = (
        simpler_rows(tree) if tree and replayed and not run.modelled else []
    )  # modelled, all are time x watts
    taken = passes(run.document)
    said = [drift_sentence(run.document)] if taken else []
    spent = effort(run.document, tree).sentence if tree else ""
    return Trust(
        closures=closed,
        closure_said=closure_sentences(closed),
        replay=replay,
        replay_said=replay_sentences(replay),
        simpler=simpler,
        simpler_said=simpler_sentences(simpler),
        passes=taken,
        passes_said=[*said, *([spent] if spent else [])],
    )
