"""Laws of one group of cells, as plain data: subjects, errors of what was left out, and ratios."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from planted_observations import observation, swept
from simulated_board import KINDS, SIZES, Board, fitted, work

from energyscope.reasons import reason
from energyscope.scaling.fit import fitter
from energyscope.scaling.group_laws import ONE_CELL, by_work, group_laws
from energyscope.scaling.held_out import leave_out
from energyscope.scaling.law import LawName


@pytest.fixture(scope="module")
def laws() -> dict[str, Any]:
    return group_laws(swept(noise=0.01))


def subject(laws: dict[str, Any], name: str) -> dict[str, Any]:
    return next(item for item in laws["subjects"] if item["subject"] == name)


def test_the_whole_comes_first_and_the_rest_last(laws: dict[str, Any]) -> None:
    """Whole, parts with the costliest first, overhead, unexplained."""
    roles = [(item["subject"], item["role"]) for item in laws["subjects"]]
    assert roles[0] == ("model", "whole")
    assert roles[-2:] == [("glue", "residual"), ("unexplained", "residual")]
    parts = [item for item in laws["subjects"] if item["role"] == "part"]
    assert {item["subject"] for item in parts} == set(KINDS)
    energies = [sum(point["energy_mj"]["value"] for point in item["points"]) for item in parts]
    assert energies == sorted(energies, reverse=True)


def test_it_is_what_the_laws_say(laws: dict[str, Any]) -> None:
    """GIVEN the same cells THEN E0, k, R2, residuals and errors are those of the fits, in order."""
    cells = by_work([item.cells["mlp"] for item in swept(noise=0.01)])
    law, entry = fitted("two-term", cells), subject(laws, "mlp")
    assert [point["flops"] for point in entry["points"]] == [item.flops for item in cells]
    assert entry["two_term"]["fixed_mj"]["value"] == pytest.approx(law.coefficients["fixed_mj"].value)
    assert entry["two_term"]["marginal_pj_per_flop"]["high"] == pytest.approx(
        law.coefficients["marginal_pj_per_flop"].high
    )
    assert entry["two_term"]["r2"] == pytest.approx(law.r2)
    assert entry["two_term"]["residuals"] == pytest.approx(law.residuals)
    names: tuple[LawName, ...] = ("two-term", "roofline-floor")
    for name in names:
        errors = leave_out(cells, fitter(name), "length").errors
        row = next(item for item in entry["held_out"] if (item["law"], item["by"]) == (name, "length"))
        assert (row["median"], row["worst"], row["cells"]) == pytest.approx((errors.median, errors.largest, 8))


def test_residuals_belong_to_their_points(laws: dict[str, Any]) -> None:
    """GIVEN E0, k and a point THEN (measured - law) / measured is the residual beside it."""
    entry = subject(laws, "attention")
    line = entry["two_term"]
    for point, residual in zip(entry["points"], line["residuals"], strict=True):
        law = line["fixed_mj"]["value"] + line["marginal_pj_per_flop"]["value"] * point["flops"] / 1e9
        assert 1 - law / point["energy_mj"]["value"] == pytest.approx(residual)


def test_components_are_evaluated_together_and_the_whole_apart(laws: dict[str, Any]) -> None:
    """The components' errors are of parts alone, by their best laws; overhead and the whole are not among them."""
    held_out = laws["held_out"]
    assert held_out["components"]["cells"] == len(KINDS) * 8
    assert held_out["whole"]["cells"] == 8
    assert held_out["components"]["by"] == held_out["whole"]["by"] == "length"
    assert [item["by"] for item in held_out["ways"]] == ["length", "batch"]
    assert held_out["components"]["median"] < 0.1


def test_ratios_are_of_planted_energies() -> None:
    """GIVEN attention at twice the joules THEN its marginal and its J/FLOP at each shape are twice the MLP's."""
    board = Board(static_w=0.0, pj_per_byte=1e-6)
    observations = [
        replace(item, cells={**item.cells, "attention": _costlier(item.cells["attention"], 2.0)})
        for item in swept(truth=board)
    ]
    ratios = {(item["first"], item["second"]): item for item in group_laws(observations)["ratios"]}
    ratio = ratios["attention", "mlp"]
    assert ratio["marginal"]["value"] == pytest.approx(2.0, rel=1e-4)
    assert [item["ratio"]["value"] for item in ratio["at"]] == pytest.approx([2.0] * 8, rel=1e-4)
    assert set(ratios) == {("attention", "mlp"), ("attention", "lm_head"), ("lm_head", "mlp")}


