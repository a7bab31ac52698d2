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
    names = [name for name in columns if np.isfinite(used[name][name]).any()]
    value: list[list[float | None]] = [[None] * len(names) for _ in names]
    count = [[0] * len(names) for _ in names]
    reasons = {}
    for i, first in enumerate(names):
        for j, second in enumerate(names[: i + 1]):
            table = layers if used[first] is layers or used[second] is layers else columns
            spearman, n, why = _pair(table, first, second)
            value[i][j] = value[j][i] = spearman
            count[i][j] = count[j][i] = n
            if why is not None:
                reasons[f"{first}|{second}"] = why
    return {
        "method": "spearman",
        "columns": names,
        "energy_columns": [name for name in names if name in list(columns)[:rows]],
        "value": value,
        "n": count,
        "reasons": reasons,
        "left_out": {name: reason("no-value") for name in columns if name not in names},
    }


def _pair(table: Mapping[str, Floats], first: str, second: str) -> tuple[float | None, int, Reason | None]:
    known = np.isfinite(table[first]) & np.isfinite(table[second])
    x, y = table[first][known], table[second][known]
    if (why := why_not(x, y, names=(first, second))) is not None:
        return None, len(x), why
    return round(float(coefficient(x[None], y[None], "spearman")[0]), 4), len(x), None
