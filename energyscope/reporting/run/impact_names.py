"""What changes to a model, and the metrics of what they do to its predictions, are called."""

from __future__ import annotations

METHODS = {
    "zero": "removed (zeros)",
    "mean": "removed (mean)",
    "resample": "removed (resampled)",
    "skip": "layer skipped",
    "int8": "INT8",
    "int8-tensor": "INT8 per tensor",
    "int4": "INT4",
    "fp8": "FP8",
    "nf4": "NF4",
    "int8-wa": "INT8 with activations",
    "fp8-wa": "FP8 with activations",
    "bnb-int8": "bitsandbytes INT8",
    "bnb-nf4": "bitsandbytes NF4",
}
METRICS = {
    "kl": ("KL divergence (nats)", ""),
    "js": ("Jensen-Shannon divergence (nats)", ""),
    "loss_difference": ("Loss difference (nats)", ""),
    "perplexity_difference": ("Perplexity difference", ""),
    "accuracy_difference": ("Accuracy difference", "change"),
    "top1_agreement": ("Top-1 agreement", "share"),
    "logit_difference": ("Logit margin difference", ""),
    "output_change": ("Change of its own output", "share"),
}


def method_name(method: str) -> str:
    """Return what a method is called."""
    return METHODS.get(method, method.replace("_", " "))


def impact_name(column: str) -> str:
    """Return what a column of impact, such as ``zero:kl``, is called."""
    method, _, metric = column.partition(":")
    return f"{METRICS.get(metric, (metric, ''))[0]}, {method_name(method)}" if metric else column
