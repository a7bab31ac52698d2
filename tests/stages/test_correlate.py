from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from energyscope.accounting.checks import Checks
from energyscope.errors import DataError
from energyscope.intervals import Interval
from energyscope.reasons import reason
from energyscope.runs.schema import (
    ENERGY_COLUMNS,
    ENERGY_FILE,
    IMPACT_COLUMNS,
    IMPACT_FILE,
    EnergyRow,
    ImpactRow,
)
from energyscope.runs.store import RunStore, load_run
from energyscope.stages.correlate import correlate, default_impact, merge

CHECKS = Checks(leaves=Interval(1.0, 0.99, 1.01))

KEYS = {
    "component", "kind", "layer", "energy_mj", "energy_ci_low_mj", "energy_ci_high_mj", "impact",
    "impact_ci_low", "impact_ci_high", "quadrant", "quality", "stands_for_parts", "likely_quadrant", "stability",
    "energy_rank_low", "energy_rank_high", "impact_rank_low", "impact_rank_high",
}  # fmt: skip
#          energy in mJ and KL of the blocks of four layers; their layers take the sum
BLOCKS = {
    "attention": [(1.0, 4.0), (2.0, 3.0), (3.0, 2.0), (4.0, 1.0)],
    "mlp": [(5.0, 0.5)] * 2 + [(6.0, 0.1)] * 2,
}


def energy_row(component: str, kind: str, energy: float | None, **other: Any) -> EnergyRow:
    low, high = (None, None) if energy is None else (energy * 0.99, energy * 1.01)
    values: dict[str, Any] = {
        "component": component, "kind": kind, "layer": None, "level": "block", "parent": "model",
        "phase": "prefill", "precision": "fp32", "execution": "eager", "batch_size": 1, "context_length": 128,
        "device": "test", "meter": "nvml", "calls": 1, "energy_mj": energy, "energy_ci_low_mj": low,
        "energy_ci_high_mj": high, "static_mj": None, "dynamic_mj": None, "time_us": 1.0, "power_w": 1.0,
        "quality": "A",
    }  # fmt: skip
    return EnergyRow(**(values | other))


def impact_row(component: str, value: float | None, metric: str = "kl", **other: Any) -> ImpactRow:
    low, high = (None, None) if value is None else (value * 0.95, value * 1.05)
    values = {
        "component": component, "kind": "mlp", "layer": None, "method": "zero", "metric": metric, "value": value,
        "ci_low": low, "ci_high": high, "examples": 64, "valid": value is not None,
    }  # fmt: skip
    return ImpactRow(**(values | other))


def tables() -> tuple[list[EnergyRow], list[ImpactRow]]:
    """A model of four layers with attention and MLP, an embedding, and reused sub-components."""
    energy = [
        energy_row("model", "model", 60.0, parent=None, level="model"),
        energy_row("embed", "embedding", 0.5),
    ]
    impact = [impact_row("embed", 9.0), impact_row("embed", 0.2, "top1_agreement")]
    for layer in range(4):
        name = f"layers.{layer}"
        total = sum(blocks[layer][0] for blocks in BLOCKS.values())
        energy.append(energy_row(name, "layer", total, layer=layer, level="layer"))
        impact.append(impact_row(name, 9.0))
        for kind, blocks in BLOCKS.items():
            joules, divergence = blocks[layer]
            energy.append(energy_row(f"{name}.{kind}", kind, joules, layer=layer, parent=name))
            part = {"layer": layer, "parent": f"{name}.{kind}", "reused": True}
            energy.append(energy_row(f"{name}.{kind}.part", "other", 0.1, level="sub-component", **part))
            impact += [impact_row(f"{name}.{kind}", divergence), impact_row(f"{name}.{kind}.part", 1.0)]
            impact.append(impact_row(f"{name}.{kind}", 1 - divergence / 10, "top1_agreement"))
    return energy, impact


def frames(energy: list[EnergyRow], impact: list[ImpactRow]) -> tuple[pd.DataFrame, pd.DataFrame]:
    return pd.DataFrame(energy, columns=list(ENERGY_COLUMNS)), pd.DataFrame(impact, columns=list(IMPACT_COLUMNS))