def test_a_ratio_without_a_positive_k_has_a_reason() -> None:
    """GIVEN an MLP that takes less for more THEN no ratio of k is told, and the negative k is flagged."""
    observations = [
        replace(item, cells={**item.cells, "mlp": _costlier(item.cells["mlp"], 1e4 / item.tokens**2)})
        for item in swept(batches=(1,))
    ]
    laws = group_laws(observations)
    ratio = next(item for item in laws["ratios"] if (item["first"], item["second"]) == ("attention", "mlp"))
    assert (ratio["marginal"], ratio["reason"]) == (None, reason("k-not-positive", subjects=["mlp"]))
    line = subject(laws, "mlp")["two_term"]
    assert line["marginal_pj_per_flop"]["value"] < 0
    assert any(flag.values.get("term") == "k" for flag in line["flags"])


def test_what_has_no_flops_follows_bytes(laws: dict[str, Any]) -> None:
    """GIVEN norms THEN their line is over bytes, and J/FLOP, reach and trend say why they are not there."""
    entry = subject(laws, "norm")
    assert entry["two_term"] == {"reason": reason("no-flops")}
    assert entry["by_bytes"]["pj_per_byte"]["value"] > 0
    assert all(point["pj_per_flop"] is None for point in entry["points"])
    assert entry["reach"]["reason"] == entry["trend"]["reason"] == entry["two_term"]["reason"]
    assert entry["quotients"] == []


def test_overhead_has_no_joules_per_flop(laws: dict[str, Any]) -> None:
    """Overhead does no FLOPs of its own, so that none of its points has J/FLOP, and it has no roofline."""
    entry = subject(laws, "glue")
    assert all(point["pj_per_flop"] is None for point in entry["points"])
    assert entry["roofline"] == {"reason": reason("no-work-of-its-own")}


def test_a_break_is_where_it_was_planted() -> None:
    """GIVEN MLPs that cost twice as much at 1,024 tokens THEN the law holds below, and says so."""
    observations = [
        replace(
            item, cells={**item.cells, "mlp": _costlier(item.cells["mlp"], 2.0 if item.tokens == 1024 else 1.0)}
        )
        for item in swept(lengths=(32, 64, 128, 256, 512, 1024), batches=(1,), truth=Board(static_w=0.0))
    ]
    reach = subject(group_laws(observations), "mlp")["reach"]
    assert (reach["holds"], reach["within"], reach["cells"]) == (False, 5, 6)
    assert reach["first_beyond"] == {"batch_size": 1, "tokens": 1024}


def test_one_shape_is_no_law() -> None:
    """GIVEN one shape, though measured twice, THEN its points are there, and each law says why it is not."""
    laws = group_laws([observation(1, 64), observation(1, 64, noise=0.01)])
    assert laws["reason"] == laws["held_out"]["reason"] == ONE_CELL
    assert laws["held_out"]["whole"] is None
    for entry in laws["subjects"]:
        assert len(entry["points"]) == 2
        assert entry["two_term"] == entry["roofline"] == {"reason": ONE_CELL}
        assert (entry["best"], entry["held_out"]) == (None, [])


def test_parts_are_told_without_overhead() -> None:
    """GIVEN observations whose overhead was not measured THEN names make kinds parts, and layers a group."""
    observations = [_with_layers(item) for item in swept(overhead=False)]
    roles = {item["subject"]: item["role"] for item in group_laws(observations)["subjects"]}
    assert roles == {"model": "whole", "layer": "group", **dict.fromkeys(KINDS, "part")}


def test_the_same_shape_measured_twice_counts_twice() -> None:
    """GIVEN two runs of one shape THEN both are points, and both are left out together."""
    laws = group_laws([*swept(), observation(1, 32, noise=0.02, run="again")])
    entry = subject(laws, "mlp")
    assert len(entry["points"]) == len(entry["two_term"]["residuals"]) == 9
    assert next(item for item in entry["held_out"] if item["by"] == "length")["cells"] == 9


def test_it_is_plain(laws: dict[str, Any]) -> None:
    """The entry is JSON, without NaN."""
    assert json.loads(json.dumps(laws, allow_nan=False)) == laws


def _costlier(item: Any, factor: float) -> Any:
    value = item.energy_mj * factor
    return replace(item, energy_mj=value, energy_low_mj=value * 0.99, energy_high_mj=value * 1.01)


def _with_layers(item: Any) -> Any:
    layer = replace(item.cells["mlp"], subject="layer", flops=work("model", SIZES[0], 1, item.tokens).flops)
    return replace(item, cells={**item.cells, "layer": layer})


def test_a_ratio_of_slopes_that_are_not_told_from_0_is_not_given() -> None:
    """GIVEN energies whose noise hides the slope of one part THEN no ratio to it is given, with the reason."""
    observations = [
        replace(item, cells={**item.cells, "attention": replace(item.cells["attention"], energy_mj=energy)})
        for item, energy in zip(swept(noise=0.0), (500, 700, 400, 650, 520, 480, 610, 560), strict=True)
    ]
    ratios = {(item["first"], item["second"]): item for item in group_laws(observations)["ratios"]}
    assert ratios["attention", "mlp"]["marginal"] is None
    assert ratios["attention", "mlp"]["reason"].values["subjects"] == ["attention"]
    assert ratios["lm_head", "mlp"]["marginal"]
