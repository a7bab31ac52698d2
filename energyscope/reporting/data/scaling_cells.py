"""Which cells of a document of laws are a run's own, as it is now."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from energyscope.reporting.laws import names
from energyscope.reporting.laws.document import WHOLE, Found, item, whole_of
from energyscope.runs.laws import is_of_run
from energyscope.runs.tree import SLICE_COLUMNS, EnergyTree, energy_tree, slice_keys

if TYPE_CHECKING:
    from energyscope.runs.laws import NamingLaws
    from energyscope.runs.store import Run

_SAME = 1e-6  # relative, of one energy in two files
_ANOTHER = (
    "but not with the energy of the whole model that it has now: these laws are of another state of it, and not "
    "shown. Made again with energyscope laws, they would be"
)


@dataclass(frozen=True)
class OwnCell:
    """A cell of a run in a group of laws: its shape, and which of ``among`` cells of that shape it is.

    ``weak`` holds for each kind how many of its components are below grade C, and how many it has.
    """

    batch_size: int
    tokens: int
    rank: int
    among: int
    weak: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def invalid(self) -> bool:
        """Whether the whole model's energy is below grade C."""
        return self.below(WHOLE)[0] > 0

    def below(self, subject: object) -> tuple[int, int]:
        """Return how many of a subject's components are below grade C, and how many there are; 0 where unknown."""
        return self.weak.get(str(subject), (0, 0))

    def point_in(self, subject: Found) -> int | None:
        """Return the index of its point of a subject; None where there is none, or it is not told from others."""
        alike = _of_shape(subject, self.batch_size, self.tokens)
        return alike[self.rank] if len(alike) == self.among else None

    def name(self, group: Found) -> str:
        """Return its shape in words."""
        return names.shape_name({"batch_size": self.batch_size, "tokens": self.tokens}, group.get("phase"))


@dataclass(frozen=True)
class OwnGroup:
    """A group of laws with the cells in it that are the run's."""

    group: Found
    cells: list[OwnCell]


def own_groups(named: NamingLaws, run: Run) -> list[OwnGroup]:
    """Return the groups that hold the run with the energy of the whole model that it has now.

    Laws of a run that was measured again since, or whose whole model they do not know, are not laws of it.
    """
    trees, place = _trees(run), run.path.resolve()
    found = []
    for group in named.document["groups"]:
        key = _key(group)
        shapes = [_shape(cell) for cell in group["cells"] if is_of_run(cell, named.folder, place)]
        cells = [
            cell for shape in dict.fromkeys(shapes) if (cell := _own(group, shape, trees.get((*key, *shape))))
        ]
        found += [OwnGroup(group, cells)] if cells else []
    return found


def why_none(named: NamingLaws, run: Run) -> str:
    """Say why laws that name a run hold none of its cells, as the end of a sentence on it."""
    energies = {key: tree.model_energy for key, tree in _trees(run).items()}
    if not any(energies.values()):
        return "but has no energy of the whole model, by which its cells would be found there"
    place = run.path.resolve()
    mine = [
        (group, (*_key(group), *_shape(cell)))
        for group in named.document["groups"]
        for cell in group["cells"]
        if is_of_run(cell, named.folder, place)
    ]
    if not mine:
        return "but no law there joins it"
    if all(whole_of(group) is None for group, _ in mine):
        return "but these laws have no whole model, by whose energy its cells would be found there"
    if not any(energies.get(key) for _, key in mine):
        return "but of a moment of whose whole model it has no energy"
    return _ANOTHER


def invalid_cells(document: Found, group: Found) -> list[Found]:
    """Return the cells of a group whose whole model is graded invalid."""
    bad = {
        (one.get("path"), one.get("batch_size"), one.get("tokens"))
        for one in document.get("sources") or ()
        if one.get("quality") == "invalid" and all(one.get(name) == group.get(name) for name in names.FIELDS)
    }
    return [one for one in group["cells"] if (one.get("path"), *_shape(one)) in bad]


def _key(group: Found) -> tuple[str, ...]:
    return tuple(str(group.get(name)) for name in SLICE_COLUMNS[:3])


def _shape(cell: Found) -> tuple[int, int]:
    return int(cell["batch_size"]), int(cell["tokens"])


def _trees(run: Run) -> dict[tuple[object, ...], EnergyTree]:
    """Return what was measured in each moment of the run."""
    if run.energy is None:
        return {}
    trees = [energy_tree(run.energy, key) for key in slice_keys(run.energy)]
    return {(*map(str, tree.key[:3]), *(int(str(one)) for one in tree.key[3:])): tree for tree in trees}


def _own(group: Found, shape: tuple[int, int], tree: EnergyTree | None) -> OwnCell | None:
    whole, energy = whole_of(group), tree.model_energy if tree else None
    if whole is None or energy is None or tree is None:
        return None
    alike = _of_shape(whole, *shape)
    for rank, index in enumerate(alike):
        known = item(whole["points"][index].get("energy_mj"))
        if known and math.isclose(known.value, energy.value, rel_tol=_SAME):
            return OwnCell(*shape, rank, len(alike), _weak(tree))
    return None


def _weak(tree: EnergyTree) -> dict[str, tuple[int, int]]:
    """Count the components below grade C of each kind; a kind that is both is told of what has nothing below."""
    kinds: dict[str, list[bool]] = {}
    leaves = {node.kind for node in tree.leaves}
    for node in tree.nodes:
        if node is tree.root or not (node.children and node.kind in leaves):
            kinds.setdefault(WHOLE if node is tree.root else node.kind, []).append(node.invalid)
    return {kind: (sum(found), len(found)) for kind, found in kinds.items()}


def _of_shape(subject: Found, batch_size: int, tokens: int) -> Sequence[int]:
    return [
        index
        for index, point in enumerate(subject.get("points") or ())
        if (point["batch_size"], point["tokens"]) == (batch_size, tokens)
    ]
