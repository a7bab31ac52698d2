"""Evaluation data as given tensors: a safetensors file of what the model's forward takes, by its names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from energyscope.errors import DataError, UsageError, did_you_mean
from energyscope.failures import first_line
from energyscope.loading import LoadedModel
from energyscope.model_inputs import model_inputs, takes
from energyscope.tasks import padding_masks, rules_of
from energyscope.workloads.evaluation import Evaluation, evenly
from energyscope.workloads.limits import position_limit, vocabulary_size

ENDING = ".safetensors"
LABELS = "labels"  # classes (N,), or target tokens (N, T)
IGNORED = -100  # a target that does not count, as in transformers


def are_given(data: str | None) -> bool:
    """Tell whether data are tensors that the model is fed as they are."""
    return data is not None and Path(data).suffix.lower() == ENDING


def given_examples(path: Path) -> int:
    """Return how many examples a file of tensors holds, without reading them.

    Raises:
        DataError: the file cannot be read.

    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            return int(file.get_slice(next(iter(file.keys()))).get_shape()[0])
    except (OSError, SafetensorError, StopIteration, IndexError) as error:
        raise DataError(f"{path} cannot be read: {first_line(error)}") from error


def given_tensors(loaded: LoadedModel, path: Path, size: int, most: int | None) -> Evaluation:
    """Return the tensors of a file, (N, ...) by the names of the forward's arguments, in batches of ``size``.

    ``labels`` among them are what is right, integers, -100 where a token does not count (of the next token, only
    that matters); without them only outputs are compared. Of more than ``most`` examples, evenly spaced ones are
    taken.

    Raises:
        UsageError: a tensor has a name that the model does not take, one that it needs is missing, or examples are
            longer than its positions.
        DataError: the file cannot be read, its tensors have different numbers of examples, labels have another
            shape or type than the task's, or token ids lie outside the vocabulary.

    """
    tensors = _read(path)
    _check_names(loaded, path, set(tensors) - {LABELS})
    counts = {len(tensor) for tensor in tensors.values()}
    if len(counts) != 1 or 0 in counts:
        shapes = ", ".join(f"{name} {tuple(tensor.shape)}" for name, tensor in tensors.items())
        raise DataError(f"{path} must hold as many examples, one or more, in each tensor; it holds {shapes}")
    labels = tensors.pop(LABELS, None)
    _check_tokens(loaded, path, tensors)
    rules, device = rules_of(loaded.adapter), loaded.device
    if labels is not None:
        _check_labels(path, labels, tensors, per_token=rules.per_token)
    kept = evenly(counts.pop(), most)
    groups = [kept[start : start + size] for start in range(0, len(kept), size)]
    if size > 1 and len(groups) > 1 and len(groups[-1]) == 1:  # resampling needs another example
        groups[-2:] = [groups[-2] + groups[-1]]
    places = [torch.tensor(group) for group in groups]
    known = None if loaded.weights == "random" else labels
    targets = None if known is None or rules.shifted else tuple(known[place].to(device) for place in places)
    counted = None
    if known is not None and rules.per_token:
        counted = tuple((known[place] != IGNORED).to(device) for place in places)
    return Evaluation(
        source=str(path),
        task=loaded.adapter.task,
        batches=tuple({name: tensor[place].to(device) for name, tensor in tensors.items()} for place in places),
        labels=targets,
        examples=len(kept),
        counted=counted,
        order=tuple(kept),
        adapted=rules,
        as_given=True,
    )


def _check_tokens(loaded: LoadedModel, path: Path, tensors: Mapping[str, Tensor]) -> None:
    for name in ("input_ids", "decoder_input_ids"):
        ids = tensors.get(name)
        if ids is None:
            continue
        if ids.dim() != 2 or ids.is_floating_point():
            raise DataError(f"{path}: {name} must be whole numbers (N, S), and is {tuple(ids.shape)} {ids.dtype}")
        if ids.shape[1] > position_limit(loaded):
            raise UsageError(
                f"{path}: {name} has {ids.shape[1]} tokens, and {loaded.name} {position_limit(loaded)} positions"
            )
        if int(ids.min()) < 0 or int(ids.max()) >= vocabulary_size(loaded):
            raise DataError(f"{path}: {name} holds ids outside the {vocabulary_size(loaded)} of {loaded.name}")
    ids, decoder, masks = tensors.get("input_ids"), tensors.get("decoder_input_ids"), padding_masks(tensors)
    if ids is not None and decoder is not None and ids.shape == decoder.shape and not all(map(torch.all, masks)):
        raise DataError(
            f"{path}: encoder and decoder are padded to one length, and whose padding a tensor has must show "
            "in its shape: make one of them longer"
        )


def _check_labels(path: Path, labels: Tensor, tensors: Mapping[str, Tensor], *, per_token: bool) -> None:
    ids = tensors.get("decoder_input_ids", tensors.get("input_ids"))
    wanted = tuple(ids.shape) if per_token and ids is not None else (len(labels),)
    if tuple(labels.shape) != wanted or labels.is_floating_point():
        raise DataError(
            f"{path}: labels must be whole numbers {wanted}, and are {tuple(labels.shape)} {labels.dtype}"
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
