"""Correlate: energy against impact, component by component. Pure functions over the tables of a run.

`leaves` says which components are compared. The document holds the points with their quadrants, the correlations
pooled and within kinds, null models, all columns' rank correlations, and the advice that follows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from energyscope.accounting.checks import Checks, checks
from energyscope.correlation import leaves
from energyscope.correlation.advice import Advice, advise, sensitivity_column
from energyscope.correlation.association import METHODS, associate, correlation_matrix, too_few
from energyscope.correlation.heads import apportioned
from energyscope.correlation.joint import joint_effects
from energyscope.correlation.predictors import PREDICTORS, null_models, predictor_agreement
from energyscope.correlation.quadrants import (
    UNDECIDED,
    Point,
    Thresholds,
    add_stability,
    assign_quadrants,
    energies,
    impacts,
)
from energyscope.correlation.within import RULE, adjusted, within_kinds
from energyscope.errors import DataError
from energyscope.impact.methods import is_sensitivity
from energyscope.impact.metrics import Floats
from energyscope.reasons import Reason, reason
from energyscope.runs import schema
from energyscope.runs.method import execution_of
from energyscope.runs.store import Run, RunStore, load_run

if TYPE_CHECKING:
    import pandas as pd

    from energyscope.stages.context import Context, Entries

CORRELATED_METRICS = ("kl", "accuracy_difference", "perplexity_difference", "top1_agreement")
NUMERIC_ENERGY = (
    "energy_mj", "static_mj", "dynamic_mj", "time_us", "power_w", "flops", "bytes", "parameters",
)  # fmt: skip
DEFAULT_METHODS = ("zero", "mean", "resample")


def run(context: Context) -> Reason | None:
    """Relate a run's energy to its impact; return why that is not possible."""
    context.progress("correlate", "energy against impact", 0, 1)
    return _relate(context.store, context.settings.seed)


def write(store: RunStore, _: Entries) -> bool:
    """Relate the recovered tables, where that was asked for; False if one is missing."""
    settings = store.document.get("settings") or {}
    if "correlate" not in settings.get("stages", ()):
        return False
    return _relate(store, int(settings.get("seed", 0))) is None


def _relate(store: RunStore, seed: int) -> Reason | None:
    """Write the merged table and the correlation; return why not, where a table is missing."""
    tables = load_run(store.path)
    if tables.energy is None or tables.impact is None:
        return reason("nothing-to-relate", missing="energy" if tables.energy is None else "impact")
    merged = merge(tables.energy, tables.impact)
    store.write_rows(schema.MERGED_FILE, merged.to_dict("records"), schema.ENERGY_COLUMNS)
    try:
        column = default_impact(tables.impact)
    except DataError:  # predictors only
        return reason("nothing-to-relate", missing="impact")
    document = correlate(
        tables.energy,
        tables.impact,
        impact_column=column,
        modelled=tables.modelled,
        seed=seed,
        checks=_checks(tables),
    )
    store.write_json(schema.CORRELATION_FILE, document)
    return None


def _checks(run: Run) -> Checks:
    """Return the checks of the phase whose energies are compared (`leaves.one_setting`)."""
    described = [*(entry for entry in run.scenes if entry.get("phase") == "prefill"), *run.scenes, run.document]
    return checks(described[0], str(described[0].get("execution") or execution_of(run.document)))


def merge(energy: pd.DataFrame, impact: pd.DataFrame) -> pd.DataFrame:
    """Return the energy table with one more column for each ``method:metric`` of the impact table.

    Rows and their order are the energy table's; a component's impact, which does not depend on phase or
    batch size, stands in each of its rows. Impact that is invalid or was not measured is empty. Attention heads
    come last, with their apportioned energy.
    """
    import pandas as pd

    ordered = [name for name in schema.ENERGY_COLUMNS if name in energy]
    merged = energy[ordered + [name for name in energy if name not in ordered]].reset_index(drop=True)
    if of_heads := apportioned(energy, impact):
        merged = pd.concat([merged, pd.DataFrame(of_heads).dropna(axis=1, how="all")], ignore_index=True)
    impacts = {
        name: merged["component"].map(leaves.valid_impact(impact, name)["value"]).astype("float64")
        for name in leaves.impact_columns(impact)
    }
    return pd.concat([merged, pd.DataFrame(impacts, index=merged.index)], axis=1)


