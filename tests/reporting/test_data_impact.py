from __future__ import annotations

import itertools
from collections.abc import Iterable
from pathlib import Path

import pandas as pd
import pytest
from run_builder import Shape, build_run

from energyscope.relating.joint import ALIKE, MORE
from energyscope.reporting.data.impact import ImpactData, impact_data
from energyscope.reporting.data.impact_words import METHOD_TITLES, METHOD_WORDS, limited_text
from energyscope.runs.intervals import Interval
from energyscope.runs.schema import IMPACT_COLUMNS, ImpactRow
from energyscope.runs.tree import energy_tree

NO_WEIGHTS = "it has no weight matrix to quantize"


def _row(
    component: str, kind: str, layer: int | None, method: str, value: float | None, **other: object
) -> dict[str, object]:
    """A row of KL as the table holds it, with limits 10 % to either side; ``other`` replaces cells."""
    low, high = (None, None) if value is None else (value * 0.9, value * 1.1)
    row = ImpactRow(
        component=component, kind=kind, layer=layer, method=method, metric="kl", value=value, ci_low=low,
        ci_high=high, examples=64, valid=value is not None,
    )  # fmt: skip
    return {**vars(row), **other}


def _data(rows: Iterable[dict[str, object]]) -> ImpactData:
    return impact_data(pd.DataFrame(list(rows), columns=list(IMPACT_COLUMNS)), None)


def test_removal_and_quantization_are_apart() -> None:
    """GIVEN skip, zero, NF4 and predictors, THEN each is in its family and the predictor in none."""
    data = _data([
        _row("h.0", "layer", 0, "skip", 1.0),
        _row("h.0.mlp", "mlp", 0, "zero", 1.0),
        _row("h.0.mlp", "mlp", 0, "nf4", 0.1),
        _row("h.0.mlp", "mlp", 0, "predict", 3.0, metric="fisher"),
    ])  # fmt: skip
    assert (data.removals, data.quantizations) == (["skip", "zero"], ["nf4"])
    assert (data.removal, data.quantization) == ("zero", "nf4")  # layers alone are skipped
    assert [point.metric for point in data.predictors] == ["fisher"]
    assert data.predictor_table is not None
    assert data.predictor_table.rows == [["h.0.mlp", "1.00 [0.90, 1.10]", "0.100 [0.090, 0.110]", "3.00"]]


def test_one_family_alone_leaves_the_other_unknown() -> None:
    """GIVEN quantization only, THEN there is no removal to show, and no table that compares methods."""
    data = _data([_row("h.0.mlp", "mlp", 0, "int8", 1.0)])
    assert (data.removal, data.quantization) == (None, "int8")
    assert (data.removal_table, data.quantization_table) == (None, None)


def test_heads_and_joint_removals_are_in_no_mean_of_a_kind() -> None:
    """GIVEN a block, its heads and its kind in all layers, THEN the kind's mean is of the single blocks."""
    data = _data([
        _row("h.0.attn", "attention", 0, "zero", 1.0),
        _row("h.1.attn", "attention", 1, "zero", 3.0),
        _row("h.0.attn.head.0", "attention.head", 0, "zero", 0.5),
        _row("h.{layer}.attn", "attention", None, "zero", 50.0),
    ])  # fmt: skip
    assert [(entry.kind, entry.mean, entry.count) for entry in data.kinds] == [("attention", 2.0, 2)]
    assert [point.component for point in data.heads] == ["h.0.attn.head.0"]


def test_joint_removals_are_compared_with_the_sum() -> None:
    """GIVEN attention that does more together and MLPs that do not, THEN only the attention's layers stand in."""
    singles = [
        _row(f"h.{layer}.{tail}", tail, layer, "zero", 1.0)
        for layer, tail in itertools.product((0, 1), ("attention", "mlp"))
    ]
    joint = [
        _row("h.{layer}.attention", "attention", None, "zero", 6.0),
        _row("h.{layer}.mlp", "mlp", None, "zero", 2.0),
    ]
    found = _data([*singles, *joint]).joint
    assert [(item.name, item.verdict, len(item.parts)) for item in found.kinds] == [
        ("attention", MORE, 2),
        ("mlp", ALIKE, 2),
    ]
    more, alike = found.said
    assert "so the layers stand in for each other" in more
    assert "attention KL 6.00 [5.4, 6.6] against 2.00 [1.80, 2.20]" in more
    assert "mlp" not in more
    assert "not told from the sum" in alike


def test_a_joint_removal_without_singles_has_no_verdict() -> None:
    """GIVEN a joint removal alone, THEN the sum is unknown with a reason, and nothing is claimed."""
    found = _data([_row("h.{layer}.mlp", "mlp", None, "zero", 2.0)]).joint
    (item,) = found.kinds
    assert (item.single, item.verdict, item.reason) == (None, None, "fewer than two single effects")
    assert found.said == []


