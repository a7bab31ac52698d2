from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from typing import Any

import pytest
from laws_builder import ONE, SIX, SIZES, Swept, laws_document

from energyscope.reporting.laws.contrast_figures import contrast_figures, contrast_groups
from energyscope.reporting.laws.efficiency_figures import efficiency_blocks
from energyscope.reporting.laws.findings import (
    MOST,
    contrast_said,
    contrasts_said,
    efficiency_said,
    findings,
    foretold_said,
    sizes_said,
    widest,
)
from energyscope.reporting.laws.head import metrics
from energyscope.reporting.laws.law_tables import (
    held_out_table,
    law_table,
    lawless,
    overview_table,
    reach_words,
    trend_words,
)
from energyscope.reporting.laws.law_words import further_flags, groups_said, held_out_said, law_said, ratio_said
from energyscope.reporting.laws.names import labels, written
from energyscope.reporting.laws.page import bound
from energyscope.scaling.cell import Cell
from energyscope.scaling.two_term import TwoTerm, two_term


@pytest.fixture(scope="module")
def six() -> dict[str, Any]:
    return laws_document(SIX)


def test_findings_are_the_documents_numbers() -> None:
    """GIVEN a document whose k was changed by hand, THEN the first finding says that k."""
    document = laws_document(ONE)
    whole = document["groups"][0]["subjects"][0]
    whole["two_term"]["marginal_pj_per_flop"] = {"value": 42.5, "low": 41.25, "high": 43.75}
    assert "42.5 pJ [41.2, 43.8]" in findings(document)[0]


NOTHING = {"value": -0.5, "low": -2.0, "high": 1.0}
FLAGS = ["E0 is negative: its interval includes 0", "k is negative: its interval includes 0"]


