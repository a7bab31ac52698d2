"""What a model is fed: evaluation data in batches, and the one input that is profiled.

Everything is tokenized and on the model's device before it is returned, so that nothing inside a measured
loop touches a tokenizer, a disk or the host's copy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from energyscope.adapters import Task
from energyscope.errors import DataError, UsageError
from energyscope.loading import LoadedModel
from energyscope.workloads import datasets
from energyscope.workloads.datasets import Texts

PROFILE_LENGTH = 128
EVALUATION_LENGTH = 512
_UNLIMITED = 1 << 20  # positions of a model whose configuration states no maximum


@dataclass(frozen=True)
class Evaluation:
    """Held-out data as batches of ``input_ids`` and ``attention_mask``, each (B, S) int64, on the device.

    ``labels`` has one tensor (B,) for each batch of a classification task, and is None for next-token
    prediction, where the targets are the tokens themselves. Padding is on the right.
    """

    source: str
    task: Task
    batches: tuple[Mapping[str, torch.Tensor], ...]
    labels: tuple[torch.Tensor, ...] | None
    examples: int


@dataclass(frozen=True)
class Workload:
    """The input that is profiled: ``batch_size`` x ``sequence_length`` tokens, none of them padding.

    ``tokens`` says whether they are text or random ids.
    """

    inputs: Mapping[str, torch.Tensor]
    tokens: Literal["data", "synthetic"]
    batch_size: int
    sequence_length: int


def load_evaluation(
    loaded: LoadedModel,
    *,
    data: str | None = None,
    max_examples: int | None = None,
    batch_size: int = 16,
    sequence_length: int | None = None,
    text_column: str = "text",
    label_column: str = "label",
) -> Evaluation:
    """Return evaluation data, tokenized and on the model's device.

    ``data`` is a JSONL, CSV or text file; without it, the bundled model's held-out data or the adapter's data
    set. Of more than ``max_examples`` examples, evenly spaced ones are taken. Examples are ordered by length,
    to need little padding, and cut at ``sequence_length`` tokens (default 512, or the model's maximum).
    Running text, such as a ``.txt`` file, becomes consecutive examples of that many tokens.

    Raises:
        DataError: no data, no tokenizer, a missing column, or labels that the model does not have.
        UsageError: ``sequence_length`` is beyond the model's positions.

    """
    _check_batch_size(batch_size)
    default = min(EVALUATION_LENGTH, position_limit(loaded))
    length = _checked_length(loaded, default if sequence_length is None else sequence_length)
    if loaded.tokenizer is None:
        raise DataError(f"{loaded.name} has no tokenizer ({loaded.tokenizer_reason}), so no text can be fed to it")
    texts = _texts(loaded, data, text_column, label_column)
    classifies = loaded.adapter.task == "classification"
    if texts.running and not classifies:
        sequences = _blocks(_tokenize(loaded, texts, None), length)
    else:
        sequences = _tokenize(loaded, texts, length)
    labels = _labels(loaded, texts, label_column) if classifies else [0] * len(sequences)
    examples = [pair for pair in zip(sequences, labels, strict=True) if len(pair[0]) > (0 if classifies else 1)]
    if not examples:
        raise DataError(f"{texts.source} holds no example of two tokens or more: nothing can be predicted")
    examples = _thinned(examples, max_examples)
    return _batched(loaded, texts.source, examples, batch_size)


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


def _check_batch_size(size: int) -> None:
    if size < 1:
        raise UsageError(f"a batch size of {size} is not possible: use 1 or more")


def _texts(loaded: LoadedModel, data: str | None, text_column: str, label_column: str) -> Texts:
    if data is not None:
        return datasets.file_texts(Path(data), text_column, label_column)
    if loaded.source.startswith("bundled:"):
        return datasets.bundled_texts(loaded.source.removeprefix("bundled:"))
    if loaded.adapter.dataset is None:
        raise DataError(f"the adapter {loaded.adapter.name!r} names no data set: give a file with --data")
    return datasets.hub_texts(loaded.adapter.dataset)


def _tokenize(loaded: LoadedModel, texts: Texts, length: int | None) -> list[list[int]]:
    """Return each text's token ids, cut at ``length``; running text gets no special tokens between its lines."""
    rows = [text + "\n" if length is None else text for text, _ in texts.rows]
    encoded = loaded.tokenizer(
        rows,
        truncation=length is not None,
        max_length=length,
        add_special_tokens=length is not None,
        return_attention_mask=False,
        verbose=False,
    )
    ids: list[list[int]] = encoded["input_ids"]
    return ids


def _blocks(lines: Sequence[Sequence[int]], length: int) -> list[list[int]]:
    """Join running text and cut it into equal blocks; a shorter rest at the end is left out."""
    stream = [token for line in lines for token in line]
    starts = range(0, max(len(stream) - length, 0) + 1, length)
    return [stream[start : start + length] for start in starts]


def _labels(loaded: LoadedModel, texts: Texts, column: str) -> list[int]:
    """Return each row's class index. A label may be written as the index or as the model's name for it."""
    config = _text_config(loaded)
    names = {str(name).lower(): int(index) for name, index in (config.label2id or {}).items()}
    found = []
    for row, (_, label) in enumerate(texts.rows, start=1):
        index = _class_index(label, names)
        if index is None or not 0 <= index < config.num_labels:
            known = ", ".join(f"{index} ({name})" for name, index in names.items())
            said = "no label" if label is None else f"the label {label!r}"
            raise DataError(
                f"{texts.source}, example {row}, has {said} in column {column!r}: {loaded.name} knows {known}"
            )
        found.append(index)
    return found


def _class_index(label: Any, names: Mapping[str, int]) -> int | None:
    if isinstance(label, str) and label.strip().lower() in names:
        return names[label.strip().lower()]
    try:
        number = float(label)
    except (TypeError, ValueError):
        return None
    return int(number) if number.is_integer() else None


def _thinned(examples: list[tuple[list[int], int]], most: int | None) -> list[tuple[list[int], int]]:
    """Take evenly spaced examples: the first ones of a file that is ordered by class would be all alike."""
    if most is None or len(examples) <= most:
        return examples
    if most < 1:
        raise UsageError(f"{most} examples are too few: use 1 or more")
    return [examples[index * len(examples) // most] for index in range(most)]


def _batched(loaded: LoadedModel, source: str, examples: list[tuple[list[int], int]], size: int) -> Evaluation:
    ordered = sorted(examples, key=lambda example: len(example[0]))  # stable, hence the same every time
    groups = [ordered[start : start + size] for start in range(0, len(ordered), size)]
    padding = loaded.tokenizer.pad_token_id or 0
    batches = tuple(_padded([ids for ids, _ in group], padding, loaded.device) for group in groups)
    labels = tuple(torch.tensor([label for _, label in group], device=loaded.device) for group in groups)
    classifies = loaded.adapter.task == "classification"
    return Evaluation(source, loaded.adapter.task, batches, labels if classifies else None, len(ordered))


def _padded(sequences: list[list[int]], padding: int, device: torch.device) -> dict[str, torch.Tensor]:
    width = max(len(ids) for ids in sequences)
    ids = torch.tensor([ids + [padding] * (width - len(ids)) for ids in sequences])
    mask = torch.tensor([[1] * len(ids) + [0] * (width - len(ids)) for ids in sequences])
    return {"input_ids": ids.to(device), "attention_mask": mask.to(device)}


def _data_ids(evaluation: Evaluation, count: int) -> torch.Tensor:
    valid = [batch["input_ids"][batch["attention_mask"].bool()] for batch in evaluation.batches]
    stream = torch.cat(valid)
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