def change(rows: list[Any], component: str, **values: Any) -> None:
    for row in rows:
        if row.component == component:
            for name, value in values.items():
                setattr(row, name, value)


def names(document: dict[str, Any]) -> list[str]:
    return [point["component"] for point in document["points"]]


def entry(document: dict[str, Any], column: str, method: str) -> dict[str, Any]:
    (match,) = [
        candidate
        for candidate in document["correlations"]
        if (candidate["y"], candidate["method"]) == (column, method)
    ]
    return dict(match)


def test_points_are_the_deepest_measured_components() -> None:
    """GIVEN reused sub-components, THEN the blocks are compared; not the root, the layers, or what was reused."""
    document = correlate(*frames(*tables()))
    blocks = [f"layers.{layer}.{kind}" for layer in range(4) for kind in ("attention", "mlp")]
    assert names(document) == ["embed", *blocks]
    assert set(document["points"][0]) == KEYS
    assert document["points"][1]["layer"] == 0
    assert document["points"][0]["layer"] is None


def test_measured_sub_components_take_their_parents_place() -> None:
    """GIVEN a sub-component measured on its very layer, THEN it is compared and its block is not."""
    energy, impact = tables()
    change(energy, "layers.2.mlp.part", reused=False)
    components = names(correlate(*frames(energy, impact)))
    assert "layers.2.mlp.part" in components
    assert "layers.2.mlp" not in components
    assert "layers.1.mlp" in components


def test_no_joule_is_counted_twice() -> None:
    """GIVEN the points, THEN none is an ancestor of another."""
    components = names(correlate(*frames(*tables())))
    assert not [
        (component, other) for component in components for other in components if other.startswith(f"{component}.")
    ]


@pytest.mark.parametrize(
    ("table", "values"),
    [
        (0, {"quality": "invalid"}),
        (0, {"energy_mj": None}),
        (0, {"energy_mj": math.nan}),
        (1, {"valid": False}),
        (1, {"value": None}),
        (1, {"value": math.nan}),
    ],
)
def test_invalid_rows_are_left_out(table: int, values: dict[str, Any]) -> None:
    """GIVEN an energy or an impact that is unknown or invalid, THEN that component is no point."""
    both = tables()
    change(both[table], "layers.1.mlp", **values)
    document = correlate(*frames(*both))
    assert "layers.1.mlp" not in names(document)
    assert "layers.0.mlp" in names(document)
    assert entry(document, "zero:kl", "pearson")["n"] == 8


def test_correlations_are_those_of_the_points() -> None:
    """GIVEN the points, THEN value and n are as numpy computes them, for KL and for the agreement."""
    document = correlate(*frames(*tables()))
    points = [(0.5, 9.0), *[blocks[layer] for layer in range(4) for blocks in BLOCKS.values()]]
    energies, impacts = np.array(points).T
    coefficient = entry(document, "zero:kl", "pearson")
    assert coefficient["n"] == 9
    assert coefficient["value"] == pytest.approx(np.corrcoef(energies, impacts)[0, 1])
    assert coefficient["ci_low"] < coefficient["value"] < coefficient["ci_high"]
    assert coefficient["p_value"] is None
    assert coefficient["reason"] == "kinds-not-independent"
    assert [(coefficient["y"], coefficient["method"]) for coefficient in document["correlations"]] == [
        (column, method)
        for column in ("zero:kl", "zero:top1_agreement")
        for method in ("pearson", "spearman", "kendall")
    ]
    assert entry(document, "zero:kl", "spearman")["value"] < -0.8


def test_few_points_have_no_correlation() -> None:
    """GIVEN seven components, THEN they are points, and every coefficient is None with the same reason."""
    energy = [energy_row(f"part{i}", "mlp", float(i + 1), parameters=i) for i in range(7)]
    impact = [impact_row(f"part{i}", float(i + 1)) for i in range(7)]
    impact += [replace(row, method="predict", metric="fisher") for row in impact]
    document = correlate(*frames(energy, impact))
    few = reason("too-few-points", points=7, needed=8)
    assert len(document["points"]) == 7
    assert document["unrelated"] == few
    parameters = [coefficient for coefficient in document["nulls"] if coefficient["predictor"] == "parameters"]
    for coefficient in (*document["correlations"], *document["adjusted"], *parameters, *document["predictors"]):
        assert (coefficient["value"], coefficient["ci_low"], coefficient["reason"]) == (None, None, few)
    assert [
        (coefficient["tested"], coefficient["reason"]) for coefficient in document["within_kinds"]["kinds"]
    ] == [(False, few)]
    assert document["matrix"]["reasons"]["zero:kl|energy_mj"] == few


