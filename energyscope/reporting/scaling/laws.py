"""What the page of laws is about: a laws.json, its groups of cells, what they are called, and which are weak."""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from energyscope.errors import RunError
from energyscope.grouping import group_by
from energyscope.intervals import Interval, finite, from_entry, ratio
from energyscope.reporting.charts.theme import title_of
from energyscope.reporting.run.parts import OVERHEAD
from energyscope.reporting.run.report import DECODE, execution_name, precision_name
from energyscope.reporting.section import Page
from energyscope.runs.laws import load_laws

Entry = Mapping[str, Any]
Shape = tuple[int, int]  # batch size and tokens

WHOLE, SUM = "model", "sum-over-parts"
BATCH, TOKENS = "batch_size", "tokens"  # axes of efficiency
FORMS = ("two_term", "by_bytes", "constant")  # of a subject's law: the first that was fitted is shown
WAYS = {"length": "lengths", "batch": "batches", "cell": "cells", "model": "models"}  # of leaving out
LAW_NAMES = {  # what each law is called, and what it says
    "two-term": ("two-term", "E0 + k x FLOPs"),
    "two-term-in-bytes": ("two-term in bytes", "E0 + k x bytes, of what has no FLOPs"),
    "constant": ("constant", "the mean: all cells do the same work"),
    "per-call": ("per call", "energy per call, FLOP and byte, over models"),
    "roofline-floor": ("roofline", "idle power x time + energy per call, FLOP and byte"),
    "roofline-sum": ("roofline, sum", "idle power x summed times + energy per call, FLOP and byte"),
    "roofline-board-rates": ("roofline, board's rates", "roofline with the board's rates for its time"),
    SUM: ("sum of parts", "what the laws of its parts add up to"),
}
# What cells of one law have in common. Labels name the first two wherever they differ, the others where needed.
_SETTING = ("model", "phase", "precision", "execution", "kv_cache")
_BEYOND = ("limit", "board", "meter", "weights", "method")
_SPANS = {"batches": (BATCH, "batch {}"), "lengths": (TOKENS, "{} tokens")}
_FORMS = {
    "precision": precision_name,
    "execution": execution_name,
    "kv_cache": "{} KV cache".format,
    "weights": "{} weights".format,
    "method": "method {}".format,
}
_FEWEST = 3  # shapes along batch sizes that are worth the first sentence


