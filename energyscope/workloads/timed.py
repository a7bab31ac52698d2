"""The inputs that are timed: batches of tokens without padding, on the device before anything is timed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch

from energyscope.errors import UsageError
from energyscope.loading import LoadedModel
from energyscope.model_inputs import Input, model_inputs, reads_tokens
from energyscope.tasks import batch_rows, fed, padding_masks, rules_of
from energyscope.workloads.evaluation import Evaluation
from energyscope.workloads.limits import check_batch_size, check_length, position_limit, text_config

PROFILE_LENGTH = 128


@dataclass(frozen=True)
class Workload:
    """The input that is profiled: ``batch_size`` x ``sequence_length`` tokens, none of them padding.

    A decoder beside an encoder reads ``decoder_length`` tokens more of each example; an image or sound has no
    tokens, and a length of 0. ``tokens`` says whether they are text or random ids. A decode step has one token
    of each sequence, on a KV cache of ``context_length`` tokens; ``kv_cache`` is None where there is no cache.
    """

    inputs: Mapping[str, Any]
    tokens: Literal["data", "synthetic"]
    batch_size: int
    sequence_length: int
    phase: Literal["prefill", "decode"] = "prefill"
    context_length: int | None = None
    kv_cache: Literal["dynamic", "static"] | None = None
    decoder_length: int = 0

    @property
    def length(self) -> int:
        """The tokens of each example that a length chooses: those read, or else a decoder's; 0 of images."""
        return self.sequence_length or self.decoder_length

    @property
    def tokens_of_pass(self) -> int:
        """The tokens of a pass, a decoder's among them."""
        return self.batch_size * (self.sequence_length + self.decoder_length)

    @property
    def context(self) -> int | None:
        """The tokens that attention sees: those in the cache of a decode step, those that come in of a prefill.

        None of an image or sound, whose positions are no tokens.
        """
        return (self.sequence_length or None) if self.context_length is None else self.context_length


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
    return benchmark_inputs(
        loaded,
        batch_size=batch_size,
        sequence_length=sequence_length,
        evaluation=evaluation,
        seed=seed,
        count=1,
    )[0]


def benchmark_inputs(
    loaded: LoadedModel,
    *,
    batch_size: int,
    sequence_length: int | None = None,
    evaluation: Evaluation | None = None,
    seed: int = 0,
    count: int = 8,
) -> tuple[Workload, ...]:
    """Return up to ``count`` batches of exactly ``batch_size`` x ``sequence_length`` tokens on the model's device.

    They follow each other in the evaluation data's tokens, each token once: where these are enough for fewer
    batches, there are fewer, and one that starts again where they are too few even for that. Without data, the ids
    are random. The first is that of `profile_inputs`.

    Raises:
        UsageError: the length is beyond the model's positions, or a size is not positive.

    """
    check_batch_size(batch_size)
    if count < 1:
        raise UsageError(f"{count} batches are too few: use 1 or more")
    if evaluation is not None and evaluation.as_given:
        return _given(loaded, evaluation, batch_size, sequence_length, count)
    batches = input_batches(loaded, batch_size, sequence_length, evaluation, seed, count)
    return tuple(_workload(loaded, batch, "data" if evaluation else "synthetic") for batch in batches)


def input_batches(
    loaded: LoadedModel,
    batch_size: int,
    sequence_length: int | None,
    evaluation: Evaluation | None,
    seed: int,
    count: int,
) -> list[dict[str, torch.Tensor]]:
    """Return up to ``count`` batches on the model's device, before an adapter's hook; see `benchmark_inputs`."""
    if reads_tokens(loaded.model):
        length = check_length(loaded, default_length(loaded) if sequence_length is None else sequence_length)
    elif sequence_length:
        raise UsageError(f"--sequence-length {sequence_length}: {loaded.name} reads no tokens; leave it out")
    else:
        length = 0
    columns = {
        item.name: _batches_of(item, loaded, evaluation, count, seed)
        for item in model_inputs(loaded.model, batch_size, length)
    }
    return [
        {name: tensor.to(loaded.device) for name, tensor in zip(columns, batch, strict=True)}
        for batch in zip(*columns.values(), strict=False)
    ]