def test_what_was_left_out_is_counted_by_reason() -> None:
    """GIVEN blocks below grade C and parts measured on other layers, THEN both are counted."""
    energy, impact = tables()
    for row in energy:
        if row.kind in {"attention", "mlp", "layer"}:
            row.quality = "invalid"
    document = correlate(*frames(energy, impact))
    assert names(document) == ["embed"]
    assert document["unrelated"] == reason("too-few-points", points=1, needed=8)
    assert document["compared"]["components"] == 21
    assert document["compared"]["left_out"] == [
        {"reason": "below-grade-c", "components": 12},
        {"reason": "measured-on-other-layers", "components": 8},
    ]
    assert correlate(*frames(*tables()))["unrelated"] is None


def test_components_that_lack_energy_or_impact_are_counted_apart() -> None:
    """GIVEN one component without joules and one without a valid impact, THEN each is counted with its reason."""
    energy = [energy_row("a", "mlp", 1.0), energy_row("b", "mlp", None), energy_row("c", "mlp", 2.0)]
    impact = [impact_row("a", 1.0), impact_row("b", 1.0), impact_row("c", None)]
    assert correlate(*frames(energy, impact))["compared"]["left_out"] == [
        {"reason": "no-energy", "components": 1},
        {"reason": reason("no-valid-impact", impact="zero:kl"), "components": 1},
    ]


def test_quadrants_and_undecided() -> None:
    """GIVEN the points, THEN thresholds are their medians, and the component at the median is undecided."""
    document = correlate(*frames(*tables()))
    assert document["quadrants"]["energy_threshold_mj"] == 4.0
    assert document["quadrants"]["impact_threshold"] == 1.0
    quadrant = {point["component"]: point["quadrant"] for point in document["points"]}
    assert quadrant["layers.0.attention"] == "low energy, high impact"
    assert quadrant["layers.2.mlp"] == "high energy, low impact"
    assert quadrant["layers.3.attention"] == "undecided"
    assert document["quadrants"]["rule"] == reason("median-split", side="above")


def test_what_was_compared_is_in_the_document() -> None:
    """GIVEN one setting, THEN it is named beside the model's energy and the number of components."""
    compared = correlate(*frames(*tables()))["compared"]
    assert compared == {
        "phase": "prefill", "precision": "fp32", "execution": "eager", "batch_size": 1, "context_length": 128,
        "modelled": False, "model_energy_mj": 60.0, "components": 21, "other_rows": 0,
        "left_out": [{"reason": "measured-on-other-layers", "components": 8}],
    }  # fmt: skip


def test_intervals_hold_zero_where_nothing_is_related() -> None:
    """GIVEN a clear relation and unrelated noise, THEN one interval excludes 0 and the other includes it."""
    rng = np.random.default_rng(0)
    energy = [energy_row(f"part{i}", "mlp", 1.0 + i) for i in range(20)]
    clear = [impact_row(f"part{i}", 3.0 + 2 * i) for i in range(20)]
    noise = [impact_row(f"part{i}", float(rng.uniform(1, 2))) for i in range(20)]
    coefficient = entry(correlate(*frames(energy, clear)), "zero:kl", "spearman")
    assert coefficient["ci_low"] > 0
    coefficient = entry(correlate(*frames(energy, noise)), "zero:kl", "spearman")
    assert coefficient["ci_low"] < 0 < coefficient["ci_high"]


@pytest.mark.parametrize("said_by", ["caller", "meter"])
def test_modelled_energy_is_said_and_gives_no_advice(said_by: str) -> None:
    """GIVEN a modelled meter, THEN the document says so, and advice is withheld for it."""
    energy, impact = tables()
    if said_by == "meter":
        energy = [replace(row, meter="modelled") for row in energy]
    document = correlate(*frames(energy, impact), modelled=said_by == "caller", checks=CHECKS)
    assert document["compared"]["modelled"] is True
    assert {(advice["advice"], advice["withheld_because"]) for advice in document["advice"]} == {
        (None, "energy-modelled")
    }


