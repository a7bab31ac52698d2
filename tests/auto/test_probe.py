"""A forward pass without numbers: what it calls, and what it answers where code asks for a number."""

from __future__ import annotations

import torch
from torch import nn
from transformers import PretrainedConfig

from energyscope.auto.probe import called_components
from energyscope.components import Component, ComponentTree


class Asking(nn.Module):
    """Asks for a number and for places, and never calls ``spare``."""

    def __init__(self, *, fails: bool) -> None:
        super().__init__()
        self.config = PretrainedConfig()
        self.embed, self.used, self.spare = nn.Embedding(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)
        self.fails = fails

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        hidden = self.embed(input_ids)
        if not (input_ids > 0).all():
            return hidden
        for place in (hidden.sum(-1) > 0).nonzero():
            hidden = hidden + self.used(hidden) * place[0]
        if self.fails:
            raise ValueError("no more")
        return self.spare.weight @ hidden.sum(1)[0]


def tree_of(model: nn.Module) -> ComponentTree:
    parts = [Component(name, "other", None, "block", "model", child) for name, child in model.named_children()]
    return ComponentTree([Component("model", "model", None, "model", None, model), *parts])


def test_questions_about_numbers_are_answered() -> None:
    """GIVEN code that branches on values WHEN there are none THEN all tokens are real and one place is found."""
    with torch.device("meta"):
        tree = tree_of(Asking(fails=False))
    calls = called_components(tree)
    assert calls.failure is None
    assert calls.names == {"embed", "used"}


def test_a_failure_is_told_with_what_was_called() -> None:
    """GIVEN a model that raises THEN its message is kept, no hook stays, and the calls until then are known."""
    with torch.device("meta"):
        tree = tree_of(Asking(fails=True))
    calls = called_components(tree)
    assert calls.failure == "no more"
    assert calls.names == {"embed", "used"}
    assert not any(component.module._forward_pre_hooks for component in tree)
