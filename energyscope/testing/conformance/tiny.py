"""Tiny models of any family: a configuration with small sizes, and seeded random weights in float32 on the CPU."""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch

from energyscope.adapters import Adapter
from energyscope.errors import EnergyscopeError, ModelError
from energyscope.failures import first_line
from energyscope.loading import LoadedModel
from energyscope.loading.files import ModelFiles
from energyscope.loading.libraries import silence_libraries
from energyscope.loading.options import LoadOptions
from energyscope.loading.planning import empty_model, meta_model
from energyscope.loading.random_weights import build
from energyscope.loading.sources import ModelSource
from energyscope.reasons import reason

MOST_PARAMETERS = 5_000_000  # above it, checks take minutes
SPREAD = 0.02  # what is added to all weights: families begin with zeros and ones, which hide what a part does
HINT = "give a small configuration (check_adapter(..., config), --config FILE.json)"
LAYERS, HEADS, VOCABULARY = 2, 4, 128
# The size of each field of a configuration whose name matches; larger values are cut to it.
_SIZES: tuple[tuple[str, int], ...] = (
    (r"(num|n)_(\w+_)?layers?|(en|de)coder_layers", LAYERS),
    (r"hidden_size|d_model|n_embd|dim|embedding_size|word_embed_proj_dim|projection_dim|pooler_output_size", 32),
    (r"(\w+_)?(attention_heads|num_heads|n_heads?)", HEADS),
    (r"head_dim|d_kv|(qk_rope|qk_nope|v)_head_dim", 8),
    (r"(\w+_)?intermediate_size|(\w+_)?ffn_dim|ffn_hidden_size|hidden_dim|n_inner|d_ff", 64),
    (r"(q|kv)_lora_rank", 16),
    (r"vocab_size", VOCABULARY),
    (r"(\w+_)?max_(\w+_)?position(s|_embeddings)|n_positions", 64),
    (r"sliding_window|attention_window", 16),
    (r"num_(local_)?experts|n_routed_experts", 4),
    (r"num_experts_per_tok", 2),
    (r"n_group|topk_group|first_k_dense_replace", 1),
)  # fmt: skip
_KEY_HEADS = ("num_key_value_heads", "num_kv_heads", "n_head_kv")


def tiny_configuration(model_type: str, base: Mapping[str, Any] | None = None) -> Any:
    """Return a family's configuration, its default one or that of ``base``, with small sizes.

    Raises:
        ModelError: transformers does not know the type, or refuses the sizes.

    """
    from transformers import AutoConfig

    given = {name: value for name, value in (base or {}).items() if name != "model_type"}
    try:
        whole = AutoConfig.for_model(model_type, **copy.deepcopy(given))
        return AutoConfig.for_model(model_type, **{**given, **_small(whole)})
    except Exception as error:
        why = first_line(" ".join(str(error).split()))
        raise ModelError(f"no tiny configuration of {model_type!r} can be made ({why}): {HINT}") from error


