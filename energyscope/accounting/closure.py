"""Closure: do the parts add up to the whole, and does replay agree with the model? Pure functions.

What decides whether a component's share can be relied on is the sum of all leaves and all overhead, since a share
is that of a leaf or a sum of leaves: a level may add up although one below it does not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from energyscope.accounting.measured import CallTerm, Measured, Total, quotient, total
from energyscope.accounting.records import MODEL, Entry
from energyscope.intervals import Interval, serialize
from energyscope.metering.grades import grade
from energyscope.reasons import join

QUANTITIES = ("energy", "time", "static", "dynamic")
TOLERANCE = {"cuda-graph": 0.03, "eager": 0.05}
AGREEMENT = 0.07  # how far replay may be from what the model saves, and a sum from a traced generation
LEAVES = "leaves"  # the level of all leaves and all overhead
LEAVES_LOW, LEAVES_HIGH = 0.95, 1.05  # what they may add up to
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
    """Return (parts + overhead) / whole for the model, the layers, each kind of block with parts, and the leaves.

    Each level holds ``energy``, ``time``, ``static`` and ``dynamic`` with ``*_low`` and ``*_high`` (95 %), and a
    ``state``. Layers and blocks are taken together (sums over all of a kind), which also averages their noise.
    Where overhead was not measured the ratio is children / node, and ``with_glue`` is False. ``leaves`` is the sum
    of all leaves and all overhead over the model; ``decides`` names the quantity that its state is of.
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
        if parents and (closure := _closure(sources, parents, inside, parents)):
            by_level[name] = {**closure, "state": state(closure, sources.header["execution"])}
    leaves, opened = _opened(sources, tree[0], children) or ([], [])
    if opened and (closure := _closure(sources, [tree[0]], leaves, opened)):
        decides = deciding(sources.header["execution"], closure)
        by_level[LEAVES] = {**closure, "decides": decides, "state": leaves_state(_limits(closure, decides))}
    return by_level


def _closure(
    sources: Sources, whole: Sequence[Entry], parts: Sequence[Entry], opened: Sequence[Entry]
) -> dict[str, Any] | None:
    """Return (parts + overhead of those ``opened``) / whole, in every quantity; None if a part is unknown."""
    wholes, terms = sources.terms(whole, sources.nodes), sources.terms(parts, sources.nodes)
    overhead = sources.terms(opened, sources.overheads)
    with_overhead = total(overhead, "energy") is not None
    if with_overhead:
        terms += overhead
    figures: dict[str, Any] = {}
    for quantity in QUANTITIES:
        figures |= _with_limits(quantity, quotient(total(terms, quantity), total(wholes, quantity)))
    return None if figures["energy"] is None else {**figures, "with_glue": with_overhead}


def _opened(
    sources: Sources, component: Entry, children: Mapping[str, Sequence[Entry]]
) -> tuple[list[Entry], list[Entry]] | None:
    """Return the leaves of a component, and which components they are parts of, itself included.

    A component whose parts or overhead were not all measured is a leaf itself; None if it was not measured either.
    """
    name = component["name"]
    inside = [_opened(sources, child, children) for child in children.get(name, ())]
    known = [below for below in inside if below is not None]
    if inside and len(known) == len(inside) and _is_known(sources.overhead_of(name)):
        leaves = [leaf for below, _ in known for leaf in below]
        return leaves, [component, *(parent for _, parents in known for parent in parents)]
    return ([component], []) if _is_known(sources.node(name)) else None


def _is_known(measured: Measured | None) -> bool:
    return measured is not None and measured.energy.mean is not None


def deciding(execution: str, known: Mapping[str, Any]) -> str:
    """Return the quantity by which parts are compared with the model: ``dynamic`` or ``energy``.

    In eager execution the host's pace sets how long the device idles, and it launches a component that is replayed
    alone faster than the model: work (dynamic energy) is compared, where idle power is known. A CUDA graph has no
    such gaps.
    """
    return "dynamic" if execution == "eager" and known.get("dynamic") is not None else "energy"