def test_pairs_of_layers_know_their_numbers() -> None:
    """GIVEN layers 9 and 10 skipped alone and together, THEN the matrix has both and the pair, in order."""
    found = _data([
        _row("h.9", "layer", 9, "skip", 1.0),
        _row("h.10", "layer", 10, "skip", 1.0),
        _row("h.9+h.10", "layer", None, "skip", 9.0),
    ]).joint  # fmt: skip
    assert [(pair.first, pair.second, pair.verdict) for pair in found.pairs] == [
        (9, 9, None),
        (10, 10, None),
        (9, 10, MORE),
    ]
    assert "layers 9 and 10 KL 9.00" in found.said[-1]


def test_cascades_leave_out_what_changes_all_alike() -> None:
    """GIVEN zeroing, which changes every output by itself, THEN the removal drawn is the mean's."""
    own = {"zero": (1.0, 1.0), "mean": (0.5, 0.9), "int8": (0.01, 0.02), "nf4": (0.1, 0.2)}
    rows = [
        row
        for method, changes in own.items()
        for name, change in zip(("a", "b"), changes, strict=True)
        for row in (
            _row(name, "mlp", None, method, 0.3),
            _row(name, "mlp", None, method, change, metric="output_change", ci_low=None, ci_high=None),
        )
    ]
    found = _data(rows).cascades
    assert [(item.component, item.method, item.own) for item in found] == [
        ("a", "mean", 0.5),
        ("b", "mean", 0.9),
        ("a", "int8", 0.01),
        ("b", "int8", 0.02),
    ]


def test_invalid_rows_are_counted_by_reason() -> None:
    """GIVEN norms and an activation without weights, THEN one group says so, last, since nothing failed there."""
    rows = [_row(f"h.{layer}.ln", "norm", layer, "int8", None, reasons=NO_WEIGHTS) for layer in range(3)]
    rows.append(_row("h.0.act", "mlp.activation", 0, "int8", None, reasons=NO_WEIGHTS))
    rows.append(_row("lm_head", "lm_head", None, "zero", None, reasons=float("nan")))
    data = _data(rows)
    assert [group.sentence for group in data.invalid] == [
        "1 row: no reason was noted (lm_head; zero ablation)",
        f"4 rows: {NO_WEIGHTS} (4 components: norm and mlp.activation; INT8 weights); nothing to measure",
    ]
    assert data.invalid_rows == 5
    assert data.points == []


def test_rows_have_names_of_their_own_without_an_energy_table() -> None:
    """GIVEN two norms in each layer and no tree, THEN no two of a layer share a row of the heat map."""
    data = _data(_row(f"h.{n}.{tail}", "norm", n, "zero", 1.0) for n in (0, 1) for tail in ("ln_1", "ln_2"))
    assert [point.row for point in data.points] == ["norm (ln_1)", "norm (ln_2)"] * 2


def test_rows_follow_the_tree_whatever_finished_first(tmp_path: Path) -> None:
    """GIVEN an impact table in another order, THEN the components stand in the tree's order."""
    run = build_run(tmp_path / "run", Shape(layers=2))
    assert run.impact is not None
    assert run.energy is not None
    tree = energy_tree(run.energy)
    shuffled = impact_data(run.impact.sample(frac=1.0, random_state=1), tree)
    names = [node.name for node in tree.nodes if node.kind != "model"]
    assert list(dict.fromkeys(point.component for point in shuffled.points)) == names


def test_an_adaptive_stage_says_over_how_few_examples() -> None:
    """GIVEN components that stopped early, THEN the smallest and largest numbers are known."""
    data = _data([
        _row("a", "mlp", None, "zero", 1.0, examples=16),
        _row("b", "mlp", None, "zero", 1.0, examples=256),
        _row("a", "mlp", None, "predict", 1.0, examples=0, metric="weight_kurtosis"),
    ])  # fmt: skip
    assert (data.fewest, data.examples) == (16, 256)


def test_every_method_has_words() -> None:
    """Whatever the ablate stage can do, the report says what it is and what it does."""
    from energyscope.impact.methods import METHODS

    assert [method for method in METHODS if method not in METHOD_TITLES or method not in METHOD_WORDS] == []


@pytest.mark.parametrize(
    ("value", "metric", "words"),
    [
        (Interval(3.9e-8, 3.1e-8, 4.6e-8), "kl", "3.90e-08 [3.10e-08, 4.60e-08]"),
        (Interval(0.0, 0.0, 0.0), "kl", "0 [0.000000, 0.000000]"),
        (Interval(-0.125, -0.25, 0.0), "accuracy_difference", "-12 % [-25, 0]"),
        (Interval(0.5), "kl", "0.500"),
        (None, "kl", "not measured"),
    ],
)
def test_small_values_keep_their_limits(value: Interval | None, metric: str, words: str) -> None:
    """A value of 1e-8 does not get limits of zero; what is unknown says so."""
    assert limited_text(value, metric) == words
