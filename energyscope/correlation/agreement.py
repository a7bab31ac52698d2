"""Do cheap predictors rank components as the measured impact does? Pure functions over the impact table."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from energyscope.correlation.association import rank_agreement, why_not
from energyscope.correlation.leaves import deepest, impact_axis, impact_columns, measured_columns, valid_impact
from energyscope.correlation.within import adjusted_ranks
from energyscope.impact.methods import PREDICT

if TYPE_CHECKING:
    import pandas as pd

METRIC = "kl"
FALLING = ("sqnr_int8_db",)  # the more signal there is over the noise, the less impact is expected


def predictor_agreement(impact: pd.DataFrame, energy: pd.DataFrame, seed: int = 0) -> list[dict[str, Any]]:
    """Return the rank agreement of each predictor with the measured KL divergence of each method.

    Each entry holds ``predictor, impact, n, value, ci_low, ci_high, reason`` (Spearman, no p-value; resamples draw
    kinds before points), ``expected`` (the sign that a useful predictor has) and ``within_kinds`` (the coefficient
    of the ranks centred within each kind: what the predictor knows beyond telling kinds apart), or None with
    ``within_kinds_reason``. Compared are the deepest components of the energy table's tree that have both values.
    """
    columns = impact_columns(impact)
    predictors = [name for name in columns if name.startswith(f"{PREDICT}:")]
    measured = [name for name in measured_columns(impact) if name.endswith(f":{METRIC}")]
    values = {name: valid_impact(impact, name) for name in predictors + measured}
    return [
        _agreement(name.partition(":")[2], column, values[name], values[column], energy, seed)
        for name in predictors
        for column in measured
    ]


def _agreement(
    predictor: str, column: str, predicted: pd.DataFrame, measured: pd.DataFrame, energy: pd.DataFrame, seed: int
) -> dict[str, Any]:
    both = predicted.index.intersection(measured.index)
    rows = deepest(energy[energy["component"].isin(both)].drop_duplicates("component"), energy)
    names = rows["component"].tolist()
    x, y = impact_axis(predicted.loc[names]), impact_axis(measured.loc[names])
    kinds = [str(kind) for kind in rows["kind"]]
    inside, inside_reason = adjusted_ranks(kinds, x, y, (predictor, column))
    entry: dict[str, Any] = {
        "predictor": predictor,
        "impact": column,
        "n": len(names),
        "expected": "negative" if predictor in FALLING else "positive",
        **dict.fromkeys(("value", "ci_low", "ci_high")),
        "reason": why_not(x.values, y.values, names=(predictor, column)),
        "within_kinds": inside,
        "within_kinds_reason": inside_reason,
    }
    if entry["reason"] is None:
        agreement = asdict(rank_agreement(x, y, seed, kinds))
        entry |= {name: agreement[name] for name in ("value", "ci_low", "ci_high", "reason")}
    return entry
