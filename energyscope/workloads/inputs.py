"""What a model is fed: evaluation data in batches, and the one input that is profiled.

Everything is tokenized and on the model's device before it is returned, so that nothing inside a measured
loop touches a tokenizer, a disk or the host's copy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from energyscope.errors import DataError, UsageError
from energyscope.loading import LoadedModel
from energyscope.workloads import datasets
from energyscope.workloads.evaluation import Evaluation, batched, counted_targets, padded, source_order
from energyscope.workloads.texts import Texts, file_texts
from energyscope.workloads.tokenized import class_indices, running_examples, separate_examples
from energyscope.workloads.windows import Example

PROFILE_LENGTH = 128
EVALUATION_LENGTH = 512
EVALUATION_BATCH = 16
LOGITS_BYTES = 2**30
_UNLIMITED = 1 << 20  # positions of a model whose configuration states no maximum


@dataclass(frozen=True)
class Workload:
    """The input that is profiled: ``batch_size`` x ``sequence_length`` tokens, none of them padding.

    ``tokens`` says whether they are text or random ids.
    """

    inputs: Mapping[str, torch.Tensor]
    tokens: Literal["data", "synthetic"]
    batch_size: int
    sequence_length: int


def load_evaluation(  # noqa: PLR0913  each is an option of the command line
    loaded: LoadedModel,
    *,
    data: str | None = None,
    max_examples: int | None = None,
    batch_size: int | None = None,
    sequence_length: int | None = None,
    text_column: str = "text",
    label_column: str = "label",
    stride: int | None = None,
) -> Evaluation:
    """Return evaluation data, tokenized and on the model's device.

    ``data`` is a JSONL, CSV, TSV or text file; without it, the bundled model's held-out data or the adapter's
    data set. Of more than ``max_examples`` examples, evenly spaced ones are taken. Examples are ordered by length,
    to need little padding, and cut at ``sequence_length`` tokens (default 512, or the model's maximum). Without
    ``batch_size`` batches have 16 examples, fewer where the logits of so many would take more than 1 GiB.
    Running text, such as a ``.txt`` file, becomes windows of that many tokens, ``stride`` apart (default: half of
    it), of which only the tokens beyond the window before count as predictions.

    Raises:
        DataError: no data, no tokenizer, broken data, or labels that the model does not have.
        UsageError: there is no such file or column, ``sequence_length`` is beyond the model's positions, or
            ``stride`` beyond that.

    """
    _check_most(max_examples)
    default = min(EVALUATION_LENGTH, position_limit(loaded))
    length = _checked_length(loaded, default if sequence_length is None else sequence_length)
    batch_size = _fitting_batch(loaded, length) if batch_size is None else batch_size
    _check_batch_size(batch_size)
    stride = _checked_stride(stride, length)
    if loaded.tokenizer is None:
        raise DataError(f"{loaded.name} has no tokenizer ({loaded.tokenizer_reason}), so no text can be fed to it")
    texts = _texts(loaded, data, text_column, label_column)
    if loaded.adapter.task == "classification":
        labels = class_indices(loaded, texts)
        examples, notes = separate_examples(loaded.tokenizer, texts, length, labels)
    elif texts.running is not None:
        examples, notes = running_examples(loaded.tokenizer, texts.running, length, stride)
    else:
        examples, notes = separate_examples(loaded.tokenizer, texts, length, None)
    if not examples:
        raise DataError(f"{texts.source} holds no example of two tokens or more: nothing can be predicted")
    return _on_device(loaded, texts, _thinned(examples, max_examples), batch_size, notes)


def profile_inputs(
    loaded: LoadedModel,
    *,
    batch_size: int = 1,
    sequence_length: int | None = None,
    evaluation: Evaluation | None = None,
    seed: int = 0,
) -> Workload:
    """Return exactly ``batch_size`` x ``sequence_length`` tokens on the model's device.

    They are the tokens of the evaluation data in a row (from the start again where there are too few), else
    random ids from ``seed``, special ids left out. The default length is 128, or the model's maximum.

    Raises:
        UsageError: the length is beyond the model's positions, or a size is not positive.

    """
    default = min(PROFILE_LENGTH, position_limit(loaded))
    length = _checked_length(loaded, default if sequence_length is None else sequence_length)
    _check_batch_size(batch_size)
    count = batch_size * length
    ids = _synthetic_ids(loaded, count, seed) if evaluation is None else _data_ids(evaluation, count)
    ids = ids.reshape(batch_size, length).to(loaded.device)
    return Workload(
        inputs={"input_ids": ids, "attention_mask": torch.ones_like(ids)},
        tokens="synthetic" if evaluation is None else "data",
        batch_size=batch_size,
        sequence_length=length,
    )


def position_limit(loaded: LoadedModel) -> int:
    """Return the longest sequence that the model has positions for, in tokens."""
    limit = getattr(_text_config(loaded), "max_position_embeddings", None)
    return int(limit) if limit else _UNLIMITED


def _text_config(loaded: LoadedModel) -> Any:
    config: Any = loaded.model.config
    return config.get_text_config()


def _checked_length(loaded: LoadedModel, length: int) -> int:
    limit = position_limit(loaded)
    if length > limit:
        raise UsageError(f"--sequence-length {length} is too long: {loaded.name} has {limit} positions at most")
    if length < 1:
        raise UsageError(f"--sequence-length {length} is too short: use 1 or more")
    return length


def _fitting_batch(loaded: LoadedModel, length: int) -> int:
    """Return how many examples' logits fit in what is allowed, two at least: resampling needs another one."""
    if loaded.adapter.task == "classification":
        return EVALUATION_BATCH
    needed = 4 * length * int(_text_config(loaded).vocab_size)  # bytes in fp32, as they are compared
    return max(2, min(EVALUATION_BATCH, LOGITS_BYTES // needed))


def _check_batch_size(size: int) -> None:
    if size < 1:
        raise UsageError(f"a batch size of {size} is not possible: use 1 or more")


def _checked_stride(stride: int | None, length: int) -> int:
    if stride is not None and not 1 <= stride <= length:
        raise UsageError(f"--stride {stride} is not possible: use 1 to {length}, the length of the windows")
    return max(1, length // 2) if stride is None else stride


def _check_most(most: int | None) -> None:
    if most is not None and most < 1:
        raise UsageError(f"{most} examples are too few: use 1 or more")


def _texts(loaded: LoadedModel, data: str | None, text_column: str, label_column: str) -> Texts:
    if data is not None:
        return file_texts(Path(data), text_column, label_column)
    if loaded.source.startswith("bundled:"):
        return datasets.bundled_texts(loaded.source.removeprefix("bundled:"))
    if loaded.adapter.dataset is None:
        raise DataError(f"the adapter {loaded.adapter.name!r} names no data set: give a file with --data")
    return datasets.hub_texts(loaded.adapter.dataset)


def _thinned(examples: list[Example], most: int | None) -> list[Example]:
    """Take evenly spaced examples: the first ones of a file that is ordered by class would be all alike."""
    if most is None or len(examples) <= most:
        return examples
    return [examples[index * len(examples) // most] for index in range(most)]


def _on_device(
    loaded: LoadedModel, texts: Texts, examples: list[Example], size: int, notes: tuple[str, ...]
) -> Evaluation:
    groups = batched(examples, size)
    padding = loaded.tokenizer.pad_token_id or 0
    batches = tuple(padded(group, padding, loaded.device) for group in groups)
    task, device = loaded.adapter.task, loaded.device
    labels = None
    if task == "classification":
        labels = tuple(torch.tensor([example.label for example in group], device=device) for group in groups)
    counted = tuple(counted_targets(group, batch) for group, batch in zip(groups, batches, strict=True))
    overlap = any(example.counted_from for example in examples)
    return Evaluation(
        source=texts.source,
        task=task,
        batches=batches,
        labels=labels,
        examples=len(examples),
        counted=counted if overlap else None,
        notes=texts.notes + notes,
        order=source_order(groups),
    )


def _data_ids(evaluation: Evaluation, count: int) -> torch.Tensor:
    """Return the data's tokens in a row, those of overlapping windows once."""
    masks = evaluation.counted or [batch["attention_mask"].bool() for batch in evaluation.batches]
    stream = torch.cat([batch["input_ids"][mask] for batch, mask in zip(evaluation.batches, masks, strict=True)])
    return stream.repeat(-(-count // len(stream)))[:count]


def _synthetic_ids(loaded: LoadedModel, count: int, seed: int) -> torch.Tensor:
    """Return random ids, drawn on the host so that they are the same on every device."""
    vocabulary = torch.arange(_text_config(loaded).vocab_size)
    allowed = vocabulary[~torch.isin(vocabulary, torch.tensor(sorted(_special_ids(loaded)), dtype=torch.long))]
    generator = torch.Generator().manual_seed(seed)
    return allowed[torch.randint(len(allowed), (count,), generator=generator)]


def _special_ids(loaded: LoadedModel) -> set[int]:
    special = set(loaded.tokenizer.all_special_ids) if loaded.tokenizer is not None else set()
    config = _text_config(loaded)
    for name in ("bos_token_id", "eos_token_id", "pad_token_id"):
        value = getattr(config, name, None)
        special.update(value if isinstance(value, list) else [value] if isinstance(value, int) else [])
    return special
