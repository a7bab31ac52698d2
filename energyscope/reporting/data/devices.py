"""The energy on each of several devices, by kind of component."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from energyscope.runs.intervals import finite
from energyscope.runs.tree import EnergyTree, Node


@dataclass(frozen=True)
class DeviceRow:
    """One device: the model's energy on it and that of each leaf kind (mJ per forward pass), None if unknown.

    ``waiting_mj`` is the part of it that the device took while components of other devices ran; None where the
    model is not spread over them. ``place`` is the device as the model knows it, such as ``cuda:1``.
    """

    device: str
    place: str | None
    model_mj: float | None
    waiting_mj: float | None
    kinds: dict[str, float | None]


def devices_title(document: Mapping[str, Any]) -> str:
    """Name the devices that were measured, such as ``"2 \u00d7 NVIDIA H200"``; empty where none is known.

    Of devices that hold nothing of the model a run does not note the name: they are counted only.
    """
    device = document.get("device") or {}
    one, amount = str(device.get("name") or device.get("type") or ""), devices_measured(document)
    names = [str(each.get("name") or each.get("type")) for each in device.get("spread") or []]
    if amount > 1 and len(names) == amount:
        held = Counter(names)
        return " and ".join(f"{held[name]} \u00d7 {name}" if held[name] > 1 else name for name in held)
    return f"{one} and {amount - 1} more" if one and amount > 1 else one


def devices_measured(document: Mapping[str, Any]) -> int:
    """Return on how many devices energy was measured."""
    measured = (document.get("device") or {}).get("measured") or []
    return max(len(measured), len((document.get("sensor") or {}).get("devices") or []), 1)


def together(document: Mapping[str, Any]) -> str:
    """Say of a power that it is of all boards that were measured; empty where it is of one."""
    amount = devices_measured(document)
    return "" if amount < 2 else f"{'both' if amount == 2 else amount} boards together"


def device_rows(tree: EnergyTree, document: Mapping[str, Any]) -> list[DeviceRow]:
    """Return a row for each device of a run on several; nothing for a run on one."""
    names = [str(one.get("device")) for one in (document.get("sensor") or {}).get("devices") or []]
    kinds: dict[str, list[Node]] = {}
    for node in tree.leaves:
        if node.energy is not None:
            kinds.setdefault(node.kind, []).append(node)
    root = [tree.root] if tree.root else []
    spread = (document.get("device") or {}).get("spread") or []
    places = [str(one["place"]) for one in spread] if len(spread) == len(names) else []
    return [
        DeviceRow(
            device=name,
            place=places[index] if places else None,
            model_mj=_on(root, index),
            waiting_mj=_on([one for one in tree.leaves if _elsewhere(one, places[index])], index)
            if places
            else None,
            kinds={kind: _on(of_kind, index) for kind, of_kind in kinds.items()},
        )
        for index, name in enumerate(names)
    ]


def _elsewhere(node: Node, place: str) -> bool:
    """Tell whether a component runs on other devices only."""
    return place not in str(node.row.get("device")).split("+")


def _on(nodes: Sequence[Node], index: int) -> float | None:
    """Add up what the nodes take on one device; None where one of them does not say, since a part is no sum."""
    listed = [str(node.row.get("devices_mj") or "").split(";") for node in nodes]
    values = [finite(parts[index]) if index < len(parts) else None for parts in listed]
    known = [value for value in values if value is not None]
    return sum(known) if values and len(known) == len(values) else None
