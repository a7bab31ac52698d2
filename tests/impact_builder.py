"""Impact tables with every kind of row: removal, INT8 over six decades, heads, kinds and layers together."""

from __future__ import annotations

import pandas as pd

from energyscope.runs.store import Run

VALUES = ["value", "ci_low", "ci_high"]
HEADS = 2  # of each attention


def every_impact(run: Run, *, zero_kl: bool = False) -> pd.DataFrame:
    """Return a run's impact table with such rows; with ``zero_kl``, one of the INT8 ones is 0."""
    assert run.impact is not None
    zero = run.impact[run.impact["method"] == "zero"]
    quantized = _quantized(zero)
    if zero_kl:
        first = (quantized["metric"] == "kl") & (quantized["component"] == "transformer.h.0.mlp")
        quantized.loc[first, VALUES] = 0.0
    attention = zero[zero["kind"] == "attention"]
    heads = [
        attention.assign(component=attention["component"] + f".head.{head}", kind="attention.head")
        for head in range(HEADS)
    ]
    inner = zero["kind"].isin(["attention", "mlp"]) | zero["component"].str.contains(".ln_", regex=False)
    together = zero[inner & (zero["layer"] == 0)].assign(
        component=lambda rows: rows["component"].str.replace("h.0", "h.{layer}"), layer=None
    )
    skipped = zero[zero["kind"] == "layer"].assign(method="skip")
    pair = skipped[skipped["layer"] == 0].assign(component="transformer.h.0+transformer.h.1", layer=None)
    for joint in (together, pair):
        joint.loc[:, VALUES] *= 10
    parts = [run.impact, quantized, *heads, together, skipped, pair]
    return pd.concat([part.astype(object) for part in parts], ignore_index=True)


def _quantized(zero: pd.DataFrame) -> pd.DataFrame:
    quantized = zero.assign(method="int8")
    shrink = pd.Series([10.0 ** -(1 + index % 6) for index in range(len(quantized))], index=quantized.index)
    for name in VALUES:
        quantized[name] *= shrink
    return quantized
