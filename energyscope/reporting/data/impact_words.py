"""What the methods and metrics of the impact table are called, and how their values are written."""

from __future__ import annotations

from energyscope.reporting import text
from energyscope.runs.intervals import Interval

METRIC_TITLES = {
    "kl": "KL divergence of the outputs (nats)",
    "js": "Jensen-Shannon divergence of the outputs (nats)",
    "loss_difference": "Loss difference (changed - original, nats)",
    "perplexity_difference": "Perplexity difference (changed - original)",
    "accuracy_difference": "Accuracy difference (changed - original)",
    "top1_agreement": "Top-1 agreement (share of predictions that stay)",
    "logit_difference": "Logit difference (changed - original)",
    "output_change": "Relative change of the component's own output",
}
SHORT_TITLES = {
    "kl": "KL (nats)",
    "perplexity_difference": "Perplexity difference",
    "accuracy_difference": "Accuracy difference",
}
METHOD_TITLES = {
    "zero": "zero ablation",
    "mean": "mean ablation",
    "resample": "resample ablation",
    "skip": "layer skipped",
    "int8": "INT8 weights",
    "int8-tensor": "INT8 weights, per tensor",
    "int4": "INT4 weights",
    "fp8": "FP8 weights",
    "nf4": "NF4 weights",
    "int8-wa": "INT8 weights and activations",
    "fp8-wa": "FP8 weights and activations",
    "bnb-int8": "bitsandbytes INT8",
    "bnb-nf4": "bitsandbytes NF4",
    "predict": "predictors",
}
METHOD_WORDS = {
    "zero": "the output is replaced by zeros",
    "mean": "the output is replaced by its mean over the data",
    "resample": "the output is replaced by that for another example",
    "skip": "a whole layer hands on what it was given",
    "int8": "simulated: weights rounded to 8 bits, one scale for each output channel",
    "int8-tensor": "simulated: weights rounded to 8 bits, one scale for the whole tensor",
    "int4": "simulated: weights rounded to 4 bits, in groups with a scale of their own",
    "fp8": "simulated: weights rounded to 8-bit floats (E4M3)",
    "nf4": "simulated: weights rounded to the 16 levels of NormalFloat4, in blocks",
    "int8-wa": "simulated: weights and the activations that meet them rounded to 8 bits",
    "fp8-wa": "simulated: weights and the activations that meet them rounded to 8-bit floats (E4M3)",
    "bnb-int8": "real: the layers are replaced by bitsandbytes' INT8 layers, with their kernels",
    "bnb-nf4": "real: the layers are replaced by bitsandbytes' NF4 layers, with their kernels",
}
SHARES = frozenset({"top1_agreement", "accuracy_difference"})
_SMALL = 1e-3  # below, limits are written with powers of ten: fixed decimals would show zeros


def metric_title(metric: str) -> str:
    """Return what a metric is called in titles and captions."""
    return METRIC_TITLES.get(metric, metric.replace("_", " "))


def short_title(metric: str) -> str:
    """Return what a metric is called on axes and legends, short enough for a phone."""
    return SHORT_TITLES.get(metric, metric_title(metric))


def method_title(method: str) -> str:
    """Return what a method is called in legends and tables."""
    return METHOD_TITLES.get(method, method.replace("_", " "))


def value_text(value: float | None, metric: str) -> str:
    """Write a value of a metric: shares as percentages, the rest as numbers."""
    if value is None:
        return text.UNKNOWN
    if metric in SHARES:
        return text.percent(value)
    return text.number(value)


def limited_text(item: Interval | None, metric: str) -> str:
    """Write a value of a metric with its 95 % limits; alone where no limits are known."""
    if item is None:
        return text.UNKNOWN
    if item.low is None or item.high is None:
        return value_text(item.value, metric)
    if metric in SHARES:
        return text.percent_with_limits(item)
    if 0 < abs(item.value) < _SMALL:
        return f"{item.value:.2e} [{item.low:.2e}, {item.high:.2e}]"
    return text.with_limits(item, "")
