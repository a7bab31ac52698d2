"""Words and numbers of findings: what was changed, what was measured, and how a number is written. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from energyscope.impact.methods import is_sensitivity

NAMED = 3  # how many components a sentence names
COMPARED = "whose energy and impact are compared"  # other components may have more of either
PLAIN_METRICS = {
    "kl": "the KL divergence of the outputs",
    "js": "the Jensen-Shannon divergence of the outputs",
    "loss_difference": "the difference of the loss",
    "accuracy_difference": "the accuracy difference",
    "perplexity_difference": "the perplexity difference",
    "top1_agreement": "the share of unchanged predictions",
    "logit_difference": "the difference of the answer's logit margin",
    "output_change": "the relative change of its own output",
}
CHANGES = {
    "zero": "the output of one component is set to zero",
    "mean": "the output of one component is replaced by its mean over the data",
    "resample": "the output of one component is replaced by that on another example",
    "skip": "one layer is skipped",
    "int8": "the weights of one component are rounded to INT8 (per channel)",
    "int8-tensor": "the weights of one component are rounded to INT8 (per tensor)",
    "int4": "the weights of one component are rounded to INT4 (in groups)",
    "fp8": "the weights of one component are rounded to FP8",
    "nf4": "the weights of one component are rounded to NF4",
    "int8-wa": "the weights and activations of one component are rounded to INT8",
    "fp8-wa": "the weights and activations of one component are rounded to FP8",
    "bnb-int8": "one component runs on bitsandbytes' INT8 kernels",
    "bnb-nf4": "one component runs on bitsandbytes' NF4 kernels",
}


@dataclass(frozen=True)
class Context:
    """What the points were taken from. ``components`` counts those in the table beside the whole model, and
    ``left_out`` those of them that are no points, by the reason.
    """

    impact_column: str
    setting: Mapping[str, Any]
    modelled: bool
    model_energy_mj: float | None
    components: int
    other_settings: int = 0
    left_out: Mapping[str, int] = field(default_factory=dict)

    @property
    def method(self) -> str:
        return self.impact_column.partition(":")[0]

    @property
    def metric(self) -> str:
        return self.impact_column.partition(":")[2]

    @property
    def change(self) -> str:
        return CHANGES.get(self.method, "one component is changed")

    @property
    def sensitivity(self) -> bool:
        return is_sensitivity(self.method)

    @property
    def unit(self) -> str:
        return "mJ (MODELLED)" if self.modelled else "mJ"

    @property
    def caution(self) -> str:
        return " (MODELLED energy)" if self.modelled else ""


def limits(low: float | None, high: float | None) -> str:
    """Write a coefficient's interval and whether it holds 0."""
    if low is None or high is None:
        return "no interval"
    return f"95 % interval {low:+.2f} to {high:+.2f}, which {'excludes' if low > 0 or high < 0 else 'includes'} 0"


def impact_text(value: float, low: float | None, high: float | None) -> str:
    """Write an impact with its interval."""
    return f"{value:.3g}, no interval" if low is None or high is None else f"{value:.3g} [{low:.3g}, {high:.3g}]"


def listed(words: Sequence[str], most: int = NAMED) -> str:
    """Join words with commas; beyond ``most``, how many are left."""
    rest = f" and {len(words) - most} more" if len(words) > most else ""
    return ", ".join(words[:most]) + rest


def share(part: float, whole: float) -> str:
    """Write a part as a percentage."""
    return f"{100 * part / whole:.1f} %" if whole else "an unknown share"


def count(number: int, noun: str) -> str:
    """Write an amount with its noun."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def plain(name: str) -> str:
    """Write a column's name as words."""
    return name.replace("_", " ")
