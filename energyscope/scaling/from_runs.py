"""Cells from run directories: each observation that a run measured, as one cell for each subject.

The overhead and what is unexplained have no FLOPs, bytes or time of their own. Their cells carry those of the
whole pass, in which they come about, and no static energy: only a law of energy over FLOPs can be fitted to them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from energyscope.errors import RunError
from energyscope.grouping import group_by
from energyscope.intervals import Interval, difference, finite, is_rounding, total
from energyscope.metering.nvml.limits import Limit
from energyscope.reasons import Reason, reason
from energyscope.runs.method import method_of
from energyscope.runs.tree import EnergyTree, Node, energy_tree, slice_keys, sum_column, sum_energy, sum_intervals
from energyscope.scaling.cells import OVERHEAD, RESIDUAL, UNEXPLAINED, WHOLE, Cell, Observation

if TYPE_CHECKING:
    from energyscope.runs.store import Run


def cells_of(run: Run) -> list[Observation]:
    """Return the cells of each observation that a run measured, in the table's order.

    Rows of quality ``invalid`` take part with their interval. Those without an energy do not, with a reason.

    Raises:
        RunError: the run has no energy table.

    """
    if run.energy is None or run.energy.empty:
        raise RunError(f"{run.name} holds no energies of components: measure with --stages profile")
    return [_observation(run, energy_tree(run.energy, key)) for key in slice_keys(run.energy)]


def board_of(document: Mapping[str, Any]) -> str:
    """Return the identity of a run's device: the UUIDs of its GPUs, else the processor's name."""
    device = document.get("device") or {}
    several = sorted(str(board) for board in device.get("measured") or ())
    return "+".join(several) or str(device.get("uuid") or device.get("name") or "unknown")


def limit_of(document: Mapping[str, Any]) -> str:
    """Return what a run's GPU was held to: a clock that a sweep locked, or a power limit that is no default."""
    clock = (document.get("settings") or {}).get("locked_clock_mhz")
    if clock:
        return str(Limit(clock_mhz=clock))
    device = document.get("device") or {}
    limit, default = (finite(device.get(name)) for name in ("power_limit_w", "default_power_limit_w"))
    return str(Limit(power_w=limit)) if limit is not None and default is not None and limit != default else ""


def _observation(run: Run, tree: EnergyTree) -> Observation:
    kind = attrgetter("kind")
    leaves = group_by(tree.leaves, kind)
    above = group_by((node for node in tree.nodes if node.children and node is not tree.root), kind)
    kinds = {**above, **leaves}  # a kind that is both is that of the components that have none below
    subjects = {kind: _cell(kind, nodes, run) for kind, nodes in kinds.items()}
    subjects[WHOLE] = _whole(tree, run)
    residual = _residual(tree, subjects[WHOLE])
    subjects |= residual
    parts = (*leaves, *(residual or RESIDUAL)) if leaves else ()
    phase, precision, _, batch_size, tokens = tree.key
    cache = tree.nodes[0].row.get("kv_cache")
    return Observation(
        run=run.name,
        model=_model(run),
        phase=str(phase),
        precision=str(precision),
        batch_size=int(str(batch_size)),
        tokens=int(str(tokens)),
        kv_cache=cache if isinstance(cache, str) else None,
        weights=(run.document.get("model") or {}).get("weights"),
        cells={subject: cell for subject, cell in subjects.items() if isinstance(cell, Cell)},
        parts=parts if all(isinstance(subjects.get(part), Cell) for part in (*parts, WHOLE)) else (),
        left_out={subject: why for subject, why in subjects.items() if isinstance(why, Reason)},
        quality=str(tree.root.row.get("quality")) if tree.root else None,
        granularity=(run.document.get("settings") or {}).get("granularity"),
    )


def _whole(tree: EnergyTree, run: Run) -> Cell | Reason:
    """Return the cell of the whole; what grows with its launches, the number of its layers, are its calls."""
    if tree.root is None:
        return reason("whole-not-measured")
    cell = _cell(WHOLE, [tree.root], run)
    layers = (run.document.get("model") or {}).get("layers") or len({node.layer for node in tree.nodes}) - 1
    return cell if isinstance(cell, Reason) else replace(cell, calls=max(1, int(layers)))


def _cell(kind: str, nodes: Sequence[Node], run: Run) -> Cell | Reason:
    """Return the sum over components of one kind, or why there is none."""
    if why := _no_energy(nodes):
        return why
    energy, time = sum_energy(nodes), sum_column(nodes, "time_us")
    flops, moved, calls = (sum_column(nodes, name) for name in ("flops", "bytes", "calls"))
    executed = sum_column(nodes, "executed_flops")
    if energy is None or time is None or calls is None:
        return reason("no-time-or-calls")
    if flops is None or moved is None:
        return reason("no-flops-or-bytes")
    row = nodes[0].row
    try:
        return Cell(
            subject=kind,
            model=_model(run),
            phase=str(row["phase"]),
            precision=str(row["precision"]),
            execution=str(row["execution"]),
            batch_size=int(row["batch_size"]),
            tokens=int(row["context_length"]),
            energy_mj=energy.value,
            energy_low_mj=energy.low,
            energy_high_mj=energy.high,
            time_us=time,
            static_mj=None if run.modelled else sum_column(nodes, "static_mj"),
            flops=flops,
            executed_flops=executed,
            bytes=moved,
            board=board_of(run.document),
            limit=limit_of(run.document),
            calls=round(calls),
            meter=str((run.document.get("sensor") or {}).get("meter", "unknown")),
            method=method_of(run.document, str(row["phase"]), str(row["execution"])),
        )
    except ValueError as error:
        return reason("not-a-cell", error=error)


def _no_energy(nodes: Sequence[Node]) -> Reason | None:
    """Return why there is no sum of the nodes' energies, None where there is one."""
    missing = [node.name for node in nodes if node.energy is None]
    if not missing:
        return None
    return reason("components-without-energy", missing=len(missing), components=len(nodes), component=missing[0])


def _residual(tree: EnergyTree, whole: Cell | Reason) -> dict[str, Cell | Reason]:
    """Return the cells of what no component is: overhead, and what neither components nor overhead explain."""
    if isinstance(whole, Reason) or tree.root is None or not tree.leaves:
        return {}
    inner = [node for node in tree.nodes if node.children]
    unknown = next((node.name for node in inner if node.glue is None), None)
    if unknown is not None:
        return dict.fromkeys(RESIDUAL, reason("overhead-not-measured", component=unknown))
    if why := _no_energy(tree.leaves):
        return dict.fromkeys(RESIDUAL, why)
    overhead = sum_intervals((node, node.glue) for node in inner) or Interval(0.0)
    leaves = sum_energy(tree.leaves) or Interval(0.0)
    energies = {OVERHEAD: overhead, UNEXPLAINED: difference(whole.energy, total([leaves, overhead]))}
    if is_rounding(energies[UNEXPLAINED], whole.energy):  # parts were timed in the model
        del energies[UNEXPLAINED]
    cells: dict[str, Cell | Reason] = {}
    for subject, energy in energies.items():
        try:
            cells[subject] = replace(whole.with_energy(energy), subject=subject, static_mj=None)
        except ValueError as error:
            cells[subject] = reason("not-a-cell", error=error)
    return cells


def _model(run: Run) -> str:
    return str((run.document.get("model") or {}).get("name", run.name))