def leaves_state(share: Interval | None) -> str:
    """Return whether leaves and overhead add up (`CLOSED`), or to too little, too much, or that is `UNCERTAIN`.

    Too little and too much: the 95 % interval lies outside of 95 to 105 %.
    """
    if share is None or share.low is None or share.high is None:
        return UNCERTAIN
    if share.high < LEAVES_LOW or share.low > LEAVES_HIGH:
        return OVER if share.value > 1 else UNDER
    within = LEAVES_LOW <= share.value <= LEAVES_HIGH
    return CLOSED if within and not too_wide(share.low, share.high) else UNCERTAIN


def _limits(figures: Mapping[str, Any], name: str) -> Interval:
    return Interval(figures[name], figures[f"{name}_low"], figures[f"{name}_high"])


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


def differentials(sources: Sources) -> dict[str, Any]:
    """Return, for each kind, what the model saves without it, beside what its components took in replay.

    ``energy_mj`` (with ``low`` and ``high``) is the model less the model with all components of the kind
    bypassed; ``replayed_mj`` their replayed sum; ``ratio`` replayed / differential with its interval: near 1
    where replay is faithful. All per forward pass. ``shares`` holds both as shares of the model, of its ``energy``
    and of its ``dynamic`` energy where that is known. ``quality`` grades what the model saves, with ``reasons``.
    """
    tree: Sequence[Entry] = sources.header["tree"]
    model = CallTerm(MODEL, 1.0, sources.measured.get(MODEL))
    by_kind = {}
    for target in sources.header["subjects"]:
        if target["what"] != "without":
            continue
        kind = target["key"].partition(":")[2]
        without = CallTerm(target["key"], 1.0, sources.measured.get(target["key"]))
        replays = sources.terms(outermost(tree, kind), sources.nodes)
        saved, replayed = _saved(model, without, "energy"), total(replays, "energy")
        if saved is not None:
            shares = {name: _shares(model, without, replays, name) for name in ("energy", "dynamic")}
            decides = deciding(sources.header["execution"], shares)
            quality, reasons = _graded(_saved(model, without, decides), [model, without])
            by_kind[kind] = {
                "energy_mj": saved.value,
                "low": saved.low,
                "high": saved.high,
                "replayed_mj": replayed.value if replayed else None,
                **_with_limits("ratio", quotient(replayed, saved)),
                "shares": shares,
                "quality": quality,
                "reasons": join(reasons),
            }
    return by_kind


def _saved(model: CallTerm, without: CallTerm, quantity: str) -> Total | None:
    return total([model, replace(without, calls=-without.calls)], quantity)


def _shares(
    model: CallTerm, without: CallTerm, replays: Sequence[CallTerm], quantity: str
) -> dict[str, Any] | None:
    """Return what a kind takes in replay, and what the model saves without it, as shares of the model."""
    whole = total([model], quantity)
    rest, replayed = quotient(total([without], quantity), whole), quotient(total(replays, quantity), whole)
    if rest is None:
        return None
    return {
        "replayed": None if replayed is None else serialize(Interval(replayed.value, replayed.low, replayed.high)),
        "saved": serialize(
            Interval(1 - rest.value, *(None if end is None else 1 - end for end in (rest.high, rest.low)))
        ),
    }


def _graded(saved: Total | None, terms: Sequence[CallTerm]) -> tuple[str, list[str]]:
    """Grade what a model saves by the rule of every number, with the fewer windows and all that disturbed them."""
    measured = [term.measured for term in terms if term.measured is not None]
    half = None if saved is None or saved.half is None or not saved.value else saved.half / abs(saved.value)
    guard = [item for one in measured for item in one.guard]
    return grade(half, min(one.energy.windows for one in measured), list(dict.fromkeys(guard)))


def outermost(tree: Sequence[Entry], kind: str) -> list[Entry]:
    """Return a kind's components except those inside another one of the kind, which holds their joules already."""
    by_name = {component["name"]: component for component in tree}

    def inside(component: Entry) -> bool:
        parent = by_name.get(component["parent"] or "")
        return parent is not None and (parent["kind"] == kind or inside(parent))

    return [component for component in tree if component["kind"] == kind and not inside(component)]