def _with(**terms: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a document whose whole model has these terms, and its group."""
    document = laws_document(ONE)
    group = document["groups"][0]
    group["subjects"][0]["two_term"].update(terms)
    return document, group


def test_a_slope_that_may_be_zero_is_no_cost() -> None:
    """GIVEN k of -0.5 [-2, 1] pJ/FLOP THEN finding, tile and tables say that no growth is shown, with these."""
    document, group = _with(marginal_pj_per_flop=NOTHING, flags=FLAGS[1:])
    said = law_said(document, group)
    assert said.startswith(
        "No growth with FLOPs is shown of the whole model: k is -0.500 pJ/FLOP [-2.0, 1.0], which holds 0 (R"
    )
    assert "; before its first FLOP it takes " in said
    assert "each further one" not in said
    assert "includes 0" not in said, "said once"
    assert findings(document)[0] == said
    tile, offset = metrics(document)[:2]
    assert (tile.label, tile.value) == ("Growth with FLOPs", "not shown")
    assert tile.detail == "k -0.500 pJ/FLOP [-2.0, 1.0], which holds 0"
    assert offset.note == "of the whole model"
    slope = "-0.500 pJ/FLOP [-2.0, 1.0] (no growth shown)"
    assert law_table(group).rows[0][2] == slope
    assert overview_table([group], ["one"]).rows[0][3] == slope
    assert not any("no growth" in row[2] for row in law_table(group).rows[1:4])


def test_a_slope_that_may_be_zero_has_no_trend() -> None:
    """GIVEN k whose interval holds 0, which rises by 366 % a doubling THEN its row tells no trend; others do."""
    group = laws_document(ONE)["groups"][0]
    for one in group["subjects"]:
        one["trend"] = {"verdict": "rising", "change": {"value": 3.66, "low": 1.0, "high": 6.0}}
    column = law_table(group).columns.index("k per doubling")
    assert law_table(group).rows[0][column] == "rising: +366.0 % [100.0, 600.0]"
    group["subjects"][0]["two_term"]["marginal_pj_per_flop"] = NOTHING
    trends = [row[column] for row in law_table(group).rows]
    assert trends[:2] == ["none told: k may be 0", "rising: +366.0 % [100.0, 600.0]"]


def test_flags_as_they_are_written_are_not_said_twice() -> None:
    """GIVEN flags that a fit of scattered cells writes THEN those of terms that may be 0 are not further ones.

    The words of a flag are changed in one place only.
    """
    energies = [(1e9, 4.0), (2e9, 3.0), (3e9, 4.2), (4e9, 3.0)]  # k may be 0
    falling = two_term(_cells(energies))
    rising = two_term(_cells([(1e9, 0.8), (2e9, 2.4), (3e9, 2.4), (4e9, 4.2)]))  # E0 may be 0
    certain = two_term(_cells([(1e9, 9.0), (2e9, 7.0), (3e9, 5.0), (4e9, 3.1)]))
    assert all(isinstance(one, TwoTerm) for one in (falling, rising, certain))
    assert [[flag[:2].strip() for flag in one.flags] for one in (falling, rising, certain)] == [
        ["k"],
        ["E0"],
        ["k"],
    ]
    assert [further_flags({"flags": one.flags}) for one in (falling, rising)] == [[], []]
    assert further_flags({"flags": certain.flags}) == ["k is negative: the law does not hold here"]


def _cells(energies: Sequence[tuple[float, float]]) -> list[Cell]:
    """Return cells of a subject with these FLOPs and mJ."""
    same = {"subject": "model", "model": "m", "phase": "prefill", "precision": "bf16", "execution": "eager"}
    return [
        Cell(
            **same,
            batch_size=1,
            tokens=index + 1,
            energy_mj=energy,
            energy_low_mj=energy * 0.99,
            energy_high_mj=energy * 1.01,
            time_us=1.0,
            static_mj=None,
            flops=flops,
            bytes=1.0,
            board="GPU-1",
        )
        for index, (flops, energy) in enumerate(energies)
    ]


def test_an_offset_that_may_be_zero_is_told_as_such() -> None:
    """GIVEN E0 of -0.5 [-2, 1] mJ THEN sentence and tile say that it cannot be told from nothing; k is a cost."""
    document, group = _with(fixed_mj=NOTHING, flags=FLAGS[:1])
    said = law_said(document, group)
    assert re.match(r"The whole model takes 1\.\d+ pJ \[.*\] for each FLOP \(R", said)
    assert (
        "; what a pass takes before its first FLOP cannot be told from nothing (E0 -500 \u00b5J [-2,000, 1,000]);"
        in said
    )
    slope, offset = metrics(document)[:2]
    assert slope.label == "Each further FLOP costs"
    assert offset.note == "of the whole model; cannot be told from nothing"
    document, group = _with(fixed_mj=NOTHING, marginal_pj_per_flop=NOTHING, flags=FLAGS)
    said = law_said(document, group)
    assert said.startswith("No growth with FLOPs is shown ")
    assert "cannot be told from nothing" in said


def test_terms_that_may_be_zero_are_in_no_range_of_groups() -> None:
    """GIVEN three groups of which one has a k, and another an E0, that may be 0 THEN ranges leave these out."""
    document = laws_document((SIX[0], SIX[3], SIX[4]))
    first, second, third = (group["subjects"][0]["two_term"] for group in document["groups"])
    for law, fixed, slope in ((first, 1_000.0, 1.0), (second, 2_000.0, 2.0), (third, 3_000.0, 3.0)):
        law["fixed_mj"] = {"value": fixed, "low": fixed - 1, "high": fixed + 1}
        law["marginal_pj_per_flop"] = {"value": slope, "low": slope - 0.1, "high": slope + 0.1}
    plain = (
        "Over 3 groups the whole model's E0 lies between 1.00 J and 3.00 J, its k lies between 1.00 pJ and 3.00 pJ"
    )
    assert groups_said(document) == f"{plain} per FLOP."
    first["marginal_pj_per_flop"]["low"] = -1.0
    second["fixed_mj"]["low"] = -1_000.0
    assert groups_said(document) == (
        "Over 3 groups the whole model's E0, in the 2 groups where it can be told from nothing, lies between "
        "1.00 J and 3.00 J, its k, in the 2 groups that show growth, lies between 2.00 pJ and "
        "3.00 pJ per FLOP. No growth with FLOPs is shown in llama-3.2-1b (1.00 pJ/FLOP [-1.0, 1.1]). "
        "E0 cannot be told from nothing in llama-3.2-3b (2.00 J [-1.0, 2.0])."
    )
    second["marginal_pj_per_flop"]["low"] = third["fixed_mj"]["low"] = -1.0
    assert groups_said(document).startswith(
        "Over 3 groups the whole model's E0, in the one group where it can be told from nothing, is 1.00 J, "
        "its k, in the one group that shows growth, is 3.00 pJ per FLOP. No growth"
    )
    for law in (first, second, third):
        law["marginal_pj_per_flop"]["low"] = -1.0
    assert "its k" not in groups_said(document)


def test_three_to_five_findings(six: dict[str, Any]) -> None:
    """GIVEN one group or six, THEN there are three to five sentences, each with a number."""
    for document in (six, laws_document(ONE)):
        found = findings(document)
        assert 3 <= len(found) <= MOST
        assert all(any(character.isdigit() for character in sentence) for sentence in found)


def test_a_ratio_that_includes_one_is_not_told_apart() -> None:
    """GIVEN attention against the MLP at 1.8 [1.7, 1.9], THEN it is dearer; at 1.1 [0.9, 1.3] not."""
    document = laws_document(ONE)
    group = document["groups"][0]
    one = next(ratio for ratio in group["ratios"] if (ratio["first"], ratio["second"]) == ("attention", "mlp"))
    one["marginal"] = {"value": 1.8, "low": 1.7, "high": 1.9}
    said = "Attention costs 1.80 \u00d7 [1.70, 1.90] the MLP's joules per further FLOP."
    assert ratio_said(document, group) == said
    one["marginal"] = {"value": 1.1, "low": 0.9, "high": 1.3}
    assert ratio_said(document, group).endswith(": they cannot be told apart.")


def test_modelled_joules_are_called_modelled() -> None:
    """GIVEN a modelled document, THEN sentences with joules say so."""
    document = laws_document((Swept(modelled=True), Swept(SIZES[1], modelled=True)))
    group = document["groups"][0]
    assert "(MODELLED)" in law_said(document, group)
    assert "modelled joules" in ratio_said(document, group)
    assert "modelled joule " in efficiency_said(document)
    assert sizes_said(document).startswith("Modelled joules")


def test_the_reach_in_words() -> None:
    """GIVEN a law that holds over all, some, no or too few cells, THEN the words tell these four apart."""
    some = {"holds": False, "within": 4, "cells": 12, "to_flops": 2.5e11}
    assert reach_words({"holds": True, "within": 12, "cells": 12}) == "all 12 cells"
    assert reach_words(some) == "4 of 12, to 250 GFLOP"
    assert (
        reach_words({"holds": False, "within": 0, "cells": 12, "reason": "not even three"})
        == "none of 12 cells, from the smallest on"
    )
    assert "fewer" in reach_words({"holds": False, "within": 0, "cells": 2, "reason": "fewer than 3 cells"})


def test_the_trend_in_words() -> None:
    """GIVEN a verdict with or without a change, THEN the change is shown per cent, with its limits where known."""
    change = {"value": 0.045, "low": 0.036, "high": 0.055}
    assert trend_words({"verdict": "rising", "change": change}) == "rising: +4.5 % [3.6, 5.5]"
    assert trend_words({"verdict": "flat", "change": {"value": -0.0025}}) == "flat: -0.2 %"
    assert trend_words({"verdict": "cannot be told", "change": None}) == "cannot be told"


def test_the_table_has_every_subject_and_no_number_where_there_is_no_law() -> None:
    """GIVEN norms without FLOPs, THEN their terms are over bytes or absent with the reason, never 0."""
    group = laws_document(ONE)["groups"][0]
    rows = {row[0]: row for row in law_table(group).rows}
    assert set(rows) == {"whole model", "MLP", "attention", "LM head", "norm", "glue", "unexplained"}
    assert "pJ/byte" in rows["norm"][2]
    norm = next(one for one in group["subjects"] if one["subject"] == "norm")
    del norm["by_bytes"]
    assert "norm" not in {row[0] for row in law_table(group).rows}
    assert lawless(group) == ["No law for norm: it has no FLOPs: energy cannot be told to grow with them."]


def test_a_group_of_one_cell_has_no_numbers() -> None:
    """GIVEN one cell, THEN the overview has no numbers of it."""
    document = laws_document((Swept(batch_sizes=(1,), lengths=(128,)), Swept(execution="cuda-graph")))
    labels = ["one", "two"]
    groups = sorted(document["groups"], key=lambda group: len(group["cells"]))
    rows = overview_table(groups, labels).rows
    assert rows[0][2:] == ["\u2013"] * 3 + ["no law", "\u2013"]
    assert "pJ/FLOP" in rows[1][3]


def test_contrasts_are_said_from_least_to_most(six: dict[str, Any]) -> None:
    """GIVEN graphs and precisions against each other, THEN each pair has a sentence, precisions two."""
    said = contrasts_said(six)
    assert len(said) == len(contrast_groups(six)) + 1
    assert sum("the norm" in sentence for sentence in said) == 1
    found = widest(six)
    ratios = [one["ratio"]["value"] for one in found if one["subject"] == "model"]
    assert f"{min(ratios):.2f} \u00d7" in contrast_said(six, found)
    assert f"{max(ratios):.2f} \u00d7" in contrast_said(six, found)


def test_nothing_is_said_of_what_is_missing() -> None:
    """GIVEN a document without contrasts, efficiency and sizes, THEN their sentences are empty."""
    document = laws_document(ONE, contrasts=[], efficiency=[], sizes=[], sizes_held_out=[])
    assert (efficiency_said(document), sizes_said(document), contrast_said(document, widest(document))) == (
        "",
    ) * 3
    assert len(findings(document)) == 3


def _held(middle: float, worst: float, by: str, cells: int = 4) -> dict[str, Any]:
    return {"median": middle, "worst": worst, "cells": cells, "by": by}


def test_medians_over_groups_are_a_range() -> None:
    """GIVEN medians of 1 and 5 % in two groups, THEN the sentence has both ends, the worst and the amount."""
    document = laws_document(SIX[:2])
    for group, middle in zip(document["groups"], (0.0123, 0.05), strict=True):
        whole = _held(middle, 0.1, "length")
        group["held_out"] = {"whole": whole, "components": None, "reason": None}  # as older documents have it
    said = (
        "Left-out lengths are foretold with a median error of 1.2 to 5.0 % (worst 10 %) for the whole model, over "
        "2 groups."
    )
    assert foretold_said(document) == said
    for group in document["groups"]:
        group["held_out"]["ways"] = [{"by": "length", "whole": group["held_out"]["whole"], "components": None}]
    assert foretold_said(document) == said


def test_what_is_foretold_is_told_of_every_way_of_leaving_out() -> None:
    """GIVEN lengths foretold within 3 % and batch sizes within 36 %, THEN the sentence has both and the worst."""
    document = laws_document(ONE)
    ways = [
        {"by": "length", "whole": _held(0.029, 0.05, "length"), "components": _held(0.05, 0.2, "length", 20)},
        {"by": "batch", "whole": _held(0.36, 1.59, "batch"), "components": None},
    ]
    document["groups"][0]["held_out"] = {**ways[0], "reason": None, "ways": ways}
    assert foretold_said(document) == (
        "Left-out cells are foretold with a median error of 2.9 to 36 % (worst 159 %) for the whole model and "
        "5.0 % (worst 20 %) for its components."
    )


def test_tiles_say_of_what_a_median_is() -> None:
    """GIVEN 4 cells of 5 components, THEN the 20 are errors, not cells; of several ways, it says which."""
    document = laws_document(ONE)
    held = {"whole": _held(0.03, 0.05, "length"), "components": _held(0.05, 0.2, "length", 20), "reason": None}
    document["groups"][0]["held_out"] = held
    details = [one.detail for one in metrics(document) if one.label.startswith("Error")]
    assert details == [
        "median of 4 cells left out",
        "median of 20 errors: of each component in each cell left out",
    ]
    assert any("worst 20 %, 20 errors" in one for one in held_out_said(document["groups"][0]))
    held["ways"] = [{"by": by, "whole": held["whole"], "components": None} for by in ("length", "batch")]
    details = [one.detail for one in metrics(document) if one.label.startswith("Error")]
    assert all(one.endswith(" left out by length") for one in details)


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ("from context 1024 to 4096, less than 10%", "from context 1,024 to 4,096, less than 10 %"),
        ("without batch 16384: 5 %", "without batch 16,384: 5 %"),
        ("gpt2-1024 of 2026-11-22, 0.12345 and 512", "gpt2-1024 of 2026-11-22, 0.12345 and 512"),
    ],
)
def test_a_documents_own_words_have_their_numbers_as_the_page_has_them(told: str, said: str) -> None:
    """GIVEN words that a document holds, THEN thousands are grouped and per cent stand apart; names stay."""
    assert written(told) == said


def test_words_of_knees_and_errors_are_written_as_the_rest_of_the_page() -> None:
    """GIVEN a knee that cannot be told and an error of 2,473 %, THEN the page groups both."""
    document = laws_document(ONE)
    for one in document["efficiency"]:
        one["knee"], one["reason"] = None, "the knee cannot be told: from length 1024 to 4096, less than 10%"
    said = " ".join(line for block in efficiency_blocks(document, {}) for line in block.said)
    assert "from length 1,024 to 4,096, less than 10 %" in said
    group = document["groups"][0]
    group["subjects"][0]["held_out"][0] |= {"median": 1.36, "worst": 24.73, "cells": 1}
    assert any("136 % (2,473 %), 1 cell" in cell for row in held_out_table(group).rows for cell in row)


def test_a_group_without_judged_laws_says_why() -> None:
    """GIVEN no law that left-out cells could judge, THEN the reason stands there."""
    group = copy.deepcopy(laws_document(ONE)["groups"][0])
    for subject in group["subjects"]:
        subject["best"] = None
    group["held_out"] = {"whole": None, "components": None, "reason": "a single length"}
    assert held_out_said(group) == ["No law could be judged: a single length."]


def test_numbers_stay_with_their_units() -> None:
    """GIVEN a sentence, THEN no line breaks between a number and its unit, and no other space is changed."""
    assert (
        bound("within 10 % of 5 mJ, 2 \u00d7 4 tokens") == "within 10\u00a0% of 5\u00a0mJ, 2\u00a0\u00d7 4 tokens"
    )


def test_a_line_through_two_cells_is_no_finding() -> None:
    """GIVEN two cells, THEN no finding claims the line that any two cells give; its group says so."""
    document = laws_document((Swept(batch_sizes=(1,), lengths=(128, 512)),))
    assert not any("each further one" in sentence for sentence in findings(document))
    assert metrics(document) == []
    assert "any two cells give a line" in law_said(document, document["groups"][0])


def test_a_method_is_named_where_nothing_else_tells_groups_apart() -> None:
    """GIVEN graphs of two methods THEN both are named by it; GIVEN eager beside one, by execution alone."""
    base = {"model": "gpt2", "phase": "prefill", "precision": "bf16"}
    eager, old, new = (
        {**base, "execution": execution, "method": method}
        for execution, method in (("eager", "1"), ("cuda-graph", "0"), ("cuda-graph", "1"))
    )
    assert labels([old, new], {}) == ["method 0", "method 1"]
    assert labels([eager, old], {}) == ["eager", "CUDA graph"]


def test_a_contrast_of_an_older_method_is_not_told_without_it(six: dict[str, Any]) -> None:
    """GIVEN graphs of an older method THEN sentence, title and caption of their contrast say so, and no others."""
    assert not any("older method" in sentence for sentence in contrasts_said(six))
    mixed = [
        {**one, "lacking": {"first": "masks were other ones", "second": None}}
        if one["field"] == "execution"
        else one
        for one in six["contrasts"]
    ]
    said = [sentence for sentence in contrasts_said({**six, "contrasts": mixed}) if "older method" in sentence]
    assert said
    for sentence in said:
        assert sentence.startswith("With CUDA graphs, ")
        assert sentence.endswith("which this ratio holds: CUDA graphs (masks were other ones).")
    for figure in contrast_figures({**six, "contrasts": mixed}):
        older = "CUDA graphs" in figure.title
        assert ("by an older method" in figure.title) == older
        assert ("masks were other ones" in figure.caption) == older
