"""The stages of a run, in their order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from energyscope.reasons import Reason
from energyscope.runs import schema
from energyscope.runs.store import RunStore, read_journal
from energyscope.stages import ablate, alternatives, benchmark, correlate, generate, phases, plan, report
from energyscope.stages.context import Context, Entries


@dataclass(frozen=True)
class Stage:
    """A stage: what it does, and for one whose results are a file, how that is written from the journal.

    ``run`` returns why it was skipped, ``write`` whether there was anything to write; ``metered`` stages measure
    with meters of their own.
    """

    name: str
    run: Callable[[Context], Reason | None]
    write: Callable[[RunStore, Entries], bool] | None = None
    file: str | None = None
    metered: bool = False


STAGES = (
    Stage("benchmark", benchmark.run, benchmark.write, schema.BENCHMARK_FILE, metered=True),
    Stage("generate", generate.run, generate.write, schema.GENERATION_JSON, metered=True),
    Stage("profile", phases.run, phases.write, schema.ENERGY_FILE, metered=True),
    Stage("alternatives", alternatives.run, alternatives.write, schema.ALTERNATIVES_JSON, metered=True),
    Stage("ablate", ablate.run, ablate.write, schema.IMPACT_FILE),
    Stage("correlate", correlate.run, correlate.write, schema.CORRELATION_FILE),
    Stage("plan", plan.run, plan.write, schema.PLAN_JSON, metered=True),
    Stage("report", report.run),
)


def recover(store: RunStore) -> list[str]:
    """Write the results of stages that did not finish from the journal; return the names of the files."""
    entries = read_journal(store.path)
    states = {name: (entry or {}).get("state") for name, entry in (store.document.get("stages") or {}).items()}
    unfinished = [stage for stage in STAGES if states.get(stage.name) not in {"done", "skipped"}]
    return [stage.file for stage in unfinished if stage.file and stage.write and stage.write(store, entries)]
