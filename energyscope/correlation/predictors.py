"""Does something cheaper than a measurement rank components as well? Pure functions over tables and arrays.

`null_models` compares parameters, FLOPs and bytes with energy as predictors of impact, and with impact as
predictors of energy: a correlation of energy with impact is worth little where a count, which needs no
measurement, does as well. `predictor_agreement` compares predictors of impact (`energyscope.impact.predicting`)
with measured impact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from energyscope.correlation.association import rank_agreement, why_not
from energyscope.correlation.coefficients import Ints, coefficient
from energyscope.correlation.leaves import deepest, impact_axis, impact_columns, measured_columns, valid_impact
from energyscope.correlation.resampling import Resamples, UncertainValues, axis, clusters_of
from energyscope.correlation.within import adjusted_ranks
from energyscope.impact.methods import PREDICT
from energyscope.impact.metrics import Floats, percentile_interval

if TYPE_CHECKING:
    import pandas as pd

PREDICTORS = ("parameters", "flops", "bytes")
METRIC = "kl"
FALLING = ("sqnr_int8_db",)  # the more signal there is over the noise, the less impact is expected

COMPARED = (
    "value", "ci_low", "ci_high", "measured", "measured_ci_low", "measured_ci_high", "difference",
    "difference_ci_low", "difference_ci_high", "better", "reason",
)  # fmt: skip


def null_models(
    predictors: dict[str, Floats],
    energy: UncertainValues,
    impact: UncertainValues,
    seed: int = 0,
    kinds: Sequence[str] | None = None,
) -> list[dict[str, Any]]:
    """Compare each predictor (n,), NaN where unknown, with energy as a predictor of impact, and the reverse.

    ``kinds`` names the kind of each point, (n,); kinds are drawn before their points (see `resampling`).

    Each entry holds ``predictor, target, n``; ``value``, Spearman's coefficient of the two, and ``measured``, that
    of energy with impact, each with its interval; ``reason`` where something is None. ``difference`` is that of
    their sizes, each with the sign that it has over all points: positive where the null model ranks the target
    better. Its interval is from the same resamples of both (paired). ``better`` names the better one where that
    excludes 0.
    """
    entries = []
    for name, values in predictors.items():
        known: Ints = np.flatnonzero(np.isfinite(values))
        null, axes = axis(values[known]), {"energy": energy[known], "impact": impact[known]}
        known_kinds = None if kinds is None else [kinds[place] for place in known]
        entries += [
            _comparison(name, null, target, other, axes, seed, known_kinds)
            for target, other in (("impact", "energy"), ("energy", "impact"))
        ]
    return entries


def _comparison(
    name: str,
    null: UncertainValues,
    target_name: str,
    other_name: str,
    axes: Mapping[str, UncertainValues],
    seed: int,
    kinds: Sequence[str] | None,
) -> dict[str, Any]:
    n, target, other = len(null), axes[target_name], axes[other_name]
    entry: dict[str, Any] = {"predictor": name, "target": target_name, "n": n, **dict.fromkeys(COMPARED)}
    why = why_not(null.values, target.values, names=(name, target_name))
    why = why or why_not(other.values, target.values, names=(other_name, target_name))
    if why is not None:
        return entry | {"reason": why}
    counted, measured = (rank_agreement(predictor, target, seed, kinds) for predictor in (null, other))
    resamples = Resamples(n, seed, clusters=clusters_of(kinds))
    coefficients = (counted.value or 0.0, measured.value or 0.0)
    difference, low, high = _difference((null, other), coefficients, target, resamples)
    better = None
    if low is not None and high is not None and not low <= 0 <= high:
        better = name if low > 0 else other_name
    estimates = [(e.value, e.ci_low, e.ci_high) for e in (counted, measured)]
    values = (*estimates[0], *estimates[1], difference, low, high, better, counted.reason or measured.reason)
    return entry | dict(zip(COMPARED, values, strict=True))


def _difference(
    predictors: tuple[UncertainValues, UncertainValues],
    values: tuple[float, float],
    target: UncertainValues,
    resamples: Resamples,
) -> tuple[float, float | None, float | None]:
    """Return the difference of the sizes of two coefficients, of these values, with its paired interval."""
    sizes, both, alone = [], [], []
    for stream, (predictor, value) in enumerate(zip(predictors, values, strict=True), start=1):
        sign = -1.0 if value < 0 else 1.0
        sizes.append(sign * value)
        both.append(sign * resamples.coefficients(predictor, target, "spearman", streams=(stream, 0)))
        redrawn = resamples.keep(predictor, stream), resamples.keep(target, 0)
        alone.append(sign * coefficient(*redrawn, "spearman"))
    difference, drawn = sizes[0] - sizes[1], both[0] - both[1]
    drawn = drawn[np.isfinite(drawn)]
    if len(drawn) < resamples.rows / 2:
        return difference, None, None
    return difference, *percentile_interval(drawn + difference - float(np.nanmedian(alone[0] - alone[1])))


def predictor_agreement(impact: pd.DataFrame, energy: pd.DataFrame, seed: int = 0) -> list[dict[str, Any]]:
    """Return the rank agreement of each predictor with the measured KL divergence of each method.

    Each entry holds ``predictor, impact, n, value, ci_low, ci_high, reason`` (Spearman, no p-value; resamples draw
    kinds before points), ``expected`` (the sign that a useful predictor has) and ``within_kinds`` (the coefficient
    of the ranks centred within each kind: what the predictor knows beyond telling kinds apart), or None with
    ``within_kinds_reason``. The deepest components of the energy table's tree that have both values are compared.
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
    within, within_reason = adjusted_ranks(kinds, x, y, (predictor, column))
    entry: dict[str, Any] = {
        "predictor": predictor,
        "impact": column,
        "n": len(names),
        "expected": "negative" if predictor in FALLING else "positive",
        **dict.fromkeys(("value", "ci_low", "ci_high")),
        "reason": why_not(x.values, y.values, names=(predictor, column)),
        "within_kinds": within,
        "within_kinds_reason": within_reason,
    }
    if entry["reason"] is None:
        agreement = asdict(rank_agreement(x, y, seed, kinds))
        entry |= {name: agreement[name] for name in ("value", "ci_low", "ci_high", "reason")}
    return entry
