"""Is replay faithful: each kind's replayed energy beside what the model saves without that kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from energyscope.reporting import text
from energyscope.runs.intervals import Interval, finite, interval

Verdict = Literal[
    "agrees", "cannot be told", "dearer in replay", "cheaper in replay", "too small to tell", "unknown"
]
AGREEMENT = 0.05  # how far a ratio may be from 1
VAGUE = 10.0  # an interval of a ratio so wide leaves no decimal known
NEAR = 0.15  # how far its interval may reach from 1 where it agrees; as wide as books that are said to close


@dataclass(frozen=True)
class ReplayRow:
    """One kind, mJ per forward pass; ``ratio`` is replayed / differential, near 1 where replay is faithful."""

    kind: str
    replayed_mj: float | None
    differential: Interval
    ratio: Interval | None

    @property
    def verdict(self) -> Verdict:
        """Agrees where the ratio is within 5 % of 1 and its interval within 15 %; differs where that excludes 1.

        Anything else cannot be told, a ratio without an interval included; a kind may be too small to tell.
        """
        if self.ratio is None:
            return "unknown"
        if self.differential.value <= 0 or (self.differential.low is not None and self.differential.low <= 0):
            return "too small to tell"
        if abs(self.ratio.value - 1) <= AGREEMENT and _near(self.ratio):
            return "agrees"
        if not self.ratio.excludes(1.0):
            return "cannot be told"
        return "dearer in replay" if self.ratio.value > 1 else "cheaper in replay"


def _near(ratio: Interval) -> bool:
    """Say whether a ratio's interval is known and lies near 1."""
    if ratio.low is None or ratio.high is None:
        return False
    return ratio.low >= 1 - NEAR and ratio.high <= 1 + NEAR


def replay_rows(document: Mapping[str, Any]) -> list[ReplayRow]:
    """Return the kinds whose differential energy was measured, the largest first."""
    found = []
    for kind, entry in (document.get("differential") or {}).items():
        energy = interval(entry.get("energy_mj"), entry.get("low"), entry.get("high"))
        ratio = interval(entry.get("ratio"), entry.get("ratio_low"), entry.get("ratio_high"))
        if energy is not None:
            found.append(ReplayRow(str(kind), finite(entry.get("replayed_mj")), energy, ratio))
    return sorted(found, key=lambda row: -row.differential.value)


def replay_sentences(rows: Sequence[ReplayRow]) -> list[str]:
    """Say for how many kinds replay agrees with the model, and name those for which it does not."""
    vague = [row for row in rows if row.verdict == "cannot be told"]
    judged = [row for row in rows if row.verdict in {"agrees", "dearer in replay", "cheaper in replay"}]
    wide = "is too wide" if all(row.ratio and row.ratio.known for row in vague) else "is too wide, or not known"
    untold = f"of {text.listed([row.kind for row in vague])}: the interval of the ratio {wide}"
    if not judged and vague:
        return [f"Whether replay agrees with the model cannot be told {untold}."]
    if not judged:
        return ["No kind's differential energy is known well enough to judge replay."] if rows else []
    agreeing = [row for row in judged if row.verdict == "agrees"]
    differing = [f"{row.kind} is {row.verdict} (ratio {ratio_text(row.ratio)})"
                 for row in judged if row.verdict != "agrees"]  # fmt: skip
    within = f"within {text.percent(AGREEMENT)}"
    if agreeing:
        of = f"{len(agreeing)} of {text.count(len(judged), 'kind')} that can be judged"
        sentence = f"Replay agrees with the model {within} for {of}"
    else:
        sentence = f"Replay agrees with the model {within} for none of the kinds that can be judged"
    found = [f"{sentence}; {text.listed(differing)}." if differing else f"{sentence}."]
    return [*found, *([f"Whether it does cannot be told {untold}."] if vague else [])]


def ratio_text(ratio: Interval | None) -> str:
    """Write a ratio with its limits, such as ``"0.98 [0.95, 1.01]"``; one hardly known without decimals."""
    if ratio is None:
        return text.UNKNOWN
    if ratio.low is None or ratio.high is None:
        return f"{ratio.value:.2f}"
    places = 2 if ratio.high - ratio.low < VAGUE else 0
    return f"{ratio.value:.{places}f} [{ratio.low:,.{places}f}, {ratio.high:,.{places}f}]"
