"""What varied while measuring: the anchors over the passes, their drift, and the windows that were taken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from energyscope.reporting import text
from energyscope.reporting.data.execution import TRIGGERED
from energyscope.runs.intervals import Interval, finite, interval
from energyscope.runs.tree import EnergyTree, Node

NOISE = 0.05  # half-width of a drift that hides any that would matter


@dataclass(frozen=True)
class PassRow:
    """One pass over the components, with the whole model (mJ per forward pass) measured beside it as the anchor.

    ``idle_w`` is the idle power before it; clock (MHz) and temperature (C) are those under the anchor.
    """

    index: int
    anchor: Interval | None
    idle_w: float | None
    clock_mhz: float | None
    temperature_c: float | None


def passes(document: Mapping[str, Any]) -> list[PassRow]:
    """Return the passes in their order."""
    found = []
    for position, entry in enumerate(document.get("passes") or []):
        anchor = interval(entry.get("anchor_mj"), entry.get("anchor_low_mj"), entry.get("anchor_high_mj"))
        idle, clock, temperature = (finite(entry.get(key)) for key in ("idle_w", "clock_mhz", "temperature_c"))
        index = finite(entry.get("index"))
        found.append(PassRow(position if index is None else int(index), anchor, idle, clock, temperature))
    return found


def drift_sentence(document: Mapping[str, Any]) -> str:
    """Say whether the model's energy drifted while its components were measured."""
    entry = document.get("drift") or {}
    change = interval(entry.get("change"), entry.get("low"), entry.get("high"))
    if change is None:
        return "Whether the model's energy drifted was not judged in this run."
    shown = f"{text.signed_percent(change.value)} {_limits(change)}".rstrip()
    if entry.get("significant"):
        return (
            f"The model's energy drifted by {shown} from the first pass to the last. Components are visited in "
            "shuffled order, so the drift widens their intervals and does not become a difference between them."
        )
    if change.excludes(0.0):
        return f"The model's energy changed by {shown} over the passes: too little to matter."
    if change.below + change.above > 2 * NOISE:
        return f"The anchors scatter too much to tell whether the model's energy drifted ({shown})."
    return f"The model's energy shows no drift over the passes ({shown})."


def _limits(change: Interval) -> str:
    written = text.percent_with_limits(change)
    return written[written.index("[") :] if "[" in written else ""


@dataclass(frozen=True)
class Effort:
    """How many measured values came as close as was asked for.

    ``target`` is the relative 95 % half-width aimed at, None where none was; a value that stands for several
    layers counts once. ``windows`` were taken of all of them together.
    """

    target: float | None
    reached: int
    values: int
    windows: int | None

    @property
    def sentence(self) -> str:
        """Say what the adaptive passes came to."""
        if not self.values:
            return ""
        taken = "" if self.windows is None else f" {text.count(self.windows, 'window')} were taken in all."
        if self.target is None:
            return taken.strip()
        aimed = f"Each value is measured until its 95 % half-width is {text.percent(self.target)} or time is up"
        if self.reached == self.values:
            return f"{aimed}: all {self.values} came that close.{taken}"
        if not self.reached:
            return f"{aimed}: none of {self.values} came that close, and all are graded down.{taken}"
        return f"{aimed}: {self.reached} of {self.values} came that close, the others are graded down.{taken}"


def effort(document: Mapping[str, Any], tree: EnergyTree) -> Effort:
    """Count the values measured and those that reached the target."""
    groups = {node.source: node for node in tree.nodes if node.energy is not None}
    settings = document.get("settings") or {}
    target = None if settings.get("sampling") == TRIGGERED else finite(settings.get("target_interval"))
    reached = 0 if target is None else sum(_within(node, target) for node in groups.values())
    windows = [node.number("windows") for node in groups.values()]
    known = [amount for amount in windows if amount is not None]
    whole = int(sum(known)) if known and len(known) == len(windows) else None
    return Effort(target, reached, len(groups), whole)


def _within(node: Node, target: float) -> bool:
    energy = node.energy
    if energy is None or energy.low is None or energy.high is None:
        return False
    return (energy.high - energy.low) / 2 <= target * abs(energy.value) * (1 + 1e-9)