@dataclass(frozen=True)
class Laws:
    """A document of laws as its page shows it; ``folder`` is where it stands."""

    document: Entry
    folder: Path

    @classmethod
    def load(cls, folder: Path) -> Laws:
        """Read the laws of a directory.

        Raises:
            RunError: there are none that can be read.

        """
        document = load_laws(folder)
        if not document["groups"]:
            raise RunError(f"{folder} holds no laws: make them of runs or sweeps")
        return cls(document, folder)

    def __repr__(self) -> str:
        """Name the directory of the laws."""
        return f"<Laws {self.folder}>"

    def _repr_html_(self) -> str:
        """Show the answer where a notebook shows the laws."""
        from energyscope.reporting.scaling.answer import LawsAnswer

        answer = LawsAnswer(self)
        return f"<p><b>{html.escape(answer.sentence)}</b></p><p>{html.escape(answer.follows)}</p>"

    @property
    def modelled(self) -> bool:
        """Whether its joules are time x stated watts."""
        return bool(self.document.get("modelled"))

    @property
    def energy(self) -> str:
        """What joules are called at the top of a column or an axis."""
        return "Energy (MODELLED)" if self.modelled else "Energy"

    @property
    def flops(self) -> str:
        """Which FLOPs laws count: ``executed`` or ``nominal``; documents of before did not distinguish them."""
        return str(self.document.get("flops") or "nominal")

    @property
    def models(self) -> list[str]:
        """The models that were measured."""
        return list(dict.fromkeys(str(source.get("model")) for source in self.document["sources"]))

    @cached_property
    def case(self) -> str:
        """What the first sentence is of: ``limits``, ``sizes``, ``contrast``, ``efficiency`` or ``law``."""
        if self.document.get("limits"):
            return "limits"
        lines = self.document["efficiency"]
        batches, lengths = (
            max((len(line["rows"]) for line in lines if line["along"] == along), default=0)
            for along in (BATCH, TOKENS)
        )
        if any(len(comparison["rows"]) > 1 for comparison in self.document["sizes"]):
            return "sizes"
        if any(contrast["subject"] == WHOLE for contrast in self.document["contrasts"]):
            return "contrast"
        return "efficiency" if batches >= max(_FEWEST, lengths) else "law"

    @cached_property
    def groups(self) -> list[Entry]:
        """The groups of cells; one that the first sentence is of stands first, as in the switches."""

        def rank(group: Entry) -> tuple[Any, ...]:
            law = line_of(whole_of(group))
            gain = max((gain_of(line) for line in self.efficiency(group) if line["along"] == BATCH), default=0.0)
            checked = law is not None and law.get("r2") is not None
            return gain * (self.case == "efficiency"), checked and grows(law), law is not None, len(group["cells"])

        groups: list[Entry] = self.document["groups"]
        return sorted(groups, key=rank, reverse=True) if self.case in {"efficiency", "law"} else groups

    @cached_property
    def labels(self) -> list[str]:
        """What distinguishes each group from the others."""
        return self.distinct_labels(self.groups)

    def distinct_labels(self, entries: Sequence[Entry]) -> list[str]:
        """Return labels of the fewest words that distinguish entries; of one entry, its whole setting."""
        fields = [*_SETTING, *_SPANS, *_BEYOND]
        words = {field: [self._word(field, entry) for entry in entries] for field in fields}
        shown = [field for field in fields if len(set(words[field])) > 1]

        def named(chosen: Sequence[str]) -> list[tuple[str, ...]]:
            return [tuple(words[field][index] for field in chosen) for index in range(len(entries))]

        for field in reversed(shown):
            rest = [other for other in shown if other != field]
            if field not in _SETTING[:2] and len(set(named(rest))) == len(set(named(shown))):
                shown = rest
        return [", ".join(filter(None, name)) for name in named(shown or _SETTING)]

    def weak(self, entry: Entry) -> set[Shape]:
        """Return the shapes of which all cells of an entry's setting are graded invalid."""
        sources = [source for source in self.document["sources"] if alike(source, entry)]
        reliable = {shape_of(source) for source in sources if source.get("quality") != "invalid"}
        return {shape_of(source) for source in sources} - reliable

    def efficiency(self, group: Entry) -> list[Entry]:
        """Return the lines of a group along batch sizes and lengths, of two shapes at least."""
        return [line for line in self.document["efficiency"] if len(line["rows"]) > 1 and alike(line, group)]

    @cached_property
    def settings(self) -> list[list[Entry]]:
        """The comparisons of sizes by setting, each with its shapes by work; the best-known exponent's first."""
        shapes = sorted(self.document["sizes"], key=lambda shape: math.prod(shape_of(shape)))
        settings = group_by(shapes, lambda shape: tuple(str(shape.get(field)) for field in (*_SETTING, *_BEYOND)))
        return sorted(settings.values(), key=lambda shapes: _width(best_known(shapes)))

    @cached_property
    def setting_labels(self) -> list[str]:
        """What distinguishes each setting of sizes from the others."""
        return self.distinct_labels([shapes[0] for shapes in self.settings])

    def _word(self, field: str, entry: Entry) -> str:
        if field in _SPANS:
            (key, form), cells = _SPANS[field], entry.get("cells")
            return form.format(_span({cell[key] for cell in cells})) if isinstance(cells, list) and cells else ""
        value = entry.get(field)
        if field == "board" and value is not None:
            boards = list(dict.fromkeys(str(source.get("board")) for source in self.document["sources"]))
            return f"board {boards.index(str(value)) + 1}" if str(value) in boards else str(value)
        if field == "limit" and value is not None:
            return limit_name(value)
        return "" if value is None else _FORMS.get(field, str)(value)


LAWS: Page[Laws] = Page("laws")


def cells_of(entry: Entry, **more: Any) -> dict[str, Any]:
    """Return an entry as a row of a table: what has a value and limits as an interval, and ``more``."""
    return {key: from_entry(value) if isinstance(value, Mapping) else value for key, value in entry.items()} | more


