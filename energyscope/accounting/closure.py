"""Closure: do the parts add up to the whole, and does replay agree with the model? Pure functions."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from energyscope.accounting.measured import CallTerm, Measured, Total, total

Entry = Mapping[str, Any]

QUANTITIES = ("energy", "time", "static", "dynamic")
TOLERANCE = {"cuda-graph": 0.03, "eager": 0.05}
AGREEMENT = 0.07  # how far the parts may be from the model, or from a traced generation
ADVISABLE = (round(1 - AGREEMENT, 9), 1 + AGREEMENT)  # within which advice is given
CLOSED, UNDER, OVER, UNCERTAIN = "closed", "under-captured", "over-captured", "uncertain"
WIDEST = 0.15  # the half-width of the 95 % interval beyond which a closure says nothing


class Sources:
    """Which measurement stands behind which component, from a profile's header."""

    def __init__(self, header: Entry, measured: Mapping[str, Measured]) -> None:
        self.header = header
        self.measured = measured
        self.nodes: dict[str, Entry] = {}
        self.overheads: dict[str, Entry] = {}
        for target in header["subjects"]:
            into = {"node": self.nodes, "group": self.nodes, "glue": self.overheads}.get(target["what"])
            if into is not None:
                into.update(dict.fromkeys(target["members"], target))

    def node(self, name: str) -> Measured | None:
        """Return the measurement of a component, None if there is none."""
        return self._measured(self.nodes.get(name))

    def overhead_of(self, name: str) -> Measured | None:
        """Return the measurement of a parent's own work outside its children, None if there is none."""
        return self._measured(self.overheads.get(name))

    def _measured(self, target: Entry | None) -> Measured | None:
        return self.measured.get(target["key"]) if target else None

    def terms(self, components: Sequence[Entry]) -> list[CallTerm]:
        """Return what the components take in one forward pass of the model."""
        return [
            CallTerm(self._key(component), component["calls"], self.node(component["name"]))
            for component in components
        ]

    def overhead_terms(self, components: Sequence[Entry]) -> list[CallTerm]:
        """Return what the parents' overhead takes in one forward pass of the model."""
        return [
            CallTerm(self.overheads[item["name"]]["key"], item["calls"], self.overhead_of(item["name"]))
            for item in components
            if item["name"] in self.overheads
        ]

    def _key(self, component: Entry) -> str:
        target = self.nodes.get(component["name"])
        return str(target["key"]) if target else component["name"]


def closures(sources: Sources) -> dict[str, Any]:
    """Return (children + overhead) / node for the model, the layers and each kind of block that has parts.

    Each level holds ``energy``, ``time``, ``static`` and ``dynamic`` with ``*_low`` and ``*_high`` (95 %), and a
    ``state``. Layers and blocks are taken together (sums over all of a kind), which also averages their noise.
    Where overhead was not measured the ratio is children / node, and ``with_glue`` is False.
    """
    tree: Sequence[Entry] = sources.header["tree"]
    children: dict[str, list[Entry]] = defaultdict(list)
    for component in tree:
        children[component["parent"] or ""].append(component)
    by_level = {}
    for name, level in _levels(tree).items():
        parents = [parent for parent in level if children[parent["name"]]]
        inside = [child for parent in parents for child in children[parent["name"]]]
        if parents and (closure := _closure(sources, parents, inside)):
            by_level[name] = closure
    return by_level


def _levels(tree: Sequence[Entry]) -> dict[str, list[Entry]]:
    levels = {"model": [tree[0]], "layers": [component for component in tree if component["level"] == "layer"]}
    for kind in sorted({component["kind"] for component in tree if component["level"] == "block"}):
        levels[kind] = [
            component for component in tree if component["level"] == "block" and component["kind"] == kind
        ]
    return levels


