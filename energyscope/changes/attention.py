"""The attention implementations that a model can be switched to, and switching within a context."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from energyscope.errors import ModelError
from energyscope.failures import first_line
from energyscope.loading import LoadedModel

USUAL = ("sdpa", "eager")
FLASH = "flash_attention_2"


def own_attention(model: Any) -> str:
    """Return the implementation that a model runs with; ``eager`` where its configuration names none."""
    return getattr(model.config, "_attn_implementation", None) or "eager"


def other_attentions(loaded: LoadedModel) -> tuple[str, ...]:
    """Return the implementations beside the model's own that are worth trying here; switching may still fail."""
    names = [*USUAL, *([FLASH] if _has_flash(loaded) else [])]
    return tuple(name for name in names if name != own_attention(loaded.model))


def _has_flash(loaded: LoadedModel) -> bool:
    """Return whether FlashAttention 2 is installed and fits the model: on a GPU, in half precision."""
    if loaded.device.type != "cuda" or loaded.model.dtype not in {torch.float16, torch.bfloat16}:
        return False
    from transformers.utils import is_flash_attn_2_available

    return bool(is_flash_attn_2_available())


@contextmanager
def switched_attention(model: Any, implementation: str) -> Iterator[None]:
    """Let a model run with an attention implementation within the context, and then with its own again.

    Raises:
        ModelError: the model cannot be switched to this implementation.

    """
    own = own_attention(model)
    if implementation == own:
        yield
        return
    try:
        _switch(model, implementation)
        yield
    finally:
        model.set_attn_implementation(own)


def _switch(model: Any, implementation: str) -> None:
    try:
        model.set_attn_implementation(implementation)
    except (ValueError, ImportError, AttributeError) as error:
        raise ModelError(
            f"the model cannot be switched to {implementation} attention: {first_line(error)}"
        ) from error
    if own_attention(model) != implementation:
        raise ModelError(f"this model's attention cannot be switched to {implementation}")
