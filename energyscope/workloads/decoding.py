"""The inputs of one step of a generation: the prompt as `generate` reads it, or one token on a filled KV cache.

`generate` runs until it calls the model for that step, and the inputs of that call are kept. So positions, masks
and the number of logits are those of a real generation, in each version of the library, and the cache holds the
keys and values of a real pass over as many tokens. `context_length` is how many a decode step finds there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch

from energyscope.errors import DeviceError, ModelError, UsageError
from energyscope.kv_cache import CacheKind, cache_name, caches_in, hold, states_put_back
from energyscope.loading import LoadedModel
from energyscope.loading.devices import gigabytes, usable_bytes
from energyscope.model_inputs import main_input
from energyscope.reasons import Reason, reason
from energyscope.recurrent_states import STATES
from energyscope.workloads.evaluation import Evaluation
from energyscope.workloads.limits import position_limit, text_config
from energyscope.workloads.timed import Workload, profile_inputs

CONTEXT_LENGTH = 1024
FILLED_AT_ONCE = 16384  # tokens of all sequences together: a long context at once needs much more memory
LENGTH_MEMORY = "_previous_max_cache_length"  # `generate` makes a static cache as long as earlier ones were
CANNOT_GENERATE = "generates no text"
SEQUENCES = "sequence-to-sequence"
DECODER_IDS = "decoder_input_ids"
USE_PREFILL = "so it has no decode step: use --phase prefill"


def default_context(loaded: LoadedModel) -> int:
    """Return the default context length of a decode step: 1024 tokens, or what leaves the model a position."""
    return min(CONTEXT_LENGTH, position_limit(loaded) - 1)


def check_context(loaded: LoadedModel, length: int) -> int:
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


def too_long(loaded: LoadedModel, prompt: int, new_tokens: int) -> Reason | None:
    """Return why no generation of so many tokens fits behind the prompt; None where it does."""
    limit = position_limit(loaded)
    if prompt + new_tokens <= limit:
        return None
    return reason("too-few-positions", tokens=prompt + new_tokens, positions=limit, left=max(limit - prompt, 0))


def can_decode(loaded: LoadedModel) -> bool:
    """Tell whether the model writes token by token and can keep what it needs of those before."""
    return loaded.adapter.task in {"next-token", SEQUENCES} and cache_name(loaded.model) is not None


def check_decodes(loaded: LoadedModel) -> None:
    """Refuse a model without a decode step.

    Raises:
        UsageError: it has none.

    """
    if not can_decode(loaded):
        raise UsageError(f"{loaded.name} {CANNOT_GENERATE}, {USE_PREFILL}")


def why_no_prompt(loaded: LoadedModel) -> str | None:
    """Return why a model has no prompt whose pass its decode steps go on from; None if it has."""
    if can_generate(loaded):
        return None
    return "decodes beside an encoder" if can_decode(loaded) else CANNOT_GENERATE


def can_generate(loaded: LoadedModel) -> bool:
    """Tell whether it decodes without an encoder, so that its prompt fills the cache that its steps go on from."""
    return can_decode(loaded) and loaded.adapter.task != SEQUENCES


def prompt_length(loaded: LoadedModel, workload: Workload) -> int:
    """Return the tokens that a generation goes on from: its prompt's, or the one that a decoder begins with."""
    return 1 if loaded.adapter.task == SEQUENCES else workload.sequence_length


def generation_call(loaded: LoadedModel, workload: Workload) -> tuple[Callable[..., Any], dict[str, Any]]:
    """Return `generate` and what it is given: a prompt, or what an encoder reads and a decoder begins with."""
    if loaded.adapter.task != SEQUENCES:
        return _generate_from(loaded.model, workload.inputs["input_ids"], None)
    source = _source_of(loaded, workload, workload.sequence_length)
    return _generate_from(loaded.model, workload.inputs[DECODER_IDS][:, :1], source)


