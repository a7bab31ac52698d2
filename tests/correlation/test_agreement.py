from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from energyscope.correlation.predictors import predictor_agreement
from energyscope.reasons import reason

NAMES = [f"h.{layer}.{part}" for layer in range(8) for part in ("attn", "mlp")]


def rows(method: str, metric: str, values: dict[str, float]) -> pd.DataFrame:
    table = pd.DataFrame({"component": list(values), "value": list(values.values())})
    ends = {"ci_low": table["value"] - 0.01, "ci_high": table["value"] + 0.01}
    return table.assign(method=method, metric=metric, valid=True, **ends)


def tree(*extra: tuple[str, str, str]) -> pd.DataFrame:
    parts = [(name, name.rpartition(".")[2], name.rpartition(".")[0]) for name in NAMES]
    layers = [(f"h.{layer}", "layer", "model") for layer in range(8)]
    return pd.DataFrame([*layers, *parts, *extra], columns=["component", "kind", "parent"])


def test_agreement_with_each_measured_impact() -> None:
    """GIVEN a predictor that is the KL, one that is its opposite, and two methods, THEN each pair has its rank."""
    kl = dict(zip(NAMES, np.random.default_rng(0).lognormal(size=16), strict=True))
    impact = pd.concat([
        rows("zero", "kl", kl),
        rows("int8", "kl", {name: -value for name, value in kl.items()}),
        rows("zero", "js", kl),
        rows("predict", "taylor_removal", {name: value**3 for name, value in kl.items()}),
        rows("predict", "sqnr_int8_db", {name: -value for name, value in kl.items()}),
    ])  # fmt: skip
    entries = {(entry["predictor"], entry["impact"]): entry for entry in predictor_agreement(impact, tree())}
    assert set(entries) == {
        (name, column) for name in ("taylor_removal", "sqnr_int8_db") for column in ("zero:kl", "int8:kl")
    }
    best = entries["taylor_removal", "zero:kl"]
    assert best["value"] == pytest.approx(1)
    assert best["n"] == 16
    assert best["ci_low"] > 0.9
    assert entries["taylor_removal", "int8:kl"]["value"] == pytest.approx(-1)
    assert entries["sqnr_int8_db", "zero:kl"]["expected"] == "negative"


def test_telling_kinds_apart_is_not_all() -> None:
    """GIVEN a predictor that knows the kinds and is wrong within them, THEN the value within kinds shows it."""
    kl = {name: layer + (20 if "mlp" in name else 0) for layer, name in enumerate(NAMES)}
    wrong = {name: -layer + (40 if "mlp" in name else 0) for layer, name in enumerate(NAMES)}
    (entry,) = predictor_agreement(pd.concat([rows("zero", "kl", kl), rows("predict", "fisher", wrong)]), tree())
    assert entry["value"] > 0.4
    assert entry["within_kinds"] < -0.9


def test_parents_and_joint_names_take_no_part() -> None:
    """GIVEN values of layers and of a joint removal too, THEN only the deepest single components are compared."""
    kl = {name: float(place) for place, name in enumerate(NAMES)}
    more = {"h.0": 99.0, "h.1": -99.0, "h.{layer}.mlp": 50.0}
    both = [rows("zero", "kl", kl | more), rows("predict", "fisher", kl | more)]
    (entry,) = predictor_agreement(pd.concat(both), tree())
    assert entry["n"] == 16


def test_too_few_say_why() -> None:
    """GIVEN seven components with both values, THEN there is a reason and no value, pooled or within kinds."""
    kl = {name: float(place) for place, name in enumerate(NAMES[:7])}
    (entry,) = predictor_agreement(pd.concat([rows("zero", "kl", kl), rows("predict", "fisher", kl)]), tree())
    few = reason("too-few-points", points=7, needed=8)
    assert (entry["value"], entry["reason"]) == (None, few)
    assert (entry["within_kinds"], entry["within_kinds_reason"]) == (None, few)