def _workload(
    loaded: LoadedModel, inputs: Mapping[str, torch.Tensor], tokens: Literal["data", "synthetic"]
) -> Workload:
    main, decoder = inputs.get("input_ids"), inputs.get("decoder_input_ids")
    return Workload(
        fed(loaded.model, inputs, rules_of(loaded.adapter)),
        tokens,
        batch_size=batch_rows(inputs),
        sequence_length=0 if main is None else main.shape[1],
        decoder_length=0 if decoder is None else decoder.shape[1],
    )


def _given(
    loaded: LoadedModel, evaluation: Evaluation, batch_size: int, sequence_length: int | None, count: int
) -> tuple[Workload, ...]:
    """Return batches of a user's own tensors, as they are; too few examples are taken again.

    Raises:
        UsageError: another length than theirs is asked for.

    """
    columns = evaluation.columns
    length = columns["input_ids"].shape[1] if "input_ids" in columns else 0
    if sequence_length not in (None, length):
        raise UsageError(
            f"--sequence-length {sequence_length} is not what {evaluation.source} holds ({length}): leave it out"
        )
    total = evaluation.examples
    workloads = []
    for start in range(0, max(1, min(count, total // batch_size)) * batch_size, batch_size):
        places = torch.arange(start, start + batch_size) % total
        inputs = {name: tensor[places.to(tensor.device)] for name, tensor in columns.items()}
        workloads.append(_workload(loaded, inputs, "data"))
    return tuple(workloads)


def default_length(loaded: LoadedModel) -> int:
    """Return the default length of an input: 128 tokens, or all that the model has positions for."""
    return min(PROFILE_LENGTH, position_limit(loaded))


def _batches_of(
    item: Input, loaded: LoadedModel, evaluation: Evaluation | None, count: int, seed: int
) -> list[torch.Tensor]:
    """Return up to ``count`` batches of one input: the data's in a row, else random; a mask hides nothing."""
    if item.content == "mask":
        return [torch.ones(item.shape, dtype=torch.long)] * count
    if evaluation is not None and all(item.name in batch for batch in evaluation.batches):
        rows = _data_rows(evaluation, item)
        size = math.prod(item.shape[:1] if item.content == "features" else item.shape)
        batches = min(count, len(rows) // size)
        if not batches:
            rows, batches = rows.repeat(-(-size // len(rows)), *[1] * (rows.dim() - 1)), 1
        shape = (*item.shape[:1], *rows.shape[1:]) if item.content == "features" else item.shape  # as the data are
        return list(rows[: batches * size].reshape(batches, *shape))
    if item.content == "tokens":
        return [ids.reshape(item.shape) for ids in _synthetic_ids(loaded, count, math.prod(item.shape), seed)]
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(item.shape, generator=generator) for _ in range(count)]


def _data_rows(evaluation: Evaluation, item: Input) -> torch.Tensor:
    """Return the data's tokens in a row, those of overlapping windows once; of images and sound, all examples."""
    if item.content == "features":
        return torch.cat([batch[item.name] for batch in evaluation.batches])
    place = -1 if item.name.startswith("decoder") else 0
    masks = [padding_masks(batch)[place] for batch in evaluation.batches]
    if evaluation.rules.shifted and evaluation.counted is not None:
        masks = list(evaluation.counted)
    return torch.cat([batch[item.name][mask] for batch, mask in zip(evaluation.batches, masks, strict=True)])


def _synthetic_ids(loaded: LoadedModel, count: int, size: int, seed: int) -> list[torch.Tensor]:
    """Return random ids of each batch, drawn on the host so that they are the same on every device."""
    vocabulary = torch.arange(text_config(loaded).vocab_size)
    allowed = vocabulary[~torch.isin(vocabulary, torch.tensor(sorted(_special_ids(loaded)), dtype=torch.long))]
    generator = torch.Generator().manual_seed(seed)
    return [allowed[torch.randint(len(allowed), (size,), generator=generator)] for _ in range(count)]


def _special_ids(loaded: LoadedModel) -> set[int]:
    ids = set(loaded.tokenizer.all_special_ids) if loaded.tokenizer is not None else set()
    config = text_config(loaded)
    for name in ("bos_token_id", "eos_token_id", "pad_token_id"):
        value = getattr(config, name, None)
        ids.update(value if isinstance(value, list) else [value] if isinstance(value, int) else [])
    return ids
