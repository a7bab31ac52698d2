"""How efficiently each kind of component works: joules for its FLOPs and bytes, and what sets its pace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from energyscope.reporting import text
from energyscope.runs.intervals import Interval, finite
from energyscope.runs.tree import EnergyTree, Node, sum_column, sum_energy

PICO_PER_MILLI, NANO_PER_MILLI = 1e9, 1e6
US_PER_S = 1e6


@dataclass(frozen=True)
class Efficiency:
    """What work costs. None where the work, the energy or the time is unknown, or where there is no such work.

    ``pj_per_flop`` and ``nj_per_byte`` carry the energy's interval; ``intensity`` is FLOPs per byte.
    """

    pj_per_flop: Interval | None
    nj_per_byte: Interval | None
    flops_per_s: float | None
    bytes_per_s: float | None
    intensity: float | None


@dataclass(frozen=True)
class EfficiencyRow:
    """The model, or all measured leaves of a kind, per forward pass.

    ``flops`` is matrix work, 0 where there is none. ``host_bound`` is the share of the energy in components whose
    pace is set by launching from the host, None where it is not known of all of them.
    """

    kind: str
    count: int
    energy: Interval
    flops: float | None
    bytes: float | None
    efficiency: Efficiency
    host_bound: float | None


def efficiency(
    energy: Interval | None, flops: float | None, moved: float | None, time_us: float | None
) -> Efficiency:
    """Relate energy (mJ) and time (us) to work; ``flops`` 0 has neither a price nor a rate."""
    return Efficiency(
        pj_per_flop=energy.scaled(PICO_PER_MILLI / flops) if energy and flops else None,
        nj_per_byte=energy.scaled(NANO_PER_MILLI / moved) if energy and moved else None,
        flops_per_s=flops / time_us * US_PER_S if flops and time_us else None,
        bytes_per_s=moved / time_us * US_PER_S if moved and time_us else None,
        intensity=flops / moved if flops and moved else None,
    )


def efficiency_rows(tree: EnergyTree) -> list[EfficiencyRow]:
    """Return the model, then the leaves by kind, largest first; nothing where no work was counted."""
    root = [_row("model", [tree.root])] if tree.root else []
    leaves = [node for node in tree.leaves if node.energy is not None]
    kinds = [
        _row(kind, [node for node in leaves if node.kind == kind])
        for kind in dict.fromkeys(node.kind for node in leaves)
    ]
    rows = [row for row in root if row] + sorted((row for row in kinds if row), key=lambda row: -row.energy.value)
    return rows if any(row.flops is not None or row.bytes is not None for row in rows) else []


def _row(kind: str, nodes: list[Node]) -> EfficiencyRow | None:
    energy = sum_energy(nodes)
    if energy is None:
        return None
    flops, moved = sum_column(nodes, "flops"), sum_column(nodes, "bytes")
    work = efficiency(energy, flops, moved, sum_column(nodes, "time_us"))
    return EfficiencyRow(kind, len(nodes), energy, flops, moved, work, _host_bound(nodes))


def _host_bound(nodes: Sequence[Node]) -> float | None:
    paced = [(node.energy.value, node.flag("host_bound")) for node in nodes if node.energy]
    whole = sum(energy for energy, _ in paced)
    if whole <= 0 or any(flag is None for _, flag in paced):
        return None
    return finite(sum(energy for energy, flag in paced if flag) / whole)


def efficiency_sentences(rows: Sequence[EfficiencyRow]) -> list[str]:
    """Name the cheapest and the dearest FLOP among the kinds, and the kinds whose pace the host sets."""
    kinds = [row for row in rows if row.kind != "model"]
    return [*_prices(kinds), *_paces(rows)]


def _prices(kinds: Sequence[EfficiencyRow]) -> list[str]:
    priced = sorted(
        ((row.efficiency.pj_per_flop, row.kind) for row in kinds if row.efficiency.pj_per_flop),
        key=lambda pair: pair[0].value,
    )
    if len(priced) < 2:
        return []
    (least, cheapest), (most, dearest) = priced[0], priced[-1]
    return [
        (
            f"A FLOP of matrix work costs from {text.with_limits(least, 'pJ')} in {cheapest} to "
            f"{text.with_limits(most, 'pJ')} in {dearest}."
        )
    ]


def _paces(rows: Sequence[EfficiencyRow]) -> list[str]:
    paced = [row.kind for row in rows if row.host_bound is not None and row.host_bound >= 0.5]
    if not paced:
        return []
    return [
        (
            f"Launching from the host sets the pace of {text.listed(paced)}: the device waits, and their joules "
            "are partly those of waiting."
        )
    ]
