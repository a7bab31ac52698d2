"""How much worse predictions may become: ``perplexity +0.5%``, ``accuracy -1%``, ``loss +0.01``, ``kl 0.02``.

A budget is spent in a quantity that adds up over changes of different parts, to first order, and over examples
exactly (`Harm`): nats of loss for the perplexity and the loss, wrong answers for the accuracy, nats of divergence
for KL.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np

from energyscope.errors import UsageError
from energyscope.impact.metrics import Floats, Outcomes, perplexity

BudgetMetric = Literal["perplexity", "loss", "accuracy", "kl"]

METRICS: tuple[BudgetMetric, ...] = get_args(BudgetMetric)
EXAMPLES = '"perplexity +0.5%", "accuracy -1%", "loss +0.01", "kl 0.02"'
DEFAULTS = {"perplexity": "perplexity +0.5%", "accuracy": "accuracy -1%"}
WITHOUT_WEIGHTS = "kl 0.01"  # of random ones, whose loss means nothing

_OTHER_NAMES = {"ppl": "perplexity", "acc": "accuracy", "kl-divergence": "kl"}
_WRITTEN = re.compile(r"\s*([a-z-]+?)\s*([+\u2212-]?)\s*(\d*\.?\d+(?:e[+-]?\d+)?)\s*(%?)\s*", re.IGNORECASE)
_WORSE = {"perplexity": "+", "loss": "+", "accuracy": "-", "kl": "+"}


@dataclass(frozen=True)
class Harm:
    """How much worse a changed model predicts: ``sums / weights``, both (examples,) and added up over examples.

    Of the loss, the sums are nats and the weights predicted tokens; of the accuracy, lost right answers and
    predictions; of KL, nats and ones.
    """

    sums: Floats
    weights: Floats

    @property
    def value(self) -> float:
        return float(self.sums.sum() / self.weights.sum())


@dataclass(frozen=True)
class Budget:
    """``amount`` by which a metric may become worse; ``relative`` to the baseline, or absolute.

    Of the accuracy, percent are percentage points, which is how a loss of it is stated.
    """

    metric: BudgetMetric
    amount: float
    relative: bool = False

    def limit(self, baseline: float) -> float:
        """Return the most harm (see `harm`) that keeps the metric in the budget, from its ``baseline``."""
        if self.metric == "perplexity":
            return math.log1p(self.amount if self.relative else self.amount / baseline)
        return self.amount * baseline if self.relative and self.metric == "loss" else self.amount

    def baseline(self, outcomes: Outcomes) -> float:
        """Return the metric of the unchanged model; of KL, 0."""
        if self.metric == "perplexity":
            return perplexity(outcomes.reference_nll, outcomes.predictions)
        if self.metric == "loss":
            return float(outcomes.reference_nll.sum() / outcomes.predictions.sum())
        if self.metric == "accuracy":
            return float(outcomes.reference_correct.sum() / outcomes.predictions.sum())
        return 0.0

    def harm(self, outcomes: Outcomes) -> Harm:
        """Return how much worse a changed model predicts, in the quantity that the budget is spent in."""
        if self.metric == "kl":
            return Harm(outcomes.kl, np.ones(len(outcomes)))
        if self.metric == "accuracy":
            return Harm(outcomes.reference_correct - outcomes.correct, outcomes.predictions)
        return Harm(outcomes.nll - outcomes.reference_nll, outcomes.predictions)

    def changed(self, baseline: float, harm: float) -> float:
        """Return the metric of a model that does so much harm."""
        if self.metric == "perplexity":
            return baseline * math.exp(harm)
        return baseline - harm if self.metric == "accuracy" else baseline + harm

    def widened(self, baseline: float, harm: float) -> Budget:
        """Return the budget of the same kind that so much harm takes, rounded up to two digits."""
        amount = self.changed(baseline, harm) - baseline if self.metric == "perplexity" else harm
        amount = amount / baseline if self.relative else amount
        step = 10.0 ** (math.floor(math.log10(amount)) - 1) if amount > 0 else 1.0
        return replace(self, amount=math.ceil(amount / step) * step)

    def fewest_answers(self) -> int | None:
        """Return how many answers it takes to see a loss of accuracy as small as this; None of other metrics.

        One answer must be less than the budget, and by the rule of three no loss among n answers leaves 3 / n. An
        answer is a token of a next-token model, else an example.
        """
        return math.ceil(3 / self.amount) if self.metric == "accuracy" and self.amount > 0 else None

    def document(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {"metric": self.metric, "amount": self.amount, "relative": self.relative, "text": str(self)}

    def __str__(self) -> str:
        sign = "" if self.metric == "kl" else _WORSE[self.metric]
        percent = self.relative or self.metric == "accuracy"
        return f"{self.metric} {sign}{self.amount * (100 if percent else 1):g}{'%' if percent else ''}"


def parse_budget(text: str) -> Budget:
    """Read a budget.

    Raises:
        UsageError: it cannot be understood, with examples.

    """
    match = _WRITTEN.fullmatch(text)
    if match is None:
        raise UsageError(f"the budget {text!r} cannot be read: write it like {EXAMPLES}")
    word, sign, number, percent = match.groups()
    name = _OTHER_NAMES.get(word.lower(), word.lower())
    metric = next((known for known in METRICS if known == name), None)
    if metric is None:
        raise UsageError(f"the budget {text!r} names no known metric: write it like {EXAMPLES}")
    if sign and sign.replace("\u2212", "-") != _WORSE[metric]:
        raise UsageError(f"the budget {text!r} asks for better predictions than now: write it like {EXAMPLES}")
    if metric == "kl" and percent:
        raise UsageError(f"the budget {text!r} is in nats, not in percent: write it like {EXAMPLES}")
    amount = float(number) / (100 if percent else 1)
    if not amount:
        raise UsageError(f"the budget {text!r} allows nothing: write it like {EXAMPLES}")
    if metric == "accuracy" and amount > 1:
        raise UsageError(f"the budget {text!r} is more than all right answers: write it like {EXAMPLES}")
    return Budget(metric, amount, bool(percent) and metric in {"perplexity", "loss"})
