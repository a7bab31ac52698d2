"""What a model's name means: a short name, a bundled model, a folder or a Hugging Face id."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Literal

from energyscope import bundled
from energyscope.adapter_registry import models_without_adapter, other_adapters, own_adapters
from energyscope.adapters import Adapter, Checkpoint
from energyscope.errors import UsageError, did_you_mean


@dataclass(frozen=True)
class ModelSource:
    """Where a model comes from. ``kind`` says which of the optional fields are set.

    A ``checkpoint`` has its configuration, so that it can be built without any file, and the adapter that names
    it (None: it is served like a folder of its model type); a ``folder`` has its path; ``bundled`` and ``hub`` are
    found by ``name`` and by ``source``.
    """

    name: str
    kind: Literal["checkpoint", "bundled", "folder", "hub"]
    source: str
    folder: Path | None = None
    adapter: Adapter | None = None
    checkpoint: Checkpoint | None = None


def model_names() -> dict[str, ModelSource]:
    """Return the names that users may type besides folders and hub ids: bundled ones, then short names."""
    names = _own_names()
    for name, source in _other_names():
        names.setdefault(name, source)
    return names


def named_model(name: str) -> ModelSource | None:
    """Return the model of a short name, None where there is none.

    What other packages have is imported one by one, and only if none of our own has the name.
    """
    own = _own_names().get(name.lower())
    others = (source for known, source in _other_names(name.lower()) if known == name.lower())
    return own or next(others, None)


def _own_names() -> dict[str, ModelSource]:
    names = {name: ModelSource(name, "bundled", f"bundled:{name}") for name in bundled.MODELS}
    return names | dict(_short_names(own_adapters(), models_without_adapter(own=True)))


def _other_names(first: str = "") -> Iterator[tuple[str, ModelSource]]:
    return _short_names(other_adapters(first), models_without_adapter(own=False))


def _short_names(
    adapters: Iterable[Adapter], without: Iterable[tuple[str, Checkpoint]]
) -> Iterator[tuple[str, ModelSource]]:
    with_adapter = ((adapter, *item) for adapter in adapters for item in adapter.checkpoints.items())
    for adapter, name, checkpoint in chain(with_adapter, ((None, *item) for item in without)):
        yield name, ModelSource(name, "checkpoint", checkpoint.hub_id, adapter=adapter, checkpoint=checkpoint)


def find_model(reference: str) -> ModelSource:
    """Return what a model's name means, without reading or downloading anything.

    Raises:
        UsageError: it is no short name, no folder and no Hugging Face id.

    """
    own = _own_names().get(reference.lower())
    if own is not None:
        return own
    folder = Path(reference).expanduser()
    if folder.is_dir():
        return ModelSource(folder.resolve().name, "folder", str(folder), folder=folder.resolve())
    owner, _, name = reference.partition("/")
    if reference.startswith((".", "/", "~")) or "/" in name:
        raise UsageError(f"there is no folder {reference}: give a model folder, a short name or a Hugging Face id")
    if owner and name:
        return ModelSource(name, "hub", reference)
    if other := named_model(reference):
        return other
    raise UsageError(
        f"no model is called {reference!r} (nor is it a folder, or a Hugging Face id like owner/name)"
        f"{did_you_mean(reference.lower(), model_names(), 'energyscope models')}"
    )