def default_impact(impact: pd.DataFrame) -> str:
    """Return the impact column that is compared where none is asked for: the KL of a removal, if there is one.

    Raises:
        DataError: the table holds no impact.

    """
    columns = leaves.measured_columns(impact)
    if not columns:
        raise DataError("no impact was measured: there is nothing to relate energy to")
    named = [f"{method}:kl" for method in DEFAULT_METHODS]
    return next((name for name in [*named, *columns] if name in columns and name.endswith(":kl")), columns[0])


def correlate(
    energy: pd.DataFrame,
    impact: pd.DataFrame,
    *,
    impact_column: str = "zero:kl",
    modelled: bool = False,
    seed: int = 0,
    checks: Checks | None = None,
) -> dict[str, Any]:
    """Correlate the components' energy with their impact; return the document that is kept as correlation.json.

    ``energy`` and ``impact`` are the tables of `schema.EnergyRow` and `schema.ImpactRow`. Of several settings the
    first one of the prefill phase counts: impact is that of a pass over whole texts. ``modelled`` says that the
    joules are time x stated watts; it is also seen from the meter's name. ``checks`` say whether the energies of
    that setting add up and agree with the model without each kind; without them, advice is withheld. In the
    document, ``unrelated`` says why there are no coefficients (None: there are).

    Raises:
        DataError: the impact table does not hold ``impact_column``.

    """
    columns = leaves.measured_columns(impact)
    if impact_column not in columns:
        raise DataError(f"no impact {impact_column!r} was measured (there is: {', '.join(columns) or 'none'})")
    setting = leaves.one_setting(energy)
    modelled = modelled or bool((setting["meter"] == "modelled").any())
    points, thresholds = _placed_points(setting, impact, impact_column, seed)
    kinds, heat, effect = [point.kind for point in points], energies(points), impacts(points)
    advised_by = sensitivity_column(columns) or impact_column
    advice = _advice(setting, impact, advised_by, checks=checks or Checks(), modelled=modelled, seed=seed)
    return {
        "impact": impact_column,
        "compared": {
            **_compared(setting, modelled=modelled),
            "left_out": leaves.left_out(impact_column, setting, impact),
            "other_rows": len(energy) - len(setting),
        },
        "points": [asdict(point) for point in points],
        "unrelated": too_few(len(points)),
        "correlations": _correlations(setting, impact, columns, seed),
        "quadrants": {
            "energy_threshold_mj": thresholds.energy_mj,
            "impact_threshold": thresholds.impact,
            "rule": thresholds.rule,
        },
        "adjusted": [
            {"x": "energy_mj", "y": impact_column, **asdict(adjusted(kinds, heat, effect, method, seed))}
            for method in METHODS
        ],
        "within_kinds": {"rule": RULE, "kinds": within_kinds(kinds, heat, effect, seed)},
        "nulls": null_models(_null_values(setting, points), heat, effect, seed, kinds),
        "matrix": _matrix(setting, impact, columns),
        "predictors": predictor_agreement(impact, setting, seed),
        "joint": joint_effects(impact),
        "advice": [asdict(entry) for entry in advice],
        "advice_column": advised_by,
    }


def _compared(setting: pd.DataFrame, *, modelled: bool) -> dict[str, Any]:
    model = setting[(setting["kind"] == "model") & (setting["quality"] != "invalid")]
    first: list[dict[str, Any]] = setting[list(leaves.SETTING)].head(1).to_dict("records")  # type: ignore[assignment]
    return {
        **(first[0] if first else {}),
        "modelled": modelled,
        "model_energy_mj": None if model.empty else leaves.number(model["energy_mj"].iloc[0]),
        "components": int((setting["kind"] != "model").sum()),
    }


