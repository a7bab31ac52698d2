"""Trees of tiny real models of every shipped family, and what they are fed."""

from __future__ import annotations

from typing import Any

import tiny_models
import torch

from energyscope.adapters import Granularity, load_adapter
from energyscope.components import ComponentTree, component_tree

FAMILIES = ("distilbert", "gpt2", "llama")
CPU = torch.device("cpu")


def tree_of(family: str, granularity: Granularity = "fine", **changes: Any) -> ComponentTree:
    torch.manual_seed(0)
    model = tiny_models.model_class(family)(tiny_models.config(family, **changes)).eval()
    return component_tree(model, load_adapter(family), granularity)


def inputs() -> dict[str, torch.Tensor]:
    ids = torch.arange(12).reshape(1, 12) % tiny_models.VOCABULARY
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
