from __future__ import annotations

import copy

import pytest
from laws_builder import ONE, SIX, laws_document

from energyscope.reporting.laws import names
from energyscope.reporting.laws.document import (
    drawn_subjects,
    fitted,
    item,
    law_at,
    line_over,
    main_group,
    said_by,
    said_over,
    shows_growth,
    tokens_of,
    whole_of,
    worked,
)
from energyscope.runs.intervals import Interval


def test_an_unknown_value_stays_unknown() -> None:
    """GIVEN null, a value alone or a value with limits, THEN None, no limits, and both."""
    assert item(None) is None
    assert item({"value": None, "low": 1.0, "high": 2.0}) is None
    assert item({"value": 3.0, "low": None, "high": None}) == Interval(3.0)
    assert item({"value": 3.0, "low": 2.0, "high": 4.0}) == Interval(3.0, 2.0, 4.0)


def test_the_line_is_the_documents_own() -> None:
    """GIVEN E0 of 100 mJ and k of 2 pJ/FLOP, THEN 1 TFLOP takes 2,100 mJ."""
    law = {"fixed_mj": {"value": 100.0}, "marginal_pj_per_flop": {"value": 2.0}}
    assert law_at(law, 1e12) == pytest.approx(2100.0)


def test_a_line_reaches_from_the_least_to_the_most_work() -> None:
    """GIVEN points of 1 and 100 FLOP THEN the line ends at both; GIVEN a negative E0 THEN it begins above 0."""
    points = [{"flops": 100e9}, {"flops": 1e9}]
    law = {"fixed_mj": {"value": 5.0}, "marginal_pj_per_flop": {"value": 2.0}}
    found = line_over(law, points)
    assert found[0] == pytest.approx((1e9, 7.0))
    assert found[-1] == pytest.approx((100e9, 205.0))
    below = line_over({**law, "fixed_mj": {"value": -20.0}}, points)
    assert 10e9 < below[0][0] < 15e9
    assert all(energy > 0 for _, energy in below)
    assert line_over(law, points[:1] * 2) == []


def test_of_cells_with_one_work_the_costliest_is_what_a_law_says() -> None:
    """GIVEN residuals of three cells, two of the same FLOPs, THEN pairs are sorted, with the larger of the two."""
    points = [
        {"flops": flops, "energy_mj": {"value": energy}}
        for flops, energy in ((2.0, 10.0), (1.0, 4.0), (2.0, 20.0))
    ]
    assert said_over({"residuals": [0.1, 0.0, 0.2]}, points) == [(1.0, 4.0), (2.0, 16.0)]
    assert said_over({"residuals": [0.1, 1.5, 0.2]}, points) == [(2.0, 16.0)]
    assert said_over({"reason": "one cell"}, points) == []


def test_residuals_give_back_what_the_law_said() -> None:
    """GIVEN a fitted law's residuals, THEN measured x (1 - residual) is what E0 + k x FLOPs says of that cell."""
    whole = whole_of(laws_document(ONE)["groups"][0])
    assert whole is not None
    law, points = whole["two_term"], whole["points"]
    expected = [law_at(law, point["flops"]) for point in points]
    assert said_by(law, points) == pytest.approx(expected, rel=1e-6)
    assert said_by({"reason": "one cell"}, points) == [None] * len(points)


def test_subjects_without_flops_are_not_drawn_over_flops() -> None:
    """GIVEN norms, glue and unexplained, THEN charts over FLOPs show the whole first and only parts with FLOPs."""
    group = laws_document(ONE)["groups"][0]
    shown = [one["subject"] for one in drawn_subjects(group)]
    assert shown[0] == "model"
    assert set(shown) == {"model", "mlp", "attention", "lm_head"}
    assert drawn_subjects(group, most=2) == drawn_subjects(group)[:2]
    assert all(worked(one) for one in drawn_subjects(group))


def test_tokens_of_a_pass_and_of_a_step() -> None:
    """GIVEN batch 4 and 128 tokens, THEN a prefill reads 512 tokens and a decode step makes 4."""
    point = {"batch_size": 4, "tokens": 128}
    assert tokens_of({"phase": "prefill"}, point) == 512
    assert tokens_of({"phase": "decode"}, point) == 4


def test_the_main_group_has_most_cells_and_a_law() -> None:
    """GIVEN six groups, THEN the first sentences speak of the one with most cells; without its law, of another."""
    document = laws_document(SIX[:3])
    chosen = main_group(document)
    assert chosen is not None
    assert len(chosen["cells"]) == max(len(group["cells"]) for group in document["groups"])
    changed = copy.deepcopy(document)
    for group in changed["groups"]:
        if len(group["cells"]) == len(chosen["cells"]):
            whole = whole_of(group)
            assert whole is not None
            whole["two_term"] = {"reason": "one cell"}
    other = main_group(changed)
    assert other is not None
    assert len(other["cells"]) < len(chosen["cells"])
    assert main_group({"groups": []}) is None


def test_the_main_group_shows_growth_where_any_does() -> None:
    """GIVEN no growth shown of the group with most cells, THEN the sentences speak of another; of all, of it."""
    document = laws_document(SIX[:3])
    largest = main_group(document)
    assert largest is not None
    for_all = copy.deepcopy(document)
    whole_of(largest)["two_term"]["marginal_pj_per_flop"] = {"value": 1.0, "low": -1.0, "high": 3.0}  # type: ignore[index]
    other = main_group(document)
    assert other is not None
    assert other is not largest
    assert shows_growth(whole_of(other)["two_term"])  # type: ignore[index]
    for group in for_all["groups"]:
        whole_of(group)["two_term"]["marginal_pj_per_flop"] = {"value": 1.0, "low": -1.0, "high": 3.0}
    flat = main_group(for_all)
    assert flat is not None
    assert len(flat["cells"]) == len(largest["cells"])


def test_labels_name_what_differs_and_nothing_else() -> None:
    """GIVEN groups that differ in execution, THEN that is their label; a single one is named by all it has."""
    document = laws_document(SIX[:2])
    boards = names.boards(document)
    assert set(names.labels(document["groups"], boards)) == {"eager", "CUDA graph"}
    alone = names.labels(document["groups"][:1], boards)
    assert alone == ["llama-3.2-1b, prefill, bf16, eager, NVIDIA H200"]


def test_boards_of_one_type_are_told_apart() -> None:
    """GIVEN two boards of one type, THEN they are numbered; a board without a device keeps its own name."""
    sources = [{"board": "GPU-a", "device": "H200"}, {"board": "GPU-b", "device": "H200"}, {"board": "cpu"}]
    found = names.boards({"sources": sources, "groups": []})
    assert found == {"GPU-a": "H200 (1)", "GPU-b": "H200 (2)", "cpu": "cpu"}


def test_a_reason_is_no_law() -> None:
    """GIVEN a law that was not fitted, THEN it is none."""
    assert fitted({"reason": "one cell"}) is None
    assert fitted(None) is None
    assert fitted({"flags": []}) == {"flags": []}
