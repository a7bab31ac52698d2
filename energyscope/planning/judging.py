"""What exchanging some of a model's linears does to its predictions, on the data of one half."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from energyscope.errors import ModelError
from energyscope.impact.metrics import Outcomes
from energyscope.impact.predictions import Reference
from energyscope.planning.layers import Layers, exchanged

if TYPE_CHECKING:
    from torch import nn

    from energyscope.workloads import Evaluation


class Judge:
    """Compares a model whose linears are exchanged with the model as it is."""

    def __init__(self, model: nn.Module, evaluation: Evaluation) -> None:
        """Note the predictions of the model as it is.

        Raises:
            DataError: there is nothing to predict.
            ModelError: the model's outputs are not finite.

        """
        self.model = model
        self.reference = Reference(model, evaluation)

    @property
    def unchanged(self) -> Outcomes:
        return self.reference.outcomes

    @torch.no_grad()
    def outcomes(self, layers: Layers) -> Outcomes:
        """Return what the model predicts for each example with these layers, beside what it predicts now.

        Raises:
            ModelError: its outputs are not finite.

        """
        parts = []
        for index in range(len(self.reference)):
            original = self.reference.logits(index)
            with exchanged(self.model, layers):
                changed = self.reference.run(index)
            parts.append(self.reference.compare(index, original, changed))
        outcomes = Outcomes.concatenate(parts)
        if bad := outcomes.non_finite():
            raise ModelError(f"its outputs are not finite for {bad} of {len(outcomes)} examples")
        return outcomes
