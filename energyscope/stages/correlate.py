"""Correlate: energy against impact, component by component. Pure functions over the tables of a run.

Points are the deepest components that were measured on their very layer: a parent would count its children's
energy twice, and a value taken over from another layer says nothing about this one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from energyscope.errors import DataError
from energyscope.impact.association import METHODS, Method, associate
from energyscope.impact.findings import Context, findings
from energyscope.impact.quadrants import Point, assign_quadrants
from energyscope.runs import schema

if TYPE_CHECKING:
    import pandas as pd

SETTING = ("phase", "precision", "execution", "batch_size", "context_length")
CORRELATED_METRICS = ("kl", "accuracy_difference", "perplexity_difference", "top1_agreement")


def merge(energy: pd.DataFrame, impact: pd.DataFrame) -> pd.DataFrame:
    """Return the energy table with one more column for each ``method:metric`` of the impact table.

    Rows and their order are the energy table's; a component's impact, which does not depend on phase or
    batch size, stands in each of its rows. Impact that is invalid or was not measured is empty.
    """
    ordered = [name for name in schema.ENERGY_COLUMNS if name in energy]
    merged = energy[ordered + [name for name in energy if name not in ordered]].reset_index(drop=True)
    for name in impact_columns(impact):
        merged[name] = merged["component"].map(_valid_impact(impact, name)["value"]).astype("float64")
    return merged


def correlate(
    energy: pd.DataFrame,
    impact: pd.DataFrame,
    *,
    impact_column: str = "zero:kl",
    modelled: bool = False,
    seed: int = 0,
) -> dict[str, Any]:
    """Correlate the components' energy with their impact; return the document that is kept as correlation.json.

    ``energy`` and ``impact`` are the tables of `schema.EnergyRow` and `schema.ImpactRow`. Where the energy
    table holds several settings, that of the prefill phase counts (the impact is that of a pass over whole
    texts), of several such the first. ``modelled`` says that the joules are time x stated watts; it is also
    seen from the meter's name.

    Raises:
        DataError: the impact table does not hold ``impact_column``.

    """
    columns = impact_columns(impact)
    if impact_column not in columns:
        raise DataError(f"no impact {impact_column!r} was measured (there is: {', '.join(columns) or 'none'})")
    setting = one_setting(energy)
    measured = deepest_measured(setting)
    points = _points(measured, _valid_impact(impact, impact_column))
    thresholds = assign_quadrants(points, impact_column.partition(":")[2])
    correlations = [
        _correlation(measured, impact, column, method, seed)
        for column in columns
        if column.partition(":")[2] in CORRELATED_METRICS
        for method in METHODS
    ]
    context = Context(
        impact_column=impact_column,
        setting=_first(setting, SETTING),
        modelled=modelled or bool((setting["meter"] == "modelled").any()),
        model_energy_mj=_model_energy(setting),
        components=int((setting["kind"] != "model").sum()),
        other_settings=len(energy) - len(setting),
    )
    return {
        "impact": impact_column,
        "points": [asdict(point) for point in points],
        "correlations": correlations,
        "quadrants": {
            "energy_threshold_mj": thresholds.energy_mj,
            "impact_threshold": thresholds.impact,
            "rule": thresholds.rule,
        },
        "findings": findings(points, correlations, thresholds, context),
    }


def impact_columns(impact: pd.DataFrame) -> list[str]:
    """Return the ``method:metric`` names of an impact table, in its order."""
    return list(dict.fromkeys(f"{row.method}:{row.metric}" for row in impact.itertuples()))


def one_setting(energy: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of one phase, precision, execution, batch size and length: prefill's, or else the first."""
    if energy.empty:
        return energy
    prefill = energy[energy["phase"] == "prefill"]
    chosen = energy if prefill.empty else prefill
    keys = chosen[list(SETTING)].astype(str)
    return chosen[keys.eq(keys.iloc[0]).all(axis=1)]


def deepest_measured(energy: pd.DataFrame) -> pd.DataFrame:
    """Return the rows that may be compared with each other: each joule is in at most one of them.

    Those are components measured on their very layer, with an energy of sufficient quality, below which no
    such component lies; never the whole model.
    """
    usable = energy["energy_mj"].notna() & ~energy["reused"].eq(True) & (energy["quality"] != "invalid")
    measured = energy[usable & (energy["kind"] != "model")]
    above = _ancestors(measured["component"], _parents(energy))
    return measured[~measured["component"].isin(above)]


def _ancestors(names: Iterable[str], parents: dict[str, Any]) -> set[str]:
    found: set[str] = set()
    for name in names:
        above = parents.get(name)
        while isinstance(above, str) and above not in found:
            found.add(above)
            above = parents.get(above)
    return found


def _parents(energy: pd.DataFrame) -> dict[str, Any]:
    return dict(zip(energy["component"], energy["parent"], strict=True))


def _valid_impact(impact: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return value, ci_low and ci_high of one ``method:metric`` by component, of valid rows only."""
    method, _, metric = column.partition(":")
    chosen = impact[(impact["method"] == method) & (impact["metric"] == metric) & impact["valid"].eq(True)]
    numbers = chosen.set_index("component")[["value", "ci_low", "ci_high"]].astype("float64")
    numbers = numbers[~numbers.index.duplicated(keep="last")]  # a resumed run may have measured one again
    return numbers[numbers["value"].notna()]


def _points(measured: pd.DataFrame, impact: pd.DataFrame) -> list[Point]:
    joined = measured.join(impact, on="component", how="inner")
    return [
        Point(
            component=str(row["component"]),
            kind=str(row["kind"]),
            layer=None if (layer := _number(row["layer"])) is None else int(layer),
            energy_mj=float(row["energy_mj"]),
            energy_ci_low_mj=_number(row["energy_ci_low_mj"]),
            energy_ci_high_mj=_number(row["energy_ci_high_mj"]),
            impact=float(row["value"]),
            impact_ci_low=_number(row["ci_low"]),
            impact_ci_high=_number(row["ci_high"]),
        )
        for row in joined.to_dict("records")
    ]


def _correlation(
    measured: pd.DataFrame, impact: pd.DataFrame, column: str, method: Method, seed: int
) -> dict[str, Any]:
    joined = measured.join(_valid_impact(impact, column), on="component", how="inner")
    found = associate(
        joined["energy_mj"].to_numpy("float64"), joined["value"].to_numpy("float64"), method, seed=seed
    )
    return {"x": "energy_mj", "y": column, **asdict(found)}


def _model_energy(energy: pd.DataFrame) -> float | None:
    model = energy[(energy["kind"] == "model") & (energy["quality"] != "invalid")]
    return None if model.empty else _number(model["energy_mj"].iloc[0])


def _first(energy: pd.DataFrame, names: Iterable[str]) -> dict[str, Any]:
    return {} if energy.empty else {name: energy[name].iloc[0] for name in names}


def _number(value: Any) -> float | None:
    number = float("nan") if value is None or str(value) == "<NA>" else float(value)
    return number if math.isfinite(number) else None