def _small(whole: Any) -> dict[str, Any]:
    """Return the fields of a configuration that make it small: those that its class takes."""
    from transformers import PretrainedConfig

    small: dict[str, Any] = {}
    for name in inspect.signature(type(whole).__init__).parameters:
        value = getattr(whole, name, None)
        if isinstance(value, PretrainedConfig):
            small[name] = {**value.to_diff_dict(), **_small(value)}
        elif isinstance(value, int) and not isinstance(value, bool):
            small.update(dict(_cut(name, value)))
        elif isinstance(value, list) and len(value) == getattr(whole, "num_hidden_layers", None):
            small[name] = value[:LAYERS]  # an entry for each layer
    if isinstance(patch := getattr(whole, "patch_size", None), int) and hasattr(whole, "image_size"):
        small["image_size"] = 2 * patch
    heads = getattr(whole, "num_attention_heads", HEADS)
    for name in _KEY_HEADS:
        if isinstance(groups := getattr(whole, name, None), int) and name not in small:
            small[name] = HEADS if groups >= heads else min(groups, HEADS // 2)
    return small


def _cut(name: str, value: int) -> Iterator[tuple[str, int]]:
    size = next((size for names, size in _SIZES if re.fullmatch(names, name)), None)
    if name.endswith("token_id") and value >= VOCABULARY:
        yield name, 0 if name.startswith("pad") else 1
    elif size is not None and value > size and name not in _KEY_HEADS:
        yield name, size


def configuration_of(adapter: Adapter, config: Any = None) -> Any:
    """Return the configuration to check an adapter on: what is given, or a tiny one of its first model type.

    ``config`` is a transformers configuration, or keyword arguments of `AutoConfig.for_model`, ``model_type``
    among them or not.

    Raises:
        ModelError: transformers refuses it, or it is of another type.

    """
    from transformers import AutoConfig

    model_type = adapter.model_types[0]
    if config is None:
        tiny = tiny_configuration(model_type)
        if adapter.task == "classification" and tiny.get_text_config().pad_token_id is None:
            tiny.get_text_config().pad_token_id = 0  # classes of a batch are read before its padding
        return tiny
    if isinstance(config, Mapping):
        words = dict(config)
        model_type = words.pop("model_type", model_type)
        try:
            config = AutoConfig.for_model(model_type, **copy.deepcopy(words))
        except Exception as error:
            raise ModelError(f"transformers refuses the configuration: {first_line(error)}") from error
    if config.model_type not in adapter.model_types:
        served = ", ".join(adapter.model_types)
        raise ModelError(f"the configuration is of type {config.model_type!r}, and the adapter serves {served}")
    return config


def tiny_model(adapter: Adapter, config: Any = None) -> LoadedModel:
    """Build the model that an adapter serves: float32, on the CPU, every weight random, in evaluation mode.

    Raises:
        ModelError: the class or the configuration do not fit, or the model is too large to be checked in seconds.

    """
    silence_libraries()
    options = LoadOptions(device=torch.device("cpu"), weights="random")
    source = ModelSource(f"tiny {adapter.name}", "folder", "random weights")
    files = ModelFiles(source, None, adapter, configuration_of(adapter, config))
    try:
        model: Any = _built(files, options)
    except EnergyscopeError:
        raise
    except Exception as error:
        raise ModelError(f"no model can be built: {type(error).__name__}: {first_line(error)}; {HINT}") from error
    model.eval().requires_grad_(False)
    _spread(model)
    return LoadedModel(
        name=source.name,
        model=model,
        adapter=adapter,
        tokenizer=None,
        tokenizer_reason=reason("no-model-files"),
        precision="fp32",
        device=options.device,
        weights="random",
        source=source.source,
        seconds=0.0,
    )


def _built(files: ModelFiles, options: LoadOptions) -> torch.nn.Module:
    size = sum(weight.numel() for weight in meta_model(files, options).parameters())
    if size > MOST_PARAMETERS:
        raise ModelError(
            f"the model has {size:,} parameters, and {MOST_PARAMETERS:,} are checked in seconds: {HINT}"
        )
    return build(lambda: empty_model(files, options), options, [])


def _spread(model: torch.nn.Module) -> None:
    generator = torch.Generator().manual_seed(0)
    for weight in model.parameters():
        weight.add_(torch.randn(weight.shape, generator=generator, dtype=weight.dtype), alpha=SPREAD)


def tied(loaded: LoadedModel) -> LoadedModel | None:
    """Return the model with its head tied to its embedding; None where the family does not tie them."""
    model: Any = loaded.model
    if _is_tied(model):
        return loaded
    config = copy.deepcopy(model.config)
    config.tie_word_embeddings = True
    other = tiny_model(replace(loaded.adapter, model_types=(config.model_type,)), config)
    return other if _is_tied(other.model) else None


def _is_tied(model: Any) -> bool:
    ends = (model.get_input_embeddings(), model.get_output_embeddings())
    weights = [getattr(end, "weight", None) for end in ends]
    return weights[0] is not None and weights[0] is weights[1]
