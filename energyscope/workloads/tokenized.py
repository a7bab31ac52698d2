"""From texts to examples: token ids, windows of running text, and class indices for the labels as written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from energyscope.errors import DataError, UsageError
from energyscope.loading import LoadedModel
from energyscope.reasons import Reason, reason
from energyscope.workloads.evaluation import Example
from energyscope.workloads.texts import Row, Texts

Notes = tuple[Reason, ...]


def running_examples(tokenizer: Any, text: str, length: int, stride: int) -> tuple[list[Example], Notes]:
    """Tokenize a text as one, special tokens as the tokenizer adds them, and cut it into strided windows."""
    examples = strided_windows(_token_ids(tokenizer, [text], None)[0], length, stride)
    if len(examples) < 2:
        return examples, ()
    return examples, (reason("running-text", tokens=length, stride=stride),)


def strided_windows(tokens: Sequence[int], length: int, stride: int) -> list[Example]:
    """Cut a text into windows of ``length`` tokens, ``stride`` apart; the last may be shorter.

    The first window counts in full, each other only the tokens beyond the one before it: every token but the first
    is predicted once, from at least ``length - stride`` tokens where that many come before it. This is how
    perplexities of a model with a fixed context are commonly reported. With ``stride == length`` the windows
    do not overlap, and the first token of each is predicted by none.
    """
    examples: list[Example] = []
    covered = 0
    for start in range(0, len(tokens), stride):
        end = min(start + length, len(tokens))
        context = max(0, covered - start)
        examples.append(Example(tokens[start:end], counted_from=context, index=len(examples)))
        covered = end
        if end == len(tokens):
            break
    return [example for example in examples if example.predictions > 0]


def separate_examples(
    tokenizer: Any, texts: Texts, length: int, labels: Sequence[int] | None, least: int = 1
) -> tuple[list[Example], Notes]:
    """Tokenize each text by itself, cut at ``length`` tokens; return notes of what was cut or left out.

    Texts of fewer tokens than ``least`` are left out.
    """
    token_ids = _token_ids(tokenizer, [row.text for row in texts.rows], length)
    notes = _cut_notes(tokenizer, texts.rows, token_ids, length)
    known: Sequence[int | None] = [None] * len(token_ids) if labels is None else labels
    columns = zip(token_ids, known, texts.rows, strict=True)
    examples = [Example(ids, label, index=row.number - 1) for ids, label, row in columns]
    examples = [example for example in examples if len(example.tokens) >= least]
    if short := len(token_ids) - len(examples):
        notes += (reason("single-token-texts", texts=short, total=len(token_ids)),)
    return examples, notes


def paired_examples(tokenizer: Any, texts: Texts, length: int) -> tuple[list[Example], Notes]:
    """Tokenize texts and what a decoder is to make of them, which the column of the labels holds.

    Both are cut at ``length`` tokens.

    Raises:
        UsageError: the source has columns, but not this one.
        DataError: a row has no target text.

    """
    _check_label_column(texts, "target texts")
    targets = []
    for row in texts.rows:
        if not isinstance(row.label, str) or not row.label.strip():
            where = f"{texts.source}, {texts.unit} {row.number},"
            raise DataError(f"{where} has no target text in column {texts.label_column!r}")
        targets.append(row.label)
    sources = _token_ids(tokenizer, [row.text for row in texts.rows], length)
    wanted = _token_ids(tokenizer, targets, length, target=True)
    notes = _cut_notes(tokenizer, texts.rows, sources, length)
    columns = zip(sources, wanted, texts.rows, strict=True)
    return [Example(ids, index=row.number - 1, target=tokens) for ids, tokens, row in columns if tokens], notes


def _check_label_column(texts: Texts, held: str) -> None:
    if texts.columns and texts.label_column not in texts.columns:
        raise UsageError(
            f"{texts.source} has no column {texts.label_column!r} (it has: {', '.join(texts.columns)}): "
            f"name the column of the {held} with --label-column"
        )


def class_indices(loaded: LoadedModel, texts: Texts) -> list[int]:
    """Return each row's class index. A label may be written as the index or as the model's name for it.

    Raises:
        UsageError: the source has columns, but not this one.
        DataError: a row has no label, or one that the model does not have.

    """
    _check_label_column(texts, "labels")
    config: Any = loaded.model.config  # of one that sees, its language part has other classes
    names = {str(name).lower(): int(index) for name, index in (config.label2id or {}).items()}
    return [_known_class(row, names, config.num_labels, texts, loaded.name) for row in texts.rows]


def _known_class(row: Row, names: Mapping[str, int], classes: int, texts: Texts, model: str) -> int:
    index = _class_index(row.label, names)
    if index is None or not 0 <= index < classes:
        known = ", ".join(f"{index} ({name})" for name, index in names.items()) or f"0 to {classes - 1}"
        label = "no label" if row.label in (None, "") else f"the label {row.label!r}"
        where = f"{texts.source}, {texts.unit} {row.number},"
        raise DataError(f"{where} has {label} in column {texts.label_column!r}: {model} knows {known}")
    return index


def _class_index(label: Any, names: Mapping[str, int]) -> int | None:
    if isinstance(label, str) and label.strip().lower() in names:
        return names[label.strip().lower()]
    try:
        number = float(label)
    except (TypeError, ValueError, OverflowError):
        return None
    return int(number) if number.is_integer() else None


def _token_ids(tokenizer: Any, texts: list[str], length: int | None, *, target: bool = False) -> list[list[int]]:
    given = {"text_target" if target else "text": texts}
    encoded = tokenizer(
        **given, truncation=length is not None, max_length=length, return_attention_mask=False, verbose=False
    )
    ids: list[list[int]] = encoded["input_ids"]
    return ids


def _cut_notes(tokenizer: Any, rows: Sequence[Row], token_ids: Sequence[Sequence[int]], length: int) -> Notes:
    full = [row.text for row, ids in zip(rows, token_ids, strict=True) if len(ids) >= length]
    cut = sum(len(ids) > length for ids in _token_ids(tokenizer, full, None)) if full else 0
    return (reason("cut-texts", texts=cut, total=len(rows), tokens=length),) if cut else ()
