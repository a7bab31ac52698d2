"""Closure: do the parts add up to the whole, and does replay agree with the model? Pure functions."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from energyscope.accounting.measured import CallTerm, Measured, Total, total
from energyscope.accounting.records import MODEL, Entry

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

    def terms(self, components: Sequence[Entry], targets: Mapping[str, Entry]) -> list[CallTerm]:
        """Return what the components' targets (``nodes`` or ``overheads``) take in a forward pass of the model."""
        keys = [targets.get(component["name"], {}).get("key", "") for component in components]
        return [
            CallTerm(key, component["calls"], self.measured.get(key))
            for key, component in zip(keys, components, strict=True)
        ]


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
    blocks = [component for component in tree if component["level"] == "block"]
    levels = {"model": [tree[0]], "layers": [component for component in tree if component["level"] == "layer"]}
    for kind in sorted({block["kind"] for block in blocks}):
        levels[kind] = [block for block in blocks if block["kind"] == kind]
    by_level = {}
    for name, level in levels.items():
        parents = [parent for parent in level if children[parent["name"]]]
        inside = [child for parent in parents for child in children[parent["name"]]]
        if parents and (closure := _closure(sources, parents, inside)):
            by_level[name] = closure
    return by_level


def _closure(sources: Sources, parents: Sequence[Entry], inside: Sequence[Entry]) -> dict[str, Any] | None:
    whole = sources.terms(parents, sources.nodes)
    parts = sources.terms(inside, sources.nodes)
    overhead = sources.terms(parents, sources.overheads)
    with_overhead = total(overhead, "energy") is not None
    if with_overhead:
        parts += overhead
    figures: dict[str, Any] = {}
    for quantity in QUANTITIES:
        figures |= _with_limits(quantity, quotient(total(parts, quantity), total(whole, quantity)))
    if figures["energy"] is None:
        return None
    return {**figures, "with_glue": with_overhead, "state": state(figures, sources.header["execution"])}


def _with_limits(name: str, figure: Total | None) -> dict[str, float | None]:
    if figure is None:
        return dict.fromkeys((name, f"{name}_low", f"{name}_high"))
    return {name: figure.value, f"{name}_low": figure.low, f"{name}_high": figure.high}


def state(closure: Entry, execution: str) -> str:
    """Return whether a closure is ``closed``, ``under-captured``, ``over-captured`` or ``uncertain``.

    Closed is within 3 % of 1 in a CUDA graph, 5 % eager, or an interval that includes 1. Too much is as wrong
    as too little: joules that were counted twice, or replay that takes more energy than the model. A closure whose
    interval reaches more than `WIDEST` to either side is uncertain.
    """
    ratio, low, high = closure["energy"], closure["energy_low"], closure["energy_high"]
    tolerated = abs(ratio - 1) <= TOLERANCE[execution]
    includes_one = low is not None and high is not None and low <= 1 <= high
    if tolerated or includes_one:
        return UNCERTAIN if too_wide(low, high) else CLOSED
    return OVER if ratio > 1 else UNDER


def too_wide(low: float | None, high: float | None) -> bool:
    """Return whether a closure's 95 % interval is too wide to show whether the parts add up."""
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
    model = CallTerm(MODEL, 1.0, sources.measured.get(MODEL))
    by_kind = {}
    for target in sources.header["subjects"]:
        if target["what"] != "without":
            continue
        kind = target["key"].partition(":")[2]
        saved = total([model, CallTerm(target["key"], -1.0, sources.measured.get(target["key"]))], "energy")
        replayed = total(sources.terms(outermost(tree, kind), sources.nodes), "energy")
        if saved is not None:
            by_kind[kind] = {
                "energy_mj": saved.value,
                "low": saved.low,
                "high": saved.high,
                "replayed_mj": replayed.value if replayed else None,
                **_with_limits("ratio", quotient(replayed, saved)),
            }
    return by_kind


def outermost(tree: Sequence[Entry], kind: str) -> list[Entry]:
    """Return a kind's components except those inside another one of the kind, which holds their joules already."""
    by_name = {component["name"]: component for component in tree}

    def inside(component: Entry) -> bool:
        parent = by_name.get(component["parent"] or "")
        return parent is not None and (parent["kind"] == kind or inside(parent))

    return [component for component in tree if component["kind"] == kind and not inside(component)]
