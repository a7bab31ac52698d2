"""The components of each phase as weighted stacks, from the model down: what flame graphs are drawn of.

A weight is what a component takes by itself, in microjoules of one pass (decode: of one step):

    model; layers.0; mlp; up            a component without parts, by its name in the one above: its energy
    model; layers.0; mlp; [overhead]    what a component does beside its parts, measured by itself
    model; layers.0; mlp; [unexplained] the component, less its parts, less that overhead

Weights cannot be negative. Where the parts take more than the whole, the remainder is left out, and a note says
by how much the phase then exceeds what was measured.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from energyscope import format as fmt
from energyscope.exporting import nothing
from energyscope.intervals import Interval, is_rounding
from energyscope.reporting.run.report import MeasuredWorkload, Report
from energyscope.reporting.terminal_text import printable

if TYPE_CHECKING:
    from energyscope.runs.store import Run
    from energyscope.runs.tree import Node

OVERHEAD, UNEXPLAINED = "[overhead]", "[unexplained]"
UNSPLIT = "[overhead and unexplained]"  # where overhead was not measured
UNKNOWN = "[parts without a value, overhead and unexplained]"
UJ_PER_MJ = 1e3

Stack = tuple[tuple[str, ...], float]  # the names from the model down, and microjoules


@dataclass(frozen=True)
class Phase:
    """A phase's name, its stacks, and a sentence on what is not in them (None: nothing)."""

    name: str
    stacks: list[Stack]
    note: str | None


def phases(run: Run) -> list[Phase]:
    """Return the phases of a run that have an energy, the costliest first.

    Raises:
        RunError: there is none.

    """
    found = [_phase(workload, modelled=run.modelled) for workload in Report(run).every_workload]
    found = [phase for phase in found if phase.stacks]
    if not found:
        raise nothing(run, "energy of components")
    return found


def _phase(workload: MeasuredWorkload, *, modelled: bool) -> Phase:
    tree = workload.tree
    names = {node.name for node in tree.nodes}
    stacks = [stack for node in tree.nodes if node.parent not in names for stack in _descend(node, ())]
    left_out = [weight for _, weight in stacks if weight < 0]
    name = f"{workload.name} {workload.execution}{' MODELLED' if modelled else ''}"
    note = None
    if left_out:
        whole = sum(weight for _, weight in stacks)
        share = f" ({fmt.quantity(-sum(left_out) / whole, 'share')} of it)" if whole > 0 else ""
        size = fmt.quantity(-sum(left_out) / UJ_PER_MJ, "mJ")
        remainders = fmt.count(len(left_out), "remainder")
        note = f"{remainders} below 0 left out, so all adds up to {size}{share} more than was measured"
    return Phase(printable(name), [stack for stack in stacks if stack[1] > 0], note)


def _descend(node: Node, above: tuple[str, ...]) -> Iterator[Stack]:
    """Yield the stacks of a node and what is below it; those of unknown energy are left out."""
    path = (*above, printable(node.name.removeprefix(f"{node.parent}.")))
    for child in node.children:
        yield from _descend(child, path)
    if node.energy is None:
        return
    if not node.children:
        yield path, node.energy.value * UJ_PER_MJ
        return
    parts = [child.energy.value for child in node.children if child.energy is not None]
    overhead = node.glue.value if node.glue else 0.0
    label = UNKNOWN if len(parts) < len(node.children) else UNEXPLAINED if node.glue else UNSPLIT
    yield (*path, OVERHEAD), overhead * UJ_PER_MJ
    rest = Interval(node.energy.value - sum(parts) - overhead)
    if not is_rounding(rest, node.energy):
        yield (*path, label), rest.value * UJ_PER_MJ
