"""What a plan's journal entries say: prices, harms, and choices with what was measured of them. Pure functions.

A choice is written as one precision for each group, in the order of the header's groups.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from energyscope.accounting import records
from energyscope.accounting.measured import Measured, Total, measure
from energyscope.grouping import group_by
from energyscope.impact.metrics import Floats
from energyscope.metering.grades import grade
from energyscope.planning.budget import Budget, Harm, parse_budget
from energyscope.planning.choice import Choice, ChoiceProblem
from energyscope.planning.groups import LinearGroup
from energyscope.planning.layers import BITS
from energyscope.planning.prediction import Prediction, Together, ratio
from energyscope.planning.replaying import applied_target
from energyscope.planning.rules import everywhere
from energyscope.unknown import minus

Entry = Mapping[str, Any]

PRICES, TOGETHER, STILL, VERIFY = "prices", "whole", "whole-still", "verify"  # what is replayed, in this order
OBJECTIVES = ("energy", "time", "memory")
FAR = 10.0  # times the limit


@dataclass(frozen=True)
class NamedChoice:
    """A choice that was considered: ``name``, the precision of each group, and its harm where it was measured."""

    name: str
    precisions: tuple[str, ...]
    harm: Harm | None


class PlanRecord:
    """The entries of a plan so far, as far as they concern one workload, by default the first."""

    def __init__(self, entries: Sequence[Entry], workload: str = "") -> None:
        headers: list[Mapping[str, Any]] = [entry["header"] for entry in entries if "header" in entry]
        self.header = header = headers[0] if headers else {}
        self.workload = workload or next((each["key"] for each in header.get("workloads", ())), "")
        self.entries = [entry for entry in entries if entry.get("workload") in {None, self.workload}]
        self._every = entries

    def at(self, workload: str) -> PlanRecord:
        """Return the record of another workload."""
        return PlanRecord(self._every, workload)

    def __bool__(self) -> bool:
        return bool(self.header)

    def _first(self, key: str) -> Any:
        return next((entry[key] for entry in self.entries if key in entry), None)

    def all(self, key: str) -> list[Any]:
        """Return what entries hold under a key, in their order."""
        return [entry[key] for entry in self.entries if key in entry]

    @cached_property
    def groups(self) -> list[LinearGroup]:
        return [
            LinearGroup(
                group["name"],
                group["kind"],
                group["layer"],
                tuple(group["paths"]),
                tuple((rows, columns) for rows, columns in group["shapes"]),
            )
            for group in self.header["groups"]
        ]

    @property
    def precisions(self) -> list[str]:
        """The precisions that groups may have, the model's own first."""
        return list(self.header["precisions"])

    @property
    def own(self) -> str:
        return self.precisions[0]

    @cached_property
    def budget(self) -> Budget:
        return parse_budget(self.header["budget"])

    @cached_property
    def priced_bytes(self) -> dict[tuple[str, str], int]:
        """The bytes of a group's weights, by family and precision."""
        return {(item["family"], item["precision"]): item["bytes"] for item in self.all("priced")}

    def measured(self, part: str) -> dict[str, Measured]:
        """Return the figures of every target that was replayed in a part of the plan, by key."""
        own = [entry for entry in self.entries if entry.get("part") == part]
        if not own:
            return {}
        own, _ = records.at_main_speed(own)
        idle, passes = records.idle_of(own), self.header["passes"][part]
        by_key = group_by((entry for entry in own if "subject" in entry), lambda entry: str(entry["subject"]))
        return {key: measure(entries, idle, first=passes) for key, entries in by_key.items()}

    @cached_property
    def prices(self) -> dict[str, Measured]:
        return self.measured(PRICES)

    @cached_property
    def prediction(self) -> Prediction:
        """What is expected of choices."""
        return Prediction(self.own, self.prices, {name: self._together(name) for name in self.precisions[1:]})

    def _together(self, precision: str) -> list[Together]:
        """Return a precision as it was measured in the model: where it saves alone, then where it still does."""
        measured: list[Together] = []
        for part in (TOGETHER, STILL):
            families = self.together_in(part, precision)
            if not families:
                break
            wholes = self._wholes[part]
            changed = wholes.get(applied_target(everywhere(precision)).key)
            measured.insert(0, Together(families, changed, wholes.get(records.MODEL)))
        if len(measured) < 2:
            return measured
        still, first = measured
        if still.taken("energy") is None or still.taken("time") is None:  # cut off: the first is all that is known
            return [first]
        rest = Counter(first.families) - Counter(still.families)
        return [still, replace(first, families=rest, others=still)]

    def together_in(self, part: str, precision: str) -> dict[str, int]:
        """Return how many groups of each family had a precision in a part that measured it in the model."""
        entries = (each for each in self.all("everywhere") if each.get("part", TOGETHER) == part)
        return next((dict(each["families"]) for each in entries if each["precision"] == precision), {})

    @cached_property
    def _wholes(self) -> dict[str, dict[str, Measured]]:
        return {part: self.measured(part) for part in (TOGETHER, STILL)}

    def price(self, group: LinearGroup, precision: str) -> Measured | None:
        """Return what a group costs a pass at a precision, alone; None where that was not measured."""
        return self.prediction.price(group.family, precision)

    def cost(self, group: LinearGroup, precision: str, objective: str) -> float | None:
        """Return the mJ, us or bytes of a group in the model, by the objective; None where it is not known."""
        if objective == "memory":
            return self.priced_bytes.get((group.family, precision))
        return self.prediction.cost(group.family, precision, objective)

    def saving(self, group: LinearGroup, precision: str, objective: str) -> float | None:
        """Return by how much less a group costs at a precision than at its own; None where that is not known."""
        return minus(self.cost(group, self.own, objective), self.cost(group, precision, objective))

    def cost_of(self, choice: NamedChoice) -> float:
        """Return what a choice costs by the objective, whatever harm it does; NaN where a group has no price."""
        objective = self.header["objective"]
        costs = [
            0.0 if cost is None and name == self.own else cost  # what cannot be changed counts in no choice
            for group, name in zip(self.groups, choice.precisions, strict=True)
            for cost in [self.cost(group, name, objective)]
        ]
        return float(np.sum(np.array(costs, dtype=float)))

    def eight(self, objective: str) -> str | None:
        """Return the precision of 8 bits that saves the most together; None where none has a price."""
        savings = {
            name: [one for group in self.groups if (one := self.saving(group, name, objective)) is not None]
            for name in self.precisions[1:]
            if BITS[name] == 8
        }
        return max((name for name in savings if savings[name]), key=lambda name: sum(savings[name]), default=None)

    @property
    def priced(self) -> npt.NDArray[np.bool_]:
        """Tell of each group (groups, precisions) at which precisions it has a price beside its own."""
        objective = self.header["objective"]
        costs = [[self.cost(group, name, objective) for name in self.precisions] for group in self.groups]
        known = ~np.isnan(np.array(costs, dtype=float))
        return np.asarray(known & known[:, :1])

    def problem(self, objective: str | None = None) -> ChoiceProblem:
        """Return the choice that the plan has; what was not measured cannot be chosen."""
        weights = np.array(self._first("weights"), dtype=float)
        harms = np.zeros((len(self.groups), len(self.precisions), len(weights)))
        known = np.zeros(harms.shape[:2], dtype=bool)
        known[:, 0] = True
        places = {group.name: place for place, group in enumerate(self.groups)}
        for item in self.all("harms"):
            if item.get("sums") is not None:
                place = places[item["group"]], self.precisions.index(item["precision"])
                harms[place], known[place] = item["sums"], True
        costs = [
            [self.cost(group, precision, objective or self.header["objective"]) for precision in self.precisions]
            for group in self.groups
        ]
        table: Floats = np.array(costs, dtype=float)  # None becomes NaN
        table[~known] = np.nan
        table[np.isnan(table[:, 0])] = np.where(np.arange(table.shape[1]) == 0, 0.0, np.nan)  # cannot be compared
        return ChoiceProblem(table, harms, weights, seed=self.header["seed"])

    def corrected(self, limit: float) -> ChoiceProblem:
        """Return the problem with harms as large as whole choices showed them to be together.

        What does many times more harm than the ``limit`` says nothing of what is near it.
        """
        problem = self.problem()
        known = [
            tried
            for tried in self.tried
            if tried.harm and tried.harm.value <= FAR * limit and problem.allows(self.indices(tried))
        ]
        choices = [self.indices(tried) for tried in known]
        return problem.corrected(choices, [tried.harm.value for tried in known if tried.harm])

    def indices(self, choice: NamedChoice) -> Choice:
        """Return a named choice as `problem` has it."""
        return np.array([self.precisions.index(precision) for precision in choice.precisions], dtype=np.intp)

    @property
    def chosen(self) -> Mapping[str, Any] | None:
        """The choice that the plan is, with what was expected of it; None where none was made."""
        chosen: Mapping[str, Any] | None = self._first("chosen")
        return chosen

    @property
    def held_out(self) -> dict[str, Any]:
        """What was measured of choices on the second half of the data, by name."""
        return {item["name"]: item for item in self.all("held_out")}

    @property
    def held_out_baseline(self) -> float | None:
        """The metric of the unchanged model on the second half of the data."""
        baseline: float | None = self._first("held_out_baseline")
        return baseline

    @property
    def tried(self) -> list[NamedChoice]:
        """The whole choices whose harm was measured on the half that the plan is made on; the last of a name."""
        weights = np.array(self._first("weights") or (), dtype=float)
        by_name = {
            item["name"]: NamedChoice(
                item["name"],
                tuple(item["precisions"]),
                None if item.get("sums") is None else Harm(np.array(item["sums"], dtype=float), weights),
            )
            for item in self.all("tried")
        }
        return list(by_name.values())

    def predicted(self, precisions: Sequence[str], quantity: str = "energy") -> Total | None:
        """Return what a choice is expected to take of what the model takes (1: as much), with its interval."""
        pairs = zip(self.groups, precisions, strict=True)
        counts = Counter((group.family, precision) for group, precision in pairs if precision != self.own)
        return self.prediction.share(counts, quantity)

    def verified(self, name: str, quantity: str = "energy") -> Total | None:
        """Return what a choice was measured to take of what the model takes, in turn with it."""
        changed, model = (self._verified.get(key) for key in (applied_target(name).key, records.MODEL))
        return ratio(changed, model, quantity)

    def quality(self, name: str, quantity: str = "energy") -> tuple[str | None, list[str]]:
        """Return the grade of what was measured of a choice, and what disturbed it or the model beside it.

        None where it was not applied.
        """
        if applied_target(name).key not in self._verified:
            return None, []
        share = self.verified(name, quantity)
        both = [self._verified.get(key) for key in (applied_target(name).key, records.MODEL)]
        known = [one for one in both if one is not None]
        half = None if share is None or share.half is None else share.half / abs(share.value)
        guards = sorted({guard for one in known for guard in one.guard})
        return grade(half, min((one.energy.windows for one in known), default=0), guards)

    @cached_property
    def _verified(self) -> dict[str, Measured]:
        return self.measured(VERIFY)

    @property
    def model(self) -> Measured | None:
        """The whole model as it is, in turn with what was verified, or else with the prices."""
        return self._verified.get(records.MODEL) or self.prices.get(records.MODEL)

    def expected_harm(self, named: NamedChoice) -> float | None:
        """Return what a choice should do by the harms of its groups; None where one of them was not measured."""
        problem, choice = self.problem(), self.indices(named)
        return problem.harm(choice) if problem.allows(choice) else None

    def bytes_saved(self, precisions: Sequence[str]) -> int | None:
        """Return by how many bytes the weights of a choice are smaller; None where that is not known."""
        sizes = [
            (self.priced_bytes.get((group.family, self.own)), self.priced_bytes.get((group.family, precision)))
            for group, precision in zip(self.groups, precisions, strict=True)
            if precision != self.own
        ]
        known = [(own, other) for own, other in sizes if own is not None and other is not None]
        return sum(own - other for own, other in known) if len(known) == len(sizes) else None


def to_judge(records: Sequence[PlanRecord], objective: str) -> list[tuple[LinearGroup, str]]:
    """Return the groups and precisions whose harm has to be known, of one plan at its workloads.

    What saves nothing at any of them is never chosen, whatever it does. The 8 bits of the rules of thumb, with
    which the plan is compared, are judged all the same.
    """
    first = records[0]
    eight = first.eight(objective)
    return [
        (group, name)
        for group in first.groups
        for name in first.precisions[1:]
        if (known := [one for record in records if (one := record.saving(group, name, objective)) is not None])
        and (max(known) > 0 or name == eight)
    ]
