"""How the components of a named model are found by structure, whether an adapter serves it or not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from energyscope.loading.files import model_files
from energyscope.loading.options import LoadOptions
from energyscope.loading.sources import find_model

if TYPE_CHECKING:
    from energyscope.auto import StructureMap


def explain_model(reference: str, *, trust_remote_code: bool = False) -> tuple[str, StructureMap]:
    """Return the name of the adapter that a run of a model uses, and what is found by structure in the model.

    Its weights are not needed.

    Raises:
        UsageError: there is no such model.
        ModelError: its files are out of reach, or its components cannot be found by structure.

    """
    import torch

    from energyscope.auto import structure_map

    options = LoadOptions(device=torch.device("cpu"), weights="random", trust_remote_code=trust_remote_code)
    with model_files(find_model(reference), options) as files:
        structure = structure_map(files.config, trust_remote_code=trust_remote_code)
    return files.adapter.name, structure
