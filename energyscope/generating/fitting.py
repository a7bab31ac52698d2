"""Which batch fits, once one did not."""

from __future__ import annotations

import torch

from energyscope.failures import no_memory_left
from energyscope.generating.calling import Generator


def too_large(generator: Generator, new_tokens: int, device: torch.device) -> str:
    """Return that a batch does not fit in memory, and which one would: halves of it are tried."""
    size, prompt = generator.batch_size, generator.prompt_tokens
    what = f"a batch of {size} x ({prompt} + {new_tokens}) tokens does not fit in the memory of {device}"
    fits = fitting_batch(generator, new_tokens, device)
    return f"{what}: a batch of {fits} does" if fits else f"{what}: use a shorter prompt or generate fewer tokens"


def fitting_batch(generator: Generator, new_tokens: int, device: torch.device) -> int | None:
    """Return a batch size that can be generated, found by halving; None where not even one sequence can."""
    size = generator.batch_size // 2
    while size:
        _free(device)
        if _fits(generator.of_batch(size), new_tokens):
            break
        size //= 2
    _free(device)
    return size or None


def _fits(generator: Generator, new_tokens: int) -> bool:
    try:
        generator(new_tokens)
    except Exception as error:
        if no_memory_left(error):
            return False
        raise
    return True


def _free(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.empty_cache()
