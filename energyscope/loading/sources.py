"""What a model's name means: a short name, a bundled model, a folder or a Hugging Face id."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from energyscope import bundled
from energyscope.adapters import Adapter, Checkpoint, all_adapters
from energyscope.errors import ModelError, UsageError, did_you_mean


@dataclass(frozen=True)
class ModelSource:
    """Where a model comes from. ``kind`` says which of the optional fields are set.

    A ``checkpoint`` has its adapter and its configuration, so that it can be built without any file;
    a ``folder`` has its path; ``bundled`` and ``hub`` are found by ``name`` and by ``source``.
    """

    name: str
    kind: Literal["checkpoint", "bundled", "folder", "hub"]
    source: str
    folder: Path | None = None
    adapter: Adapter | None = None
    checkpoint: Checkpoint | None = None


def model_names() -> dict[str, ModelSource]:
    """Return the names that users may type besides folders and hub ids: bundled ones, then short names.

    Raises:
        ModelError: two adapters, or an adapter and a bundled model, use the same short name.

    """
    names = {name: ModelSource(name, "bundled", f"bundled:{name}") for name in bundled.MODELS}
    for adapter in all_adapters():
        for name, checkpoint in adapter.checkpoints.items():
            if name in names:
                raise ModelError(
                    f"the model name {name!r} of the adapter {adapter.name!r} is taken: uninstall one"
                )
            names[name] = ModelSource(
                name, "checkpoint", checkpoint.hub_id, adapter=adapter, checkpoint=checkpoint
            )
    return names


def find_model(reference: str) -> ModelSource:
    """Return what a model's name means, without reading or downloading anything.

    Raises:
        UsageError: it is no short name, no folder and no Hugging Face id.

    """
    names = model_names()
    if reference.lower() in names:
        return names[reference.lower()]
    folder = Path(reference).expanduser()
    if folder.is_dir():
        return ModelSource(folder.resolve().name, "folder", str(folder), folder=folder.resolve())
    owner, _, name = reference.partition("/")
    if reference.startswith((".", "/", "~")) or "/" in name:
        raise UsageError(f"there is no folder {reference}: give a model folder, a short name or a Hugging Face id")
    if owner and name:
        return ModelSource(name, "hub", reference)
    raise UsageError(
        f"no model is called {reference!r} (nor is it a folder, or a Hugging Face id like owner/name)"
        f"{did_you_mean(reference.lower(), list(names))}"
    )
