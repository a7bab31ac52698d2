"""What a model can be fed: its positions and its vocabulary, and sizes that are checked against them."""

from __future__ import annotations

from typing import Any

from energyscope.errors import UsageError
from energyscope.loading import LoadedModel

_UNLIMITED = 1 << 20  # positions of a model whose configuration states no maximum


def position_limit(loaded: LoadedModel) -> int:
    """Return the longest sequence that the model has positions for, in tokens."""
    config = text_config(loaded)
    stated = (getattr(config, name, None) for name in ("max_position_embeddings", "max_target_positions"))
    limits = [int(limit) for limit in stated if limit and int(limit) > 0]
    return min(limits) - _reserved_positions(loaded) if limits else _UNLIMITED


def _reserved_positions(loaded: LoadedModel) -> int:
    """Return how many positions stand for padding: RoBERTa's count from the one after the padding token's."""
    tables = (module for name, module in loaded.model.named_modules() if name.endswith("position_embeddings"))
    indices = (getattr(table, "padding_idx", None) for table in tables)
    return max((index + 1 for index in indices if index is not None), default=0)


def vocabulary_size(loaded: LoadedModel) -> int:
    """Return how many token ids the model has embeddings for."""
    return int(text_config(loaded).vocab_size)


def text_config(loaded: LoadedModel) -> Any:
    """Return the configuration of the model, of one that sees as well that of its language part."""
    config: Any = loaded.model.config
    return config.get_text_config()


def check_length(loaded: LoadedModel, length: int) -> int:
    """Return a sequence length that the model can take.

    Raises:
        UsageError: it is beyond the model's positions, or not positive.

    """
    limit = position_limit(loaded)
    if length > limit:
        raise UsageError(f"--sequence-length {length} is too long: {loaded.name} has {limit} positions at most")
    if length < 1:
        raise UsageError(f"--sequence-length {length} is too short: use 1 or more")
    return length


def check_batch_size(size: int) -> None:
    """Refuse a batch without examples.

    Raises:
        UsageError: ``size`` is not positive.

    """
    if size < 1:
        raise UsageError(f"a batch size of {size} is not possible: use 1 or more")