def _generate_from(
    model: Any, ids: torch.Tensor, source: Mapping[str, Any] | None
) -> tuple[Callable[..., Any], dict[str, Any]]:
    if source is None:
        return model.generate, {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    from transformers import GenerationMixin

    # the first of the ids begins every sequence, or `generate` would write another one before
    first = ids[0, 0].expand(ids.shape[0], 1)
    generate = partial(GenerationMixin.generate, model, decoder_start_token_id=int(ids[0, 0]))
    return generate, {**source, DECODER_IDS: torch.cat([first, ids[:, 1:]], dim=1)}


def decode_step(  # noqa: PLR0913  what a step is made of
    loaded: LoadedModel,
    *,
    batch_size: int = 1,
    context_length: int | None = None,
    kv_cache: CacheKind = "dynamic",
    evaluation: Evaluation | None = None,
    seed: int = 0,
    new_tokens: int = 2,
    proposed: int = 0,
    read: int | None = None,
) -> Workload:
    """Return one decode step of a batch on a cache filled with ``context_length`` tokens; it can be replayed.

    A static cache has room for ``new_tokens`` behind them, as in a generation of so many, and is read as a whole.
    A decoder beside an encoder has as many tokens in its cache as the encoder has ``read``, unless that is given;
    what the encoder made of them is there, and it does not run again.
    A step that verifies so many ``proposed`` tokens has as many rows more, and its cache as many tokens fewer: its
    last row sees what the one row of an ordinary step sees.

    Raises:
        UsageError: the context is beyond the model's positions, or the model generates no text.
        DeviceError: the cache does not fit.

    """
    check_decodes(loaded)
    context = check_context(loaded, default_context(loaded) if context_length is None else context_length)
    tokens = profile_inputs(
        loaded,
        batch_size=batch_size,
        sequence_length=max(context + 1, read or 0),
        evaluation=evaluation,
        seed=seed,
    )
    name = DECODER_IDS if loaded.adapter.task == SEQUENCES else "input_ids"
    source = _source_of(loaded, tokens, read or context) if name == DECODER_IDS else None
    ids = tokens.inputs[name][:, : context + 1]
    _require_room(loaded, batch_size, context)
    cached = context - proposed
    prompt, room = ids[:, :cached], new_tokens + proposed
    inputs = inputs_of_generate(
        loaded.model, prompt, kv_cache=kv_cache, new_tokens=room, cached=cached, source=source
    )
    inputs[name] = ids[:, cached:].contiguous()  # the text's own next token, not the likeliest
    if proposed:
        inputs = _with_rows(inputs, cached)
    _hold_all(inputs)
    check_states(loaded.model, inputs)
    return Workload(
        inputs,
        tokens.tokens,
        batch_size=batch_size,
        sequence_length=1 + proposed,
        phase="decode",
        context_length=cached,
        kv_cache=kv_cache,
    )


def _source_of(loaded: LoadedModel, tokens: Workload, length: int) -> dict[str, Any]:
    """Return what the encoder reads: at most ``length`` tokens, or an image or sound."""
    source = {name: value for name, value in tokens.inputs.items() if not name.startswith("decoder_")}
    read = main_input(loaded.model) == "input_ids"
    return {name: value[:, :length] if read else value for name, value in source.items()}


def _with_rows(inputs: dict[str, Any], cached: int) -> dict[str, Any]:
    """Return the inputs of a step of one row for all rows of its tokens; the model makes their mask itself."""
    ids = inputs["input_ids"]
    positions = torch.arange(cached, cached + ids.shape[1], device=ids.device).expand_as(ids)
    others = {"logits_to_keep": ids.shape[1], "position_ids": positions}
    kept = {name: value for name, value in inputs.items() if name != "attention_mask"}
    return {**kept, **{name: value for name, value in others.items() if name in inputs}}


def prompt_pass(loaded: LoadedModel, workload: Workload, *, kv_cache: CacheKind, new_tokens: int) -> Workload:
    """Return the first pass of a generation: it fills an empty cache, and the head sees the last token only.

    ``new_tokens`` is what a static cache has room for behind the prompt.
    """
    if why := why_no_prompt(loaded):
        raise UsageError(f"{loaded.name} {why}: no pass of a prompt fills its cache")
    ids = workload.inputs["input_ids"]
    inputs = inputs_of_generate(loaded.model, ids, kv_cache=kv_cache, new_tokens=new_tokens, cached=0)
    if kv_cache == "static":  # its memory is there before the prompt comes: a graph could not set it up
        kept = {str(name): inputs[name] for name in [cache_name(loaded.model)] if name in inputs}
        with torch.no_grad():
            loaded.model(input_ids=ids[:, :1], use_cache=True, **kept)
        for cache in caches_in(kept):
            cache.reset()
    _hold_all(inputs)
    return Workload(
        inputs,
        workload.tokens,
        batch_size=workload.batch_size,
        sequence_length=workload.sequence_length,
        kv_cache=kv_cache,
    )


def _hold_all(inputs: Mapping[str, Any]) -> None:
    for cache in caches_in(inputs):
        hold(cache)


def check_states(model: Any, inputs: Mapping[str, Any]) -> None:
    """Refuse a step that changes what cannot be put back: states in a cache of the model's own, or in its modules.

    Raises:
        ModelError: it does, with where.

    """
    if STATES not in inputs and not any(caches_in(inputs)):
        kept = type(inputs.get(str(cache_name(model)))).__name__
        raise ModelError(f"{type(model).__name__} keeps a {kept}, which replay cannot hold: use --phase prefill")
    before = _tensors_of_modules(model)
    with torch.no_grad(), states_put_back(inputs):
        model(**inputs)
    after = _tensors_of_modules(model)
    changed = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    if changed:
        raise ModelError(f"a step changes {changed[0]}, which replay cannot put back: use --phase prefill")


def _tensors_of_modules(model: Any) -> dict[str, tuple[int, int]]:
    """Return where tensors lie that are plain attributes of modules, and how often they were written to."""
    return {
        f"{path}.{name}": (value.data_ptr(), value._version)  # noqa: SLF001 - nothing else tells
        for path, module in model.named_modules()
        for name, value in vars(module).items()
        if isinstance(value, torch.Tensor) and not value.is_meta and not value.is_inference()
    }


def cache_need(loaded: LoadedModel, batch_size: int, context_length: int) -> int:
    """Return the bytes of a KV cache of full attention: 2 x layers x heads of keys x their size x tokens.

    A decoder beside an encoder keeps as many keys and values of what the encoder has read.
    """
    config = text_config(loaded)
    heads = getattr(config, "num_key_value_heads", None) or getattr(config, "num_attention_heads", None)
    if heads is None:  # without attention; states take no more memory the longer the context is
        return 0
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    model: Any = loaded.model  # its dtype is that of what is not quantized: keys and values have it too
    token = 2 * _attention_layers(config) * int(heads) * int(size) * int(model.dtype.itemsize)
    return token * batch_size * context_length * (2 if loaded.adapter.task == SEQUENCES else 1)


def _attention_layers(config: Any) -> int:
    kinds = getattr(config, "layer_types", None)
    if kinds:
        return sum(kind == "hybrid" or ("attention" in kind and not kind.startswith("linear")) for kind in kinds)
    stated = (
        getattr(config, name, None) for name in ("decoder_layers", "num_decoder_layers", "num_hidden_layers")
    )
    return next(int(layers) for layers in stated if layers)


def _require_room(loaded: LoadedModel, batch_size: int, context_length: int) -> None:
    """Refuse a cache that cannot fit, with the largest batch that would.

    Raises:
        DeviceError: less memory is free on all of the model's devices together.

    """
    usable = [usable_bytes(device) for device in loaded.devices if device.type == loaded.device.type]
    free = sum(size or 0 for size in usable)
    need = cache_need(loaded, batch_size, context_length)
    if None in usable or need <= free:
        return
    fits = batch_size * free // need
    instead = f"--batch-size {fits} fits" if fits else "use a shorter --context-length"
    where = " and ".join(str(device) for device in loaded.devices)
    raise DeviceError(
        f"the KV cache of --batch-size {batch_size} at {context_length} tokens needs {gigabytes(need)}, and "
        f"{gigabytes(free)} are free on {where}: {instead}"
    )


class _ReachedError(Exception):
    """`generate` has come to the call that was asked for."""

    def __init__(self, inputs: dict[str, Any]) -> None:
        super().__init__()
        self.inputs = inputs


def inputs_of_generate(
    model: Any,
    ids: torch.Tensor,
    *,
    kv_cache: CacheKind,
    new_tokens: int,
    cached: int,
    source: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the keyword arguments of a generation's first call of the model with ``cached`` tokens in the cache.

    The call itself is not made. The prompt's pass has 0, the first decode step as many as the prompt has. The
    ``ids`` are those of the prompt, of a decoder where an encoder reads ``source``.
    """
    seen = 0  # tokens, counted here: what a model keeps does not always know how many it has seen

    def before(_model: Any, _args: Any, inputs: dict[str, Any]) -> None:
        nonlocal seen
        if seen == cached:
            raise _ReachedError(inputs)
        seen += inputs["input_ids" if source is None else DECODER_IDS].shape[1]

    in_parts = source is None and ids.numel() > FILLED_AT_ONCE and cached > 0
    generate, given = _generate_from(model, ids, source)
    handle = model.register_forward_pre_hook(before, with_kwargs=True)
    try:
        with fresh_cache_length(model):
            generate(
                **given,
                max_new_tokens=new_tokens,
                prefill_chunk_size=max(1, FILLED_AT_ONCE // ids.shape[0]) if in_parts else None,
                **generation_options(kv_cache, new_tokens),
            )
    except _ReachedError as reached:
        return {name: value for name, value in reached.inputs.items() if value is not None}
    finally:
        handle.remove()
    raise ModelError(f"{type(model).__name__} never reached the step after {cached} tokens of a generation")


def generation_options(kv_cache: CacheKind, new_tokens: int) -> dict[str, Any]:
    """Return the options of a generation of a fixed number of tokens: greedy, cached, not compiled.

    ``min_new_tokens`` keeps an end of sequence from ending it.
    """
    return {
        "do_sample": False,
        "num_beams": 1,
        "min_new_tokens": new_tokens,
        "use_cache": True,
        "cache_implementation": kv_cache,
        "disable_compile": True,
    }


@contextmanager
def fresh_cache_length(model: Any) -> Iterator[None]:
    """Let `generate` make a static cache as long as it needs, and remember afterwards what it did before."""
    before = vars(model).pop(LENGTH_MEMORY, None)
    try:
        yield
    finally:
        vars(model).pop(LENGTH_MEMORY, None)
        if before is not None:
            setattr(model, LENGTH_MEMORY, before)