def test_prefill_is_compared_where_decode_is_in_the_table_too() -> None:
    """GIVEN decode rows before the prefill ones, THEN the points are prefill's, and the others are counted."""
    energy, impact = tables()
    decode = [energy_row(f"layers.{i}.mlp", "mlp", 100.0, phase="decode") for i in range(4)]
    document = correlate(*frames([*decode, *energy], impact))
    assert document["points"] == correlate(*frames(energy, impact))["points"]
    assert (document["compared"]["phase"], document["compared"]["other_rows"]) == ("prefill", 4)


def test_missing_impact_is_refused() -> None:
    """GIVEN that only mean ablation ran, THEN one line says what there is."""
    energy, impact = tables()
    for row in impact:
        row.method = "mean"
    with pytest.raises(DataError, match=r"'zero:kl'.*mean:kl, mean:top1_agreement"):
        correlate(*frames(energy, impact))


def test_nothing_in_common_leaves_no_points() -> None:
    """GIVEN energy and impact of different components, THEN there are no points, no thresholds and no numbers."""
    document = correlate(*frames([energy_row("a", "mlp", 1.0)], [impact_row("b", 1.0)]))
    assert document["points"] == []
    assert document["quadrants"]["energy_threshold_mj"] is None
    assert document["compared"]["components"] == 1


def test_seed_decides_the_intervals() -> None:
    """GIVEN the same tables, THEN the same seed gives the same document and another one other intervals."""
    both = frames(*tables())
    assert correlate(*both, seed=3) == correlate(*both, seed=3)
    assert correlate(*both, seed=3)["correlations"] != correlate(*both, seed=4)["correlations"]


def test_same_document_after_a_round_trip_through_files(tmp_path: Path) -> None:
    """GIVEN the tables written to a run and read back, THEN the document is the same and valid JSON."""
    energy, impact = tables()
    change(impact, "layers.1.mlp", valid=False, value=None, reasons=reason("not-called"))
    before = correlate(*frames(energy, impact))
    store = RunStore.create("test", tmp_path)
    store.update(name="test")
    store.write_rows(ENERGY_FILE, energy, ENERGY_COLUMNS)
    store.write_rows(IMPACT_FILE, impact, IMPACT_COLUMNS)
    run = load_run(store.path)
    assert run.energy is not None
    assert run.impact is not None
    after = correlate(run.energy, run.impact)
    assert json.loads(json.dumps(after, allow_nan=False)) == json.loads(json.dumps(before))


def test_merge_adds_one_column_for_each_impact() -> None:
    """GIVEN both tables, THEN the impacts stand behind the energy columns; invalid ones are empty."""
    energy, impact = tables()
    change(impact, "layers.1.mlp", valid=False)
    table = merge(*frames(energy, impact))
    assert list(table) == [*ENERGY_COLUMNS, "zero:kl", "zero:top1_agreement"]
    assert table["component"].tolist() == [row.component for row in energy]
    by_name = table.set_index("component")
    assert by_name.loc["layers.0.mlp", "zero:kl"] == 0.5
    assert by_name.loc["layers.0.attention", "zero:top1_agreement"] == pytest.approx(0.6)
    assert math.isnan(by_name.loc["layers.1.mlp", "zero:kl"])
    assert math.isnan(by_name.loc["model", "zero:kl"])


def test_merge_gives_every_phase_its_impact() -> None:
    """GIVEN a component with a prefill and a decode row, THEN both rows carry its impact."""
    energy = [energy_row("a", "mlp", 1.0), energy_row("a", "mlp", 2.0, phase="decode")]
    assert merge(*frames(energy, [impact_row("a", 0.7)]))["zero:kl"].tolist() == [0.7, 0.7]


@pytest.mark.filterwarnings("error")
def test_merge_of_many_impacts_warns_of_nothing() -> None:
    """GIVEN as many impacts as all methods and metrics have THEN pandas prints no warning to the terminal."""
    table = merge(
        *frames([energy_row("a", "mlp", 1.0)], [impact_row("a", 0.1, method=f"m{n}") for n in range(150)])
    )
    assert table["m149:kl"].tolist() == [0.1]