def _placed_points(
    setting: pd.DataFrame, impact: pd.DataFrame, column: str, seed: int
) -> tuple[list[Point], Thresholds]:
    metric = column.partition(":")[2]
    measured = leaves.measured_for(column, setting)
    points = _points(measured, leaves.valid_impact(impact, column), leaves.stand_ins(measured, setting))
    thresholds = assign_quadrants(points, metric)
    add_stability(points, metric, seed)
    return points, thresholds


def _points(measured: pd.DataFrame, impact: pd.DataFrame, higher: set[str]) -> list[Point]:
    joined = measured.join(impact, on="component", how="inner")
    return [
        Point(
            component=str(row["component"]),
            kind=str(row["kind"]),
            layer=None if (layer := leaves.number(row["layer"])) is None else int(layer),
            energy_mj=float(row["energy_mj"]),
            energy_ci_low_mj=leaves.number(row["energy_ci_low_mj"]),
            energy_ci_high_mj=leaves.number(row["energy_ci_high_mj"]),
            impact=float(row["value"]),
            impact_ci_low=leaves.number(row["ci_low"]),
            impact_ci_high=leaves.number(row["ci_high"]),
            quality=str(row["quality"]),
            stands_for_parts=row["component"] in higher,
        )
        for row in joined.to_dict("records")
    ]


def _correlations(
    setting: pd.DataFrame, impact: pd.DataFrame, columns: Sequence[str], seed: int
) -> list[dict[str, Any]]:
    entries = []
    for column in columns:
        if column.partition(":")[2] in CORRELATED_METRICS:
            measured = leaves.measured_for(column, setting)
            joined = measured.join(leaves.valid_impact(impact, column), on="component", how="inner")
            heat, effect = leaves.energy_axis(joined), leaves.impact_axis(joined)
            kinds = joined["kind"].astype(str).tolist()
            entries += [
                {"x": "energy_mj", "y": column, **asdict(associate(heat, effect, method, seed, kinds=kinds))}
                for method in METHODS
            ]
    return entries


def _null_values(setting: pd.DataFrame, points: Sequence[Point]) -> dict[str, Floats]:
    by_name = setting.drop_duplicates("component").set_index("component")
    names = [point.component for point in points]
    return {name: _floats(by_name.reindex(names), name) for name in PREDICTORS}


def _matrix(setting: pd.DataFrame, impact: pd.DataFrame, columns: Sequence[str]) -> dict[str, Any]:
    values = {name: leaves.valid_impact(impact, name)["value"] for name in columns}

    def table(rows: pd.DataFrame) -> dict[str, Floats]:
        numbers = {name: _floats(rows, name) for name in NUMERIC_ENERGY}
        mapped = {name: rows["component"].map(column).to_numpy("float64") for name, column in values.items()}
        return numbers | mapped

    layers, leaf = leaves.measured_for("skip:kl", setting), leaves.deepest_measured(setting)
    return correlation_matrix(table(leaf), table(layers), len(NUMERIC_ENERGY))


def _advice(
    setting: pd.DataFrame, impact: pd.DataFrame, column: str, *, checks: Checks, modelled: bool, seed: int
) -> list[Advice]:
    method, _, metric = column.partition(":")
    points, _ = _placed_points(setting, impact, column, seed)
    advised = advise(points, sensitivity=is_sensitivity(method), checks=checks, modelled=modelled)
    chosen = impact[(impact["method"] == method) & (impact["metric"] == metric)]
    reasons = dict(zip(chosen["component"], chosen["reasons"].fillna(""), strict=True))
    names = {entry.component for entry in advised}
    return advised + [
        Advice(
            component=str(row["component"]),
            quadrant=UNDECIDED,
            withheld_because=_without_impact(column, str(reasons.get(row["component"], ""))),
            energy_mj=float(row["energy_mj"]),
        )
        for row in leaves.measured_for(column, setting).to_dict("records")
        if row["component"] not in names
    ]


def _without_impact(column: str, why: str) -> Reason:
    return reason("impact-invalid", impact=column, why=why) if why else reason("no-valid-impact", impact=column)


def _floats(rows: pd.DataFrame, name: str) -> Floats:
    if name not in rows:
        return np.full(len(rows), np.nan)
    return np.asarray(rows[name].astype("float64").to_numpy(na_value=np.nan), np.float64)