def _closure(sources: Sources, parents: Sequence[Entry], inside: Sequence[Entry]) -> dict[str, Any] | None:
    overhead = sources.overhead_terms(parents)
    with_overhead = len(overhead) == len(parents) and total(overhead, "energy") is not None
    parts = [*sources.terms(inside), *(overhead if with_overhead else [])]
    figures: dict[str, Any] = {}
    for quantity in QUANTITIES:
        ratio = quotient(total(parts, quantity), total(sources.terms(parents), quantity))
        figures[quantity] = ratio.value if ratio else None
        figures[f"{quantity}_low"] = ratio.low if ratio else None
        figures[f"{quantity}_high"] = ratio.high if ratio else None
    if figures["energy"] is None:
        return None
    return {**figures, "with_glue": with_overhead, "state": state(figures, sources.header["execution"])}


def state(closure: Entry, execution: str) -> str:
    """Say whether a closure is ``closed``, ``under-captured``, ``over-captured`` or ``uncertain``.

    Closed is within 3 % of 1 in a CUDA graph, 5 % eager, or an interval that includes 1. Too much is as wrong
    as too little: joules that were counted twice, or replay that takes more energy than the model. A closure with
    an interval of more than `WIDEST` to either side is uncertain: it includes nearly everything.
    """
    ratio, low, high = closure["energy"], closure["energy_low"], closure["energy_high"]
    within = abs(ratio - 1) <= TOLERANCE[execution]
    includes = low is not None and high is not None and low <= 1 <= high
    if within or includes:
        return UNCERTAIN if too_wide(low, high) else CLOSED
    return OVER if ratio > 1 else UNDER


def too_wide(low: float | None, high: float | None) -> bool:
    """Say whether a closure's 95 % interval is too wide to say whether the parts add up."""
    return low is not None and high is not None and (high - low) / 2 > WIDEST


def quotient(part: Total | None, whole: Total | None) -> Total | None:
    """Return part / whole, independent of each other, with first-order propagation of their half-widths."""
    if part is None or whole is None or not whole.value:
        return None
    ratio = part.value / whole.value
    if part.half is None or whole.half is None:
        return Total(ratio, None)
    return Total(ratio, math.hypot(part.half, ratio * whole.half) / abs(whole.value))


def differentials(sources: Sources) -> dict[str, Any]:
    """Return, for each kind, what the model saves without it, beside what its components took in replay.

    ``energy_mj`` (with ``low`` and ``high``) is the model less the model with all components of the kind
    bypassed; ``replayed_mj`` their replayed sum; ``ratio`` replayed / differential with its interval: near 1
    where replay is faithful. All per forward pass.
    """
    tree: Sequence[Entry] = sources.header["tree"]
    model = CallTerm("node:model", 1.0, sources.measured.get("node:model"))
    by_kind = {}
    for target in sources.header["subjects"]:
        if target["what"] != "without":
            continue
        kind = target["key"].partition(":")[2]
        lost = total([model, CallTerm(target["key"], -1.0, sources.measured.get(target["key"]))], "energy")
        replayed = total(sources.terms(outermost(tree, kind)), "energy")
        ratio = quotient(replayed, lost)
        if lost is not None:
            by_kind[kind] = {
                "energy_mj": lost.value,
                "low": lost.low,
                "high": lost.high,
                "replayed_mj": replayed.value if replayed else None,
                "ratio": ratio.value if ratio else None,
                "ratio_low": ratio.low if ratio else None,
                "ratio_high": ratio.high if ratio else None,
            }
    return by_kind


def outermost(tree: Sequence[Entry], kind: str) -> list[Entry]:
    """Return a kind's components but those inside of another one of the kind, which holds their joules already."""
    by_name = {component["name"]: component for component in tree}

    def inside(component: Entry) -> bool:
        parent = by_name.get(component["parent"] or "")
        return parent is not None and (parent["kind"] == kind or inside(parent))

    return [component for component in tree if component["kind"] == kind and not inside(component)]
