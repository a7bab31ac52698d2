"""Which rows of the energy and impact tables may be compared with each other. Pure functions over tables.

Each joule may be in one row only: a parent would count its children's energy twice, and a value copied from
another layer tells nothing about this one. So the deepest components that were measured on their own layer are
compared; for skipping, which applies to layers only, the layers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from energyscope.correlation.resampling import UncertainValues, axis
from energyscope.impact.methods import PREDICT
from energyscope.reasons import reason

if TYPE_CHECKING:
    import pandas as pd

SETTING = ("phase", "precision", "execution", "batch_size", "context_length")
SKIP = "skip"


def impact_columns(impact: pd.DataFrame) -> list[str]:
    """Return the ``method:metric`` names of an impact table, in its order."""
    return list(dict.fromkeys(f"{row.method}:{row.metric}" for row in impact.itertuples()))


def measured_columns(impact: pd.DataFrame) -> list[str]:
    """Return the ``method:metric`` names of measured impact, without its predictors."""
    return [name for name in impact_columns(impact) if not name.startswith(f"{PREDICT}:")]


def one_setting(energy: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of one phase, precision, execution, batch size and length: prefill's, or else the first."""
    if energy.empty:
        return energy
    prefill = energy[energy["phase"] == "prefill"]
    chosen = energy if prefill.empty else prefill
    keys = chosen[list(SETTING)].astype(str)
    return chosen[keys.eq(keys.iloc[0]).all(axis=1)]


def reliable(energy: pd.DataFrame) -> pd.DataFrame:
    """Return the components with an energy of sufficient quality, measured on their own layer; not the model."""
    known = energy["energy_mj"].notna() & ~energy["reused"].eq(True) & (energy["quality"] != "invalid")
    return energy[known & (energy["kind"] != "model")]


def deepest_measured(energy: pd.DataFrame) -> pd.DataFrame:
    """Return the reliable rows below which no other reliable row lies: each joule is in at most one of them."""
    return deepest(reliable(energy), energy)


def deepest(rows: pd.DataFrame, energy: pd.DataFrame) -> pd.DataFrame:
    """Return those of ``rows`` below which, in the tree of the energy table, none of the others lies."""
    return rows[~rows["component"].isin(ancestors(rows["component"], parents(energy)))]


def measured_for(column: str, energy: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with which an impact column is compared: the layers for skipping, else the deepest."""
    if column.partition(":")[0] == SKIP:
        rows = reliable(energy)
        return rows[rows["kind"] == "layer"]
    return deepest_measured(energy)


def left_out(column: str, energy: pd.DataFrame, impact: pd.DataFrame) -> list[dict[str, Any]]:
    """Count the components beside the model that an impact column is not compared with: reason, components."""
    rows = energy[energy["kind"] != "model"]
    unknown, reused = rows["energy_mj"].isna(), rows["reused"].eq(True)
    without = ~measured_for(column, energy)["component"].isin(valid_impact(impact, column).index)
    weak = rows["quality"].eq("invalid") & ~reused & ~unknown
    causes = {
        reason("below-grade-c"): weak,
        reason("measured-on-other-layers"): reused & ~unknown,
        reason("no-energy"): unknown,
        reason("no-valid-impact", impact=column): without,
    }
    return [{"reason": why, "components": int(held.sum())} for why, held in causes.items() if held.any()]


def stand_ins(measured: pd.DataFrame, energy: pd.DataFrame) -> set[str]:
    """Return the components that replace their parts, which could not be measured although other layers' could.

    Such a component lies a level above the others of its kind: it has more energy and impact because it is a
    larger part of the model.
    """
    tree = parents(energy)
    above = ancestors(measured["component"], tree)
    split = set(energy.loc[energy["component"].isin(above), "kind"])
    has_parts = set(tree.values())
    return {
        str(name)
        for name, kind in zip(measured["component"], measured["kind"], strict=True)
        if name in has_parts and kind in split
    }


def ancestors(names: Iterable[str], tree: Mapping[str, Any]) -> set[str]:
    """Return everything that lies above the named components."""
    names_above: set[str] = set()
    for name in names:
        above = tree.get(name)
        while isinstance(above, str) and above not in names_above:
            names_above.add(above)
            above = tree.get(above)
    return names_above


def parents(energy: pd.DataFrame) -> dict[str, Any]:
    """Return each component's parent."""
    return dict(zip(energy["component"], energy["parent"], strict=True))


def valid_impact(impact: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return value, ci_low and ci_high of one ``method:metric`` by component, of valid rows only."""
    method, _, metric = column.partition(":")
    chosen = impact[(impact["method"] == method) & (impact["metric"] == metric) & impact["valid"].eq(True)]
    numbers = chosen.set_index("component")[["value", "ci_low", "ci_high"]].astype("float64")
    numbers = numbers[~numbers.index.duplicated(keep="last")]  # a resumed run may have measured one again
    return numbers.replace([math.inf, -math.inf], math.nan).dropna(subset=["value"])


def impact_axis(rows: pd.DataFrame) -> UncertainValues:
    """Return the axis of rows of `valid_impact`."""
    return axis(*(rows[name].to_numpy("float64") for name in ("value", "ci_low", "ci_high")))


def energy_axis(rows: pd.DataFrame) -> UncertainValues:
    """Return the axis of energies, mJ per forward pass."""
    columns = ("energy_mj", "energy_ci_low_mj", "energy_ci_high_mj")
    return axis(*(rows[name].to_numpy("float64", na_value=np.nan) for name in columns))


def number(value: Any) -> float | None:
    """Return a table's cell as a float; None where it is empty or not finite."""
    as_float = float("nan") if value is None or str(value) == "<NA>" else float(value)
    return as_float if math.isfinite(as_float) else None
