"""What one step of a generation is given: the prompt as `generate` reads it, or one token on a filled KV cache.

`context_length` is the number of tokens whose keys and values a decode step finds in the cache. They are those of
a real forward pass over as many tokens, so what attention reads has the values that it would have.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import torch

from energyscope.errors import DeviceError, UsageError
from energyscope.kv_cache import CacheKind, hold, new_cache
from energyscope.loading import LoadedModel
from energyscope.loading.devices import free_bytes
from energyscope.workloads.evaluation import Evaluation
from energyscope.workloads.limits import position_limit, text_config
from energyscope.workloads.timed import Workload, profile_inputs

CONTEXT_LENGTH = 1024
FILLED_AT_ONCE = 4096  # tokens of all sequences together: a whole long context needs too much memory beside it
CANNOT_GENERATE = "generates no text, so it has no decode step: use --phase prefill"


def default_context(loaded: LoadedModel) -> int:
    """Return the context length of a decode step that nobody chose: 1024 tokens, or all that the model has."""
    return min(CONTEXT_LENGTH, position_limit(loaded) - 1)


def checked_context(loaded: LoadedModel, length: int) -> int:
    """Return a context length after which the model has a position left.

    Raises:
        UsageError: it has none, or the length is not positive.

    """
    limit = position_limit(loaded)
    if length >= limit:
        raise UsageError(
            f"--context-length {length} is too long: {loaded.name} has {limit} positions, and the token that is "
            f"decoded needs one; use {limit - 1} at most"
        )
    if length < 1:
        raise UsageError(f"--context-length {length} is too short: use 1 or more")
    return length


def can_generate(loaded: LoadedModel) -> bool:
    """Tell whether the model predicts the next token and can keep keys and values."""
    return loaded.adapter.task == "next-token" and _takes(loaded.model, "past_key_values")


def decode_step(
    loaded: LoadedModel,
    *,
    batch_size: int = 1,
    context_length: int | None = None,
    kv_cache: CacheKind = "dynamic",
    evaluation: Evaluation | None = None,
    seed: int = 0,
) -> Workload:
    """Return one decode step of a batch on a cache filled with ``context_length`` tokens; it can be replayed.

    Raises:
        UsageError: the context is beyond the model's positions, or the model generates no text.
        DeviceError: the cache does not fit.

    """
    _check_generates(loaded)
    context = checked_context(loaded, default_context(loaded) if context_length is None else context_length)
    tokens = profile_inputs(
        loaded, batch_size=batch_size, sequence_length=context + 1, evaluation=evaluation, seed=seed
    )
    ids = tokens.inputs["input_ids"]
    _require_room(loaded, batch_size, context)
    cache = new_cache(loaded.model, kv_cache, positions=context + 1)
    _fill(loaded, cache, ids[:, :context])
    inputs = {
        "input_ids": ids[:, context:].contiguous(),
        "attention_mask": torch.ones_like(ids),
        "past_key_values": hold(cache),
        "use_cache": True,
    }
    return Workload(
        inputs,
        tokens.tokens,
        batch_size=batch_size,
        sequence_length=1,
        phase="decode",
        context_length=context,
        kv_cache=kv_cache,
    )


def prompt_pass(loaded: LoadedModel, workload: Workload, *, kv_cache: CacheKind, new_tokens: int) -> Workload:
    """Return the first pass of a generation: it fills an empty cache, and the head sees the last token only.

    ``new_tokens`` is what a static cache has room for behind the prompt.
    """
    _check_generates(loaded)
    cache = new_cache(
        loaded.model,
        kv_cache,
        positions=workload.sequence_length + new_tokens,
    )
    if kv_cache == "static":  # its memory is there before the prompt comes: `generate` keeps it from call to call
        _fill(loaded, cache, workload.inputs["input_ids"][:, :1])
        cache.reset()
    inputs = {**workload.inputs, **_last_logits(loaded), "past_key_values": hold(cache), "use_cache": True}
    return Workload(
        inputs,
        workload.tokens,
        batch_size=workload.batch_size,
        sequence_length=workload.sequence_length,
        kv_cache=kv_cache,
    )


def cache_need(loaded: LoadedModel, batch_size: int, context_length: int) -> int:
    """Return the bytes of a KV cache of full attention: 2 x layers x heads of keys x their size x tokens."""
    config = text_config(loaded)
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    model: Any = loaded.model  # its dtype is that of what is not quantized: keys and values have it too
    token = 2 * int(config.num_hidden_layers) * int(heads) * int(size) * int(model.dtype.itemsize)
    return token * batch_size * context_length


def _require_room(loaded: LoadedModel, batch_size: int, context_length: int) -> None:
    """Refuse a cache that cannot fit, with the largest batch that would.

    Raises:
        DeviceError: less memory is free.

    """
    free = free_bytes(loaded.device)
    need = cache_need(loaded, batch_size, context_length)
    if free is None or need <= free:
        return
    fits = batch_size * free // need
    instead = f"--batch-size {fits} fits" if fits else "use a shorter --context-length"
    raise DeviceError(
        f"the KV cache of --batch-size {batch_size} at {context_length} tokens needs {need / 1e9:.1f} GB and "
        f"{loaded.device} has {free / 1e9:.1f} GB free: {instead}"
    )


def _check_generates(loaded: LoadedModel) -> None:
    if not can_generate(loaded):
        raise UsageError(f"{loaded.name} {CANNOT_GENERATE}")


@torch.no_grad()
def _fill(loaded: LoadedModel, cache: Any, ids: torch.Tensor) -> None:
    """Fill a cache by forward passes over the tokens, a part at a time.

    Not in inference mode: a static cache from there could not be written to in an ordinary pass.
    """
    at_once = max(1, FILLED_AT_ONCE // ids.shape[0])
    for begin in range(0, ids.shape[1], at_once):
        part = ids[:, begin : begin + at_once]
        loaded.model(input_ids=part, past_key_values=cache, use_cache=True, **_last_logits(loaded))


def _last_logits(loaded: LoadedModel) -> Mapping[str, int]:
    """Return the argument that keeps the head from all but the last token, where the model has it."""
    return {"logits_to_keep": 1} if _takes(loaded.model, "logits_to_keep") else {}


def _takes(model: Any, argument: str) -> bool:
    return argument in inspect.signature(model.forward).parameters