def test_merge_without_impact_rows() -> None:
    """GIVEN an empty impact table, THEN the energy table comes back as it is."""
    energy, _ = tables()
    assert list(merge(*frames(energy, []))) == list(ENERGY_COLUMNS)


def test_a_parent_in_the_place_of_its_parts_is_flagged() -> None:
    """GIVEN parts measured in three layers and invalid in the fourth, THEN that block is flagged."""
    energy, impact = tables()
    for layer in range(4):
        change(energy, f"layers.{layer}.mlp.part", reused=False)
    change(energy, "layers.2.mlp.part", quality="invalid")
    document = correlate(*frames(energy, impact))
    flagged = [point["component"] for point in document["points"] if point["stands_for_parts"]]
    assert flagged == ["layers.2.mlp"]
    assert not any(point["stands_for_parts"] for point in correlate(*frames(*tables()))["points"])


def test_predictors_are_no_impact() -> None:
    """GIVEN predictor rows, THEN they stand in their own table and are offered nowhere as an impact."""
    energy, impact = tables()
    impact += [replace(row, method="predict", metric="fisher") for row in impact if row.metric == "kl"]
    both = frames(energy, impact)
    document = correlate(*both)
    assert [(coefficient["predictor"], coefficient["impact"]) for coefficient in document["predictors"]] == [
        ("fisher", "zero:kl")
    ]
    assert document["predictors"][0]["value"] == pytest.approx(1)
    assert not any(coefficient["y"].startswith("predict") for coefficient in document["correlations"])
    assert not any(name.startswith("predict") for name in document["matrix"]["columns"])
    with pytest.raises(DataError, match=r"there is: zero:kl, zero:top1_agreement\)"):
        correlate(*both, impact_column="predict:fisher")


def test_skipping_is_compared_over_layers() -> None:
    """GIVEN skipped layers, THEN the points are the layers, and the blocks stay those of the other columns."""
    energy, impact = tables()
    impact += [impact_row(f"layers.{i}", float(i + 1), kind="layer", method="skip") for i in range(4)]
    document = correlate(*frames(energy, impact), impact_column="skip:kl")
    assert names(document) == [f"layers.{i}" for i in range(4)]
    assert entry(document, "skip:kl", "spearman")["n"] == 4
    assert entry(document, "zero:kl", "spearman")["n"] == 9


def test_joint_removals_take_no_part_but_are_found() -> None:
    """GIVEN the removal of all attentions together, THEN it is no point, and stands beside the sum of theirs."""
    energy, impact = tables()
    impact.append(impact_row("layers.{layer}.attention", 30.0))
    document = correlate(*frames(energy, impact))
    assert "layers.{layer}.attention" not in names(document)
    (joint,) = document["joint"]
    assert (joint["single_sum"], joint["verdict"]) == (10.0, "more-than-sum")


def test_advice_rests_on_sensitivity() -> None:
    """GIVEN INT8 beside zeroing, closed books and good quality, THEN an MLP comes first; embed says why not."""
    energy, impact = tables()
    blocks = [row for row in impact if row.metric == "kl" and row.component.endswith(("attention", "mlp"))]
    impact += [replace(row, method="int8") for row in blocks]
    impact.append(impact_row("embed", None, method="int8", reasons=reason("no-weight-matrix")))
    document = correlate(*frames(energy, impact), checks=CHECKS)
    assert document["advice_column"] == "int8:kl"
    advice = {item["component"]: item for item in document["advice"]}
    assert set(advice) == set(names(document))
    assert sum(item["advice"] == "quantize-first" for item in advice.values()) == 4
    mlp, embed = advice["layers.2.mlp"], advice["embed"]
    assert (mlp["advice"], mlp["why"], mlp["warning"]) == ("quantize-first", "costly-tolerant", None)
    assert (mlp["energy_mj"], mlp["impact"], mlp["withheld_because"]) == (6.0, 0.1, None)
    assert (embed["advice"], embed["why"], embed["impact"], embed["energy_mj"]) == (None, None, None, 0.5)
    assert embed["withheld_because"] == reason("impact-invalid", impact="int8:kl", why="no-weight-matrix")


