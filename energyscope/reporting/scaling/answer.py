"""The first screen of the page of laws, and what the terminal says first: one answer in both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from energyscope import format as fmt
from energyscope.intervals import from_entry, ratio
from energyscope.reporting.page import sentence
from energyscope.reporting.run.answer import Chip, Stat
from energyscope.reporting.run.report import execution_name, precision_name
from energyscope.reporting.scaling.contrasts import RATIOS, contrast_facts
from energyscope.reporting.scaling.efficiency import BY_BATCH, BY_LENGTH, efficiency_facts
from energyscope.reporting.scaling.fits import BY_GROUP, BY_KIND, attention_over_mlp, law_facts
from energyscope.reporting.scaling.laws import Entry, Laws, best_known, shape_name
from energyscope.reporting.scaling.limits import BY_LIMIT, limit_facts
from energyscope.reporting.scaling.sizes import LEFT_OUT, PER_TOKEN
from energyscope.reporting.scaling.trust import HELD_OUT, trust_facts

TOP = {  # the figures of the first screen, by what it is of: the first two that there are
    "limits": (BY_LIMIT, BY_GROUP),
    "sizes": (PER_TOKEN, LEFT_OUT, BY_GROUP),
    "contrast": (BY_GROUP, RATIOS),
    "efficiency": (BY_BATCH, BY_GROUP, BY_KIND),
    "law": (BY_GROUP, BY_KIND, HELD_OUT, BY_LENGTH),
}
SWITCHES = {PER_TOKEN: "setting", LEFT_OUT: "setting", RATIOS: "contrast", BY_KIND: "group", BY_BATCH: "group"}
_RANDOM = "The weights are not trained, and energy depends on values to some degree."
_MODELLED = "No power sensor was read: every joule is time x stated watts, so these are laws of time."
_MOST = 5  # numbers


@dataclass(frozen=True)
class LawsAnswer:
    """What a reader gets in ten seconds."""

    laws: Laws

    @cached_property
    def chips(self) -> list[Chip]:
        """What was measured, how and where, with what must not be overlooked."""
        document, sources = self.laws.document, self.laws.document["sources"]
        names = {
            field: list(dict.fromkeys(str(source[field]) for source in sources if source.get(field) is not None))
            for field in ("device", "precision", "execution", "phase")
        }
        missing = len(document["not_measured"])
        chips = [
            *map(Chip, names["device"]),
            Chip(", ".join(map(precision_name, names["precision"]))),
            *(Chip(execution_name(name)) for name in names["execution"]),
            *map(Chip, names["phase"]),
            Chip(fmt.count(len(sources), "run")),
            Chip(f"{missing} not measured" if missing else "", "warn", "Cells says why."),
            Chip("random weights" if "random" in document["weights"] else "", "warn", _RANDOM),
            Chip("MODELLED" if self.laws.modelled else "", "warn", _MODELLED),
        ]
        return [chip for chip in chips if chip.text]

    @cached_property
    def facts(self) -> dict[str, Any]:
        """The numbers of the sentences, and which sentences they make."""
        laws = self.laws
        facts: Callable[[], dict[str, Any]] = {
            "limits": lambda: limit_facts(laws),
            "sizes": lambda: _size_facts(best_known(laws.settings[0])),
            "contrast": lambda: contrast_facts(laws),
            "efficiency": lambda: efficiency_facts(laws),
            "law": lambda: law_facts(laws, laws.groups[0]),
        }[laws.case]
        return {"case": laws.case, "modelled": laws.modelled, **facts()}

    @cached_property
    def sentence(self) -> str:
        """The number that matters."""
        return sentence("laws/answer.txt.j2", facts=self.facts)

    @cached_property
    def follows(self) -> str:
        """What follows from it."""
        return sentence("laws/follows.txt.j2", facts=self.facts)

    @cached_property
    def trust(self) -> str:
        """How far the laws can be trusted, in one line."""
        return sentence("laws/trust_line.txt.j2", trust=trust_facts(self.laws), case=self.laws.case)

    @cached_property
    def stats(self) -> list[Stat]:
        """Four or five numbers with their errors."""
        facts, energy = self.facts, self.laws.energy
        if self.laws.case == "limits":
            rows = facts["rows"]
            best = [row for row in rows[1:] if row[0] == facts["best"]]
            shown = [rows[0], *best, *(row for row in rows[1:] if row not in best)][:_MOST]
            stats = [
                Stat(f"{energy}, {name}", fmt.measured(item, "mJ"), fmt.quantity(time_us, "us"), facts["pass"])
                for name, item, time_us in shown
            ]
        elif self.laws.case == "sizes":
            errors = trust_facts(self.laws)["sizes"] or {}
            stats = [
                Stat.of("Exponent of parameters", facts["exponent"], "", f"{facts['phase']}, {facts['shape']}"),
                *_each(f"{energy} per token, {{}}", facts["models"], facts["tokens"], "mJ", facts["shape"]),
                _error("Median error, worst left-out size", errors.get("high"), errors.get("worst")),
            ]
        elif self.laws.case == "contrast":
            cells = facts["cells"]
            shown = cells if len(cells) <= _MOST else [*cells[: _MOST - 1], cells[-1]]
            over = f"{facts['first']} over {facts['second']}"
            stats = [Stat.of(f"{energy} at {shape}", item, "ratio", over) for shape, item in shown]
        elif self.laws.case == "efficiency":
            stats = [
                *_each("Tokens per joule, batch {:,}", facts["batches"], facts["tokens"], ""),
                Stat.of("Gain", facts["gain"], "ratio"),
                *(Stat(f"Latency, batch {batch:,}", fmt.quantity(time, "us"))
                  for batch, time in zip(facts["batches"], facts["latency"], strict=True)),
            ]  # fmt: skip
        else:
            stats = [
                Stat.of(f"{energy} before the first FLOP", facts["fixed"], "mJ"),
                Stat.of("Each further FLOP", facts["slope"], "pJ"),
                Stat.of("Attention over MLP, per further FLOP", attention_over_mlp(self.laws.groups[0]), "ratio"),
                _error("Held-out error, whole model", facts["error"], facts["worst"]),
            ]
        return [stat for stat in stats if stat.value != fmt.UNKNOWN]


def _size_facts(shape: Entry) -> dict[str, Any]:
    """Return the numbers of a sentence about models of several sizes at one shape."""
    ends = (shape["rows"][0], shape["rows"][-1])
    first, last = (from_entry(row.get("energy_per_token_mj")) for row in ends)
    exponent = from_entry(shape.get("exponent"))
    return {
        "models": [row["model"] for row in ends],
        "tokens": [first, last],
        "factor": ratio(last, first) if first and last else None,
        "exponent": exponent,
        "twice": None if exponent is None else 2**exponent.value,
        "phase": shape.get("phase"),
        "shape": shape_name(shape, shape.get("phase")),
    }


def _each(label: str, names: Sequence[Any], items: Sequence[Any], unit: str, hint: str = "") -> list[Stat]:
    return [Stat.of(label.format(name), item, unit, hint) for name, item in zip(names, items, strict=True)]


def _error(label: str, median: float | None, worst: float | None) -> Stat:
    note = "" if worst is None else f"worst {fmt.quantity(worst, 'share')}"
    return Stat(label, fmt.quantity(median, "share"), note, "Median over cells that the law has not seen.")
