"""The matrix of rank correlations: a cell for each pair of columns, blue where they fall together."""

from __future__ import annotations

from typing import Any

from energyscope.reporting.charts import theme
from energyscope.reporting.data.matrix import Matrix

ROW_HEIGHT = 26
WRITTEN = 14  # with more columns, the cells are too narrow to write in


def matrix(data: Matrix, description: str) -> Any:
    """Draw the lower triangle; a pair without a coefficient is an empty frame."""
    alt = theme.altair()
    records = [
        {
            "one": cell.one,
            "other": cell.other,
            "value": cell.value,
            "said": "" if cell.value is None else f"{cell.value:+.2f}",
            "short": "" if cell.value is None else _short(cell.value),
            "n": cell.n,
            "note": cell.reason or "",
        }
        for cell in data.cells
    ]
    across = alt.X(
        "other:N", sort=data.columns[:-1], title=None, axis=alt.Axis(labelAngle=-50, ticks=False, domain=False)
    )
    down = alt.Y("one:N", sort=data.columns[1:], title=None, axis=alt.Axis(ticks=False, domain=False))
    base = alt.Chart(theme.rows(records)).encode(x=across, y=down)
    tooltip = [
        alt.Tooltip("one:N", title="column"),
        alt.Tooltip("other:N", title="with"),
        alt.Tooltip("said:N", title="Spearman"),
        alt.Tooltip("n:Q", title="components"),
        alt.Tooltip("note:N", title="note"),
    ]
    scale = alt.Scale(scheme="redblue", domain=[-1, 1], domainMid=0)
    legend = alt.Legend(orient="top", gradientLength=160)
    cells = base.transform_filter("isValid(datum.value)").mark_rect(cornerRadius=2).encode(
        color=alt.Color("value:Q", scale=scale, title="Spearman", legend=legend),
        tooltip=tooltip,
    )  # fmt: skip
    empty = base.transform_filter("!isValid(datum.value)").mark_rect(
        fillOpacity=0, strokeWidth=1, strokeOpacity=0.35, stroke="#888888", cornerRadius=2
    )
    layers = [empty.encode(tooltip=tooltip), cells]
    if len(data.columns) <= WRITTEN:
        written = base.transform_filter("isValid(datum.value)").mark_text(fontSize=9).encode(
            text="short:N",
            color=alt.condition("abs(datum.value) > 0.55", alt.value("#ffffff"), alt.value("#1d2733")),
            tooltip=tooltip,
        )  # fmt: skip
        layers.append(written)
    return theme.finish(alt.layer(*layers), description, ROW_HEIGHT * (len(data.columns) - 1))


def _short(value: float) -> str:
    """Write a coefficient with one digit and nothing else: a telephone has twenty pixels for it."""
    rounded = round(value, 1)
    return f"{rounded + 0.0:.0f}" if abs(rounded) in {0.0, 1.0} else f"{rounded:.1f}".replace("0.", ".")