def subject_name(subject: object) -> str:
    """Return what a subject of laws is called."""
    return "whole model" if subject == WHOLE else title_of(kind_of(subject))


def kind_of(subject: object) -> str:
    """Return the kind whose colour a subject has."""
    return OVERHEAD if subject == "glue" else str(subject)


def named(entry: Entry) -> dict[str, str]:
    """Return the cells that name a row's subject: its ``part`` and its ``kind``."""
    return {"part": subject_name(entry.get("subject", WHOLE)), "kind": kind_of(entry.get("subject", WHOLE))}


def limit_name(limit: object) -> str:
    """Return what a GPU was held to in words."""
    return str(limit) if limit else "the default"


def law_name(law: object) -> str | None:
    """Return what a law is called; None of none."""
    return None if law is None else LAW_NAMES.get(str(law), (str(law), ""))[0]


def shape_of(cell: Entry) -> Shape:
    """Return a batch size and a length."""
    return int(cell["batch_size"]), int(cell["tokens"])


def shape_name(cell: Entry, phase: object) -> str:
    """Return a batch size and a length in words."""
    batch, tokens = shape_of(cell)
    if phase == DECODE:
        return f"batch {batch:,}, {tokens:,} in the cache"
    return f"{tokens:,} tokens" if batch == 1 else f"{batch:,} x {tokens:,} tokens"


def fitted(law: object) -> Entry | None:
    """Return a law; None where only a reason stands in its place."""
    return law if isinstance(law, Mapping) and "flags" in law else None


def law_of(subject: Entry) -> Entry:
    """Return the law that is shown of a subject: over FLOPs, over bytes, or its mean; empty where it has none."""
    return next((law for form in FORMS if (law := fitted(subject.get(form)))), {})


def whole_of(group: Entry) -> Entry | None:
    """Return what is said of a group's whole model; None where it was not measured."""
    return next((subject for subject in group["subjects"] if subject.get("role") == "whole"), None)


def line_of(subject: Entry | None) -> Entry | None:
    """Return a subject's two-term law over FLOPs; None where it has none."""
    return None if subject is None else fitted(subject.get("two_term"))


def includes_zero(item: Interval | None) -> bool:
    """Whether a value is not significantly different from zero."""
    return item is not None and item.known and not item.excludes(0.0)


def grows(law: Entry | None) -> bool:
    """Whether a two-term law shows that energy grows with FLOPs."""
    return law is not None and not includes_zero(from_entry(law.get("marginal_pj_per_flop")))


def gain_between(first: Entry, last: Entry) -> Interval | None:
    """Return by what factor tokens per joule rise between two rows."""
    low, high = from_entry(first.get("tokens_per_j")), from_entry(last.get("tokens_per_j"))
    return None if low is None or high is None else ratio(high, low)


def gain_of(line: Entry) -> float:
    """Return by what factor tokens per joule rise over a line of efficiency; 0 where that is not known."""
    gain = gain_between(line["rows"][0], line["rows"][-1])
    return 0.0 if gain is None else gain.value


def medians(group: Entry) -> Iterator[tuple[str, str, Entry]]:
    """Yield ``whole`` and ``components`` with how cells were left out, and the errors of those."""
    held_out = group.get("held_out") or {}
    for entry in held_out.get("ways") or [held_out]:
        for what in ("whole", "components"):
            errors = entry.get(what) or {}
            if finite(errors.get("median")) is not None:
                yield what, str(entry.get("by") or errors.get("by")), errors


def alike(source: Entry, entry: Entry) -> bool:
    """Whether two entries agree in every field of a setting that both have."""
    fields = (field for field in (*_SETTING, *_BEYOND) if field in source and field in entry)
    return all(str(source[field]) == str(entry[field]) for field in fields)


def best_known(shapes: Sequence[Entry]) -> Entry:
    """Return the shape at which the exponent of sizes is known best."""
    return min(shapes, key=_width)


def _width(shape: Entry) -> float:
    item = from_entry(shape.get("exponent"))
    return item.above + item.below if item is not None and item.known else math.inf


def _span(numbers: set[int]) -> str:
    low, high = min(numbers), max(numbers)
    return f"{low:,}" if low == high else f"{low:,}\u2013{high:,}"
