"""Rank correlations between all columns of energy and impact. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from energyscope.correlation.association import why_not
from energyscope.correlation.coefficients import coefficient
from energyscope.impact.metrics import Floats
from energyscope.reasons import Reason, reason


def correlation_matrix(columns: Mapping[str, Floats], layers: Mapping[str, Floats], rows: int) -> dict[str, Any]:
    """Return Spearman's coefficient and the number of points of every pair of columns.

    ``columns`` holds the values (n,) of the components compared, NaN where unknown; ``layers`` those of the
    layers, (m,), of all columns too: a pair with a column that only layers have (all NaN elsewhere) is that of the
    layers. ``rows`` of the columns, the first ones, are energy. The result holds ``columns``, ``energy_columns``,
    and ``value``, ``n`` as lists of rows; ``reasons`` by ``"one|other"`` where the value is None; ``left_out``
    the columns without any value.
    """
    used = {
        name: layers if not np.isfinite(values).any() and np.isfinite(layers[name]).any() else columns
        for name, values in columns.items()
    }
    kept = [name for name in columns if np.isfinite(used[name][name]).any()]
    names = list(columns)
    value: list[list[float | None]] = [[None] * len(kept) for _ in kept]
    count = [[0] * len(kept) for _ in kept]
    reasons = {}
    for i, one in enumerate(kept):
        for j, other in enumerate(kept[: i + 1]):
            table = layers if used[one] is layers or used[other] is layers else columns
            spearman, n, why = _pair(table, one, other)
            value[i][j] = value[j][i] = spearman
            count[i][j] = count[j][i] = n
            if why is not None:
                reasons[f"{one}|{other}"] = why
    return {
        "method": "spearman",
        "columns": kept,
        "energy_columns": [name for name in kept if name in names[:rows]],
        "value": value,
        "n": count,
        "reasons": reasons,
        "left_out": {name: reason("no-value") for name in names if name not in kept},
    }


def _pair(table: Mapping[str, Floats], one: str, other: str) -> tuple[float | None, int, Reason | None]:
    known = np.isfinite(table[one]) & np.isfinite(table[other])
    x, y = table[one][known], table[other][known]
    if (why := why_not(x, y, names=(one, other))) is not None:
        return None, len(x), why
    return round(float(coefficient(x[None], y[None], "spearman")[0]), 4), len(x), None
