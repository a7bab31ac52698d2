"""A profile's session on virtual time: a simulated GPU, and a replay setup whose rounds are simulated calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from energyscope.accounting import records
from energyscope.accounting.aggregate import Attribution, attribute
from energyscope.metering.group import MeterGroup
from energyscope.metering.ticks import Calls
from energyscope.progress import Progress, silent
from energyscope.replay.graphs import NotCapturableError
from energyscope.replay.targets import Target
from energyscope.runs.schema import EnergyRow
from energyscope.stages.instruments import Instruments
from energyscope.stages.sampling_budget import SamplingBudget
from energyscope.stages.session import Journal, Session
from energyscope.testing import SimulatedCall, SimulatedGpu

NOTHING = SimulatedCall(0.0, 0.0)  # launches no work
REFUSED = SimulatedCall(1.0, -1.0)  # cannot be held in a graph
REFUSAL = "cannot be captured in a CUDA graph: it waits for the device"

Round = Sequence[SimulatedCall] | Callable[[int], Sequence[SimulatedCall]]
Rounds = Mapping[str, Round]


class StandInRig:
    """Yields each target's round, and what is not its own, by its key; notes which ones are set up and left.

    A round that is a function is asked for the target's n-th visit, counted from 0; preheating visits too.
    """

    def __init__(self, rounds: Rounds, overheads: Mapping[str, Sequence[SimulatedCall]]) -> None:
        self.rounds = rounds
        self.overheads = overheads
        self.inside: list[str] = []
        self.visits: Counter[str] = Counter()

    @contextmanager
    def round(self, target: Target) -> Iterator[list[SimulatedCall]]:
        round_ = self.rounds[target.key]
        calls = round_(self.visits[target.key]) if callable(round_) else round_
        self.visits[target.key] += 1
        self.inside.append(target.key)
        try:
            yield list(calls)
        finally:
            self.inside.remove(target.key)

    def overhead(self, target: Target) -> Sequence[SimulatedCall]:
        return self.overheads.get(target.key, ())


class RefusingGpu(SimulatedGpu):
    """A simulated GPU on which some calls cannot be captured."""

    def run(self, round_: Sequence[SimulatedCall], seconds: float, *, rest_s: float | None = None) -> Calls | None:
        if REFUSED in round_:
            raise NotCapturableError(REFUSAL)
        return super().run(round_, seconds, rest_s=rest_s)


class Measured:
    """A session that has run: its entries, its replay setup, and the books that follow."""

    def __init__(self, session: Session, replay_setup: StandInRig, keys: Sequence[str]) -> None:
        self.session = session
        self.entries = session.entries
        self.replay_setup = replay_setup
        self.keys = keys

    def books(self) -> Attribution:
        tree = [component(key.partition(":")[2]) for key in self.keys]
        targets = [{"key": key, "what": "node", "members": [key.partition(":")[2]]} for key in self.keys]
        header = {
            "phase": "prefill", "precision": "fp32", "execution": "cuda-graph", "batch_size": 1,
            "context_length": 8, "device": "cuda:0", "meter": "simulated",
            "passes": self.session.sampling_budget.passes,
            "tree": tree, "subjects": targets,
        }  # fmt: skip
        return attribute(header, self.entries, records.idle_of(self.entries))

    def row(self, name: str) -> EnergyRow:
        return next(row for row in self.books().rows if row.component == name)

    def windows(self, key: str) -> list[Mapping[str, Any]]:
        return [entry for entry in self.entries if entry.get("subject") == key and "window" in entry]


def component(name: str) -> dict[str, Any]:
    root = name == "model"
    return {
        "name": name, "kind": "model" if root else "other", "layer": None, "calls": 1, "parameters": 1,
        "level": "model" if root else "block", "parent": None if root else "model", "weight_bytes": 4,
    }  # fmt: skip


def target(key: str) -> Target:
    what, _, name = key.partition(":")
    return Target(key, what, (name,))


def measure(
    gpu: SimulatedGpu,
    rounds: Rounds,
    *,
    sampling_budget: SamplingBudget | None = None,
    seed: int = 0,
    progress: Progress = silent,
    keep: Journal = lambda entry: None,
    overheads: Mapping[str, Sequence[SimulatedCall]] | None = None,
    sampling_s: float | None = None,
    eager: bool = False,
    earlier: Sequence[Mapping[str, Any]] = (),
) -> Measured:
    """Run a session over one node for each round, in virtual time; ``earlier`` has its whole passes before."""
    replay_setup = StandInRig(rounds, overheads or {})
    instruments = Instruments(
        replay_setup,  # type: ignore[arg-type]
        gpu,
        MeterGroup([gpu]),
        gpu,
        sampling_s=sampling_s,
        eager=eager,
    )
    session = Session(instruments, sampling_budget or SamplingBudget(), keep, seed=seed, earlier=earlier)
    session.run([target(key) for key in rounds], progress)
    return Measured(session, replay_setup, list(rounds))
