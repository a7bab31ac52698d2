"""Evaluation data as given tensors: a safetensors file of what the model's forward takes, by its names."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from energyscope.errors import DataError, UsageError, did_you_mean
from energyscope.failures import first_line
from energyscope.loading import LoadedModel
from energyscope.model_inputs import model_inputs, takes
from energyscope.tasks import rules_of
from energyscope.workloads.evaluation import Evaluation, evenly

ENDING = ".safetensors"
LABELS = "labels"  # classes (N,), or target tokens (N, T)
IGNORED = -100  # a target that does not count, as in transformers


def are_given(data: str | None) -> bool:
    """Tell whether data are tensors that the model is fed as they are."""
    return data is not None and Path(data).suffix.lower() == ENDING


def given_tensors(loaded: LoadedModel, path: Path, size: int, most: int | None) -> Evaluation:
    """Return the tensors of a file, (N, ...) by the names of the forward's arguments, in batches of ``size``.

    ``labels`` among them are what is right, -100 where a token does not count; without them only outputs are
    compared. Of more than ``most`` examples, evenly spaced ones are taken.

    Raises:
        UsageError: a tensor has a name that the model does not take, or one that it needs is missing.
        DataError: the file cannot be read, or its tensors have different numbers of examples.

    """
    tensors = _read(path)
    labels = tensors.pop(LABELS, None)
    _check_names(loaded, path, set(tensors))
    counts = {len(tensor) for tensor in (*tensors.values(), *([] if labels is None else [labels]))}
    if len(counts) != 1 or 0 in counts:
        shapes = ", ".join(f"{name} {tuple(tensor.shape)}" for name, tensor in tensors.items())
        raise DataError(f"{path} must hold as many examples, one or more, in each tensor; it holds {shapes}")
    total = counts.pop()
    kept = evenly(total, most)
    places = [torch.tensor(kept[start : start + size]) for start in range(0, len(kept), size)]
    rules, device = rules_of(loaded.adapter), loaded.device
    known = None if labels is None or loaded.weights == "random" or rules.shifted else labels.long()
    return Evaluation(
        source=str(path),
        task=loaded.adapter.task,
        batches=tuple({name: tensor[place].to(device) for name, tensor in tensors.items()} for place in places),
        labels=None if known is None else tuple(known[place].to(device) for place in places),
        examples=len(kept),
        counted=None
        if known is None or not rules.per_token
        else tuple((known[place] != IGNORED).to(device) for place in places),
        order=tuple(kept),
        adapted=rules,
        as_given=True,
    )


def _read(path: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        tensors = load_file(path)
    except (OSError, SafetensorError) as error:
        raise DataError(f"{path} cannot be read: {first_line(error)}") from error
    if scalars := [name for name, tensor in tensors.items() if not tensor.dim()]:
        raise DataError(f"{path}: {scalars[0]} has no dimension of examples")
    return {name: item.float() if item.is_floating_point() else item.long() for name, item in tensors.items()}


def _check_names(loaded: LoadedModel, path: Path, names: set[str]) -> None:
    if loaded.adapter.inputs is not None:  # the hook makes the forward's arguments of them
        return
    needed = {item.name for item in model_inputs(loaded.model, 1, 1) if item.content != "mask"}
    if missing := sorted(needed - names):
        raise UsageError(f"{path} has no tensor {missing[0]!r}, which {loaded.name} is fed")
    for name in sorted(names):
        if not takes(loaded.model, name):
            meant = did_you_mean(name, needed)
            raise UsageError(f"{path} has a tensor {name!r}, which {loaded.name} does not take{meant}")
