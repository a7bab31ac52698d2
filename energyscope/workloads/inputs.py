"""Evaluation data for a model, tokenized and in batches.

Everything is on the model's device before it is returned, so that nothing inside a measured loop touches a
tokenizer, a disk or a copy on the host.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from energyscope.errors import DataError, UsageError
from energyscope.loading import LoadedModel
from energyscope.model_inputs import main_input
from energyscope.reasons import words
from energyscope.tasks import rules_of
from energyscope.workloads import datasets
from energyscope.workloads.batches import on_device
from energyscope.workloads.evaluation import Evaluation, Tokenized, evenly
from energyscope.workloads.given import are_given, given_tensors
from energyscope.workloads.images import folder_images, holds_images
from energyscope.workloads.layouts import data_files
from energyscope.workloads.limits import (
    check_batch_size,
    check_length,
    position_limit,
    vocabulary_size,
)
from energyscope.workloads.prepared import is_prepared, read_prepared
from energyscope.workloads.texts import DEFAULT_TEXT_COLUMN, Texts, file_texts
from energyscope.workloads.timed import default_length, input_batches
from energyscope.workloads.tokenized import class_indices, paired_examples, running_examples, separate_examples

COLUMNS = (DEFAULT_TEXT_COLUMN, "label")  # where none are named
EVALUATION_LENGTH = 512
EVALUATION_BATCH = 16
LOGITS_BYTES = 2**30


def load_evaluation(  # noqa: PLR0913  each is an option of the command line
    loaded: LoadedModel,
    *,
    data: str | None = None,
    max_examples: int | None = None,
    batch_size: int | None = None,
    sequence_length: int | None = None,
    text_column: str = DEFAULT_TEXT_COLUMN,
    label_column: str = "label",
    stride: int | None = None,
) -> Evaluation:
    """Return evaluation data, tokenized and on the model's device.

    ``data`` is a JSONL, CSV, TSV, Parquet or text file, a folder with a data set (see
    `energyscope.workloads.layouts`), a prepared set, which is not tokenized again, a folder of images
    (`energyscope.workloads.images`) or a safetensors file of given inputs (`energyscope.workloads.given`);
    without it, the bundled model's held-out data or the adapter's data set. Of more than ``max_examples``
    examples, evenly spaced ones are taken. Examples are ordered by length, to need little padding, and cut at
    ``sequence_length`` tokens (default 512, or the model's maximum). Without ``batch_size`` batches have 16
    examples, fewer where the logits of so many would take more than 1 GiB. Running text, such as a ``.txt``
    file, becomes windows of that many tokens, ``stride`` apart (default: half of it), of which only the tokens
    beyond the window before count as predictions.

    Raises:
        DataError: no data, no tokenizer, broken data, labels that the model does not have, or a set that was
            prepared for another model.
        UsageError: there is no such file or column, ``sequence_length`` is beyond the model's positions,
            ``stride`` beyond that or for single texts, or a prepared set has others.

    """
    if max_examples is not None and max_examples < 1:
        raise UsageError(f"{max_examples} examples are too few: use 1 or more")
    default = min(EVALUATION_LENGTH, position_limit(loaded))
    length = check_length(loaded, default if sequence_length is None else sequence_length)
    if batch_size is not None:
        check_batch_size(batch_size)
    untokenized = data is not None and (are_given(data) or _are_images(loaded, Path(data)))
    if untokenized and (stride is not None or (text_column, label_column) != COLUMNS):
        raise UsageError(f"{data} holds no texts: leave out --stride, --text-column and --label-column")
    if data is not None and are_given(data):
        return given_tensors(loaded, Path(data), batch_size or EVALUATION_BATCH, max_examples)
    if data is not None and untokenized:
        return on_device(folder_images(loaded, Path(data), max_examples), batch_size or EVALUATION_BATCH, loaded)
    if data is not None and is_prepared(Path(data)):
        if (text_column, label_column) != COLUMNS:
            raise UsageError(
                f"{data} is a prepared set, without columns: leave out --text-column and --label-column"
            )
        tokenized = read_prepared(loaded, Path(data), sequence_length=sequence_length, stride=stride)
    else:
        _checked_stride(stride, length)
        columns = (text_column, label_column)
        tokenized = _tokenized(loaded, data, columns, length, stride)
    if stride is not None and tokenized.stride is None:
        raise UsageError(f"--stride is for running text, and {tokenized.source} holds single texts: leave it out")
    sample = replace(
        tokenized, examples=[tokenized.examples[at] for at in evenly(len(tokenized.examples), max_examples)]
    )
    size = _fitting_batch(loaded, tokenized.sequence_length or length) if batch_size is None else batch_size
    return on_device(sample, size, loaded)


def synthetic_evaluation(loaded: LoadedModel, *, examples: int, seed: int = 0) -> Evaluation:
    """Return random tokens as data for a model whose weights are random: only outputs can be compared on them."""
    size = min(8, max(1, examples // 2), _fitting_batch(loaded, default_length(loaded)))
    batches = input_batches(loaded, size, None, None, seed + 1, -(-examples // size))
    return Evaluation(
        source="random tokens",
        task=loaded.adapter.task,
        batches=tuple(batches),
        labels=None,
        examples=size * len(batches),
        sequence_length=default_length(loaded),
        adapted=rules_of(loaded.adapter),
    )


def check_folder(folder: Path) -> None:
    """Refuse a folder that holds no data, before a model is loaded.

    Raises:
        UsageError: it holds neither a prepared set nor a data set nor images.

    """
    if not is_prepared(folder) and not holds_images(folder):
        data_files(folder)


def _are_images(loaded: LoadedModel, path: Path) -> bool:
    return main_input(loaded.model) == "pixel_values" and not is_prepared(path) and holds_images(path)


def _tokenized(
    loaded: LoadedModel, data: str | None, columns: tuple[str, str], length: int, stride: int | None
) -> Tokenized:
    if loaded.tokenizer is None:
        why = words(loaded.tokenizer_reason)
        raise DataError(f"{loaded.name} has no tokenizer ({why}), so no text can be fed to it")
    if main_input(loaded.model) != "input_ids":
        raise DataError(f"{loaded.name} reads no text: its data are images or sound, not {data or 'a data set'}")
    texts = _texts(loaded, data, *columns)
    task, running = loaded.adapter.task, None
    least = 2 if rules_of(loaded.adapter).per_token else 1
    if task in {"next-token", "masked-token"} and texts.running is not None:
        if stride is not None and task == "masked-token":
            raise UsageError("--stride is for the next token: masked tokens see both sides; leave it out")
        running = _checked_stride(stride, length) if task == "next-token" else length
        examples, notes = running_examples(loaded.tokenizer, texts.running, length, running)
    elif task == "sequence-to-sequence":
        # one less: an encoder and a decoder get different lengths (`energyscope.workloads.batches`)
        examples, notes = paired_examples(loaded.tokenizer, texts, min(length, position_limit(loaded) - 1))
    else:
        labels = class_indices(loaded, texts) if task == "classification" else None
        examples, notes = separate_examples(loaded.tokenizer, texts, length, labels, least)
    if not examples:
        size = "two tokens" if least > 1 else "a token"
        raise DataError(f"{texts.source} holds no example of {size} or more: nothing can be predicted")
    return Tokenized(texts.source, task, examples, texts.notes + notes, length, running)


def _fitting_batch(loaded: LoadedModel, length: int) -> int:
    """Return how many examples' logits fit in what is allowed, two at least: resampling needs another one."""
    if not rules_of(loaded.adapter).per_token:
        return EVALUATION_BATCH
    needed = 4 * length * vocabulary_size(loaded)  # bytes in fp32, as they are compared
    return max(2, min(EVALUATION_BATCH, LOGITS_BYTES // needed))


def _checked_stride(stride: int | None, length: int) -> int:
    if stride is not None and not 1 <= stride <= length:
        raise UsageError(f"--stride {stride} is not possible: use 1 to {length}, the length of the windows")
    return max(1, length // 2) if stride is None else stride


def _texts(loaded: LoadedModel, data: str | None, text_column: str, label_column: str) -> Texts:
    if data is not None:
        path = Path(data)
        if path.is_dir():
            return datasets.folder_texts(path, loaded.adapter.task, text_column, label_column)
        return file_texts(path, text_column, label_column)
    if loaded.source.startswith("bundled:"):
        return datasets.bundled_texts(loaded.source.removeprefix("bundled:"))
    if loaded.adapter.dataset is None:
        raise DataError(f"the adapter {loaded.adapter.name!r} names no data set: give a file with --data")
    return datasets.hub_texts(loaded.adapter.dataset)
