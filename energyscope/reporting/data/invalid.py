"""The rows of the impact table that hold no value, counted by their reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from energyscope.reporting import text
from energyscope.reporting.data.impact_words import method_title

NO_REASON = "no reason was noted"
# Nothing failed where there is nothing to measure: such rows come last, and are said apart.
NO_MATRIX = "it has no weight matrix"
INAPPLICABLE = (NO_MATRIX, "several components were changed at once")
MOST_NAMES = 2


@dataclass(frozen=True)
class InvalidGroup:
    """The invalid rows of one reason: how many, of which methods, components and kinds of components."""

    reason: str
    count: int
    methods: list[str]
    components: list[str]
    kinds: list[str]

    @property
    def applicable(self) -> bool:
        """Whether the rows could have had a value."""
        return not self.reason.startswith(INAPPLICABLE)

    @property
    def unquantizable(self) -> bool:
        """Whether the rows are quantizations of what has nothing to quantize."""
        return self.reason == f"{NO_MATRIX} to quantize"

    @property
    def sentence(self) -> str:
        """How many rows, why and which: ``"4 rows: its output did not change (lm_head; zero ablation)"``."""
        methods = text.listed([method_title(method) for method in self.methods])
        apart = "" if self.applicable else "; nothing to measure"
        return f"{text.count(self.count, 'row')}: {self.reason} ({self._which()}; {methods}){apart}"

    def _which(self) -> str:
        if len(self.components) <= MOST_NAMES:
            return text.listed(self.components)
        return f"{text.count(len(self.components), 'component')}: {text.listed(self.kinds)}"


def invalid_groups(rows: Sequence[Mapping[str, Any]]) -> list[InvalidGroup]:
    """Group invalid rows by their reason, the most frequent first, after them those that nothing could have."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        found.setdefault(_reason(row.get("reasons")), []).append(row)
    groups = [
        InvalidGroup(
            reason,
            len(members),
            list(dict.fromkeys(str(row["method"]) for row in members)),
            list(dict.fromkeys(str(row["component"]) for row in members)),
            list(dict.fromkeys(str(row["kind"]) for row in members)),
        )
        for reason, members in found.items()
    ]
    return sorted(groups, key=lambda group: (not group.applicable, -group.count))


def _reason(cell: object) -> str:
    """Read a cell that a table may hold as text, as nothing or as NaN."""
    said = "" if cell is None or cell != cell else str(cell).strip()  # noqa: PLR0124  NaN alone differs from itself
    return said if said not in {"", "<NA>", "nan"} else NO_REASON
