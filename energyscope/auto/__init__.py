"""Adapters for models that no package describes: components found by structure.

structure = structure_map(AutoConfig.from_pretrained(folder))
structure.adapter      what a run uses
structure.kept         its parts, each with the reason
structure.not_called   what was found and left out, since a forward pass does not call it
"""

from energyscope.auto.mapping import StructureMap, structure_map

__all__ = ["StructureMap", "structure_map"]