@pytest.mark.parametrize(
    ("checks", "code"),
    [(None, "closure-unknown"), (Checks(leaves=Interval(0.8, 0.78, 0.82)), "closure-outside")],
)
def test_advice_is_withheld_where_the_leaves_do_not_add_up(checks: Checks | None, code: str) -> None:
    """GIVEN leaves that do not add up to the model, or may not, THEN no component has advice."""
    document = correlate(*frames(*tables()), checks=checks)
    assert {advice["advice"] for advice in document["advice"]} == {None}
    assert {advice["withheld_because"].code for advice in document["advice"]} == {code}


def test_sensitivity_is_not_called_criticality() -> None:
    """GIVEN that the impact is that of a quantization, THEN advice rests on it without a warning."""
    energy, impact = tables()
    for row in impact:
        row.method = "nf4"
    document = correlate(*frames(energy, impact), impact_column="nf4:kl")
    assert document["advice_column"] == "nf4:kl"
    assert {advice["warning"] for advice in document["advice"]} == {None}


def test_pooled_and_within_kinds_disagree_in_sign() -> None:
    """GIVEN impact that falls from kind to kind and rises within each, THEN the signs differ."""
    energy, impact = [], []
    for base, kind in ((0.0, "attention"), (10.0, "mlp")):
        for layer in range(8):
            energy.append(energy_row(f"h.{layer}.{kind}", kind, base + layer + 1.0, layer=layer))
            impact.append(impact_row(f"h.{layer}.{kind}", 40 - 3 * base + layer))
    document = correlate(*frames(energy, impact))
    adjusted = {coefficient["method"]: coefficient["value"] for coefficient in document["adjusted"]}
    assert entry(document, "zero:kl", "spearman")["value"] < 0 < adjusted["spearman"]
    for kind in document["within_kinds"]["kinds"]:
        assert kind["tested"]
        assert all(coefficient["value"] > 0 for coefficient in kind["correlations"])


def test_null_models_are_compared_where_counted() -> None:
    """GIVEN parameters but no FLOPs, THEN parameters are compared and FLOPs say why not."""
    energy, impact = tables()
    for place, row in enumerate(energy):
        row.parameters = 100 + place
    document = correlate(*frames(energy, impact))
    nulls = {(null["predictor"], null["target"]): null for null in document["nulls"]}
    assert len(nulls) == 6
    assert nulls["parameters", "impact"]["n"] == 9
    assert nulls["flops", "energy"]["reason"] == reason("too-few-points", points=0, needed=8)


def test_default_impact_is_a_removal_and_never_a_predictor() -> None:
    """GIVEN predictors and quantizations before zeroing, THEN zeroing is chosen; nothing is an error."""
    rows = [impact_row("a", 1.0, "fisher", method="predict"), impact_row("a", 1.0, method="int8")]
    assert default_impact(frames([], [*rows, impact_row("a", 1.0)])[1]) == "zero:kl"
    assert default_impact(frames([], rows)[1]) == "int8:kl"
    with pytest.raises(DataError, match="no impact"):
        default_impact(frames([], rows[:1])[1])


def test_pooled_kinds_have_no_p_value() -> None:
    """GIVEN three kinds, THEN the pooled coefficient has no p and the adjusted one has; of one kind it has one."""
    energy, impact = tables()
    document = correlate(*frames(energy, impact))
    coefficient = entry(document, "zero:kl", "spearman")
    assert (coefficient["p_value"], coefficient["reason"]) == (None, "kinds-not-independent")
    assert all(coefficient["p_value"] is not None for coefficient in document["adjusted"])
    alike = [replace(row, kind="mlp") for row in energy if row.kind in BLOCKS]
    assert entry(correlate(*frames(alike, impact)), "zero:kl", "pearson")["p_value"] is not None


def test_an_invalid_single_removal_leaves_no_joint_verdict() -> None:
    """GIVEN all attentions removed together and one of them invalid alone, THEN no sum of the others is taken."""
    energy, impact = tables()
    impact.append(impact_row("layers.{layer}.attention", 30.0))
    change(impact, "layers.2.attention", valid=False, value=None)
    (joint,) = correlate(*frames(energy, impact))["joint"]
    assert (joint["single_sum"], joint["verdict"]) == (None, None)
    assert joint["reason"] == reason("no-single-effect", components=["layers.2.attention"])
