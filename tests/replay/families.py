"""Trees of tiny real models of every shipped family, and what they are fed."""

from __future__ import annotations

from typing import Any

import tiny_models
import torch

from energyscope.adapter_registry import load_adapter
from energyscope.adapters import Adapter, Granularity
from energyscope.components import ComponentTree, component_tree

FAMILIES = ("distilbert", "gpt2", "llama")
CPU = torch.device("cpu")


def tree_of(
    family: str, granularity: Granularity = "fine", *, adapter: Adapter | None = None, **changes: Any
) -> ComponentTree:
    torch.manual_seed(0)
    model = tiny_models.model_class(family)(tiny_models.config(family, **changes)).eval()
    return component_tree(model, adapter or load_adapter(family), granularity)


def inputs(*, batch: int = 1, padded: int = 0) -> dict[str, torch.Tensor]:
    """Return sequences of 12 tokens, the last ``padded`` of which are masked in the last sequence."""
    ids = torch.arange(12 * batch).reshape(batch, 12) % tiny_models.VOCABULARY
    mask = torch.ones_like(ids)
    mask[-1, 12 - padded :] = 0
    return {"input_ids": ids, "attention_mask": mask}
