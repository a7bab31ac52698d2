"""Advice names the joules that it rests on, what a change costs in time, and what cannot be told."""

from __future__ import annotations

import pytest
from advice_builder import cell, document, limited, row
from hypothesis import given
from hypothesis import strategies as st

from energyscope.advising.advice import advice

LARGER = row("batch_size", "16", mj=10.0, us=1500.0)


def only(found, what):
    (one,) = [one for one in found if one.what == what]
    return one


def test_a_saving_names_both_joules_and_what_it_costs_in_time():
    """GIVEN a batch of 16 at a tenth of the joules THEN both are named with intervals, and the longer step."""
    one = only(advice(document(LARGER), None), "batch_size")
    assert one.confident
    assert "A batch of 16 instead of a batch of 1 saves 90 % of the joules per generated token" in one.sentence
    assert "10.0 mJ [9.90, 10.10] against 100 mJ [99.0, 101.0]" in one.sentence
    assert "a step takes 1.50 times as long (1.50 ms against 1.00 ms)" in one.sentence
    assert one.saving == pytest.approx({"value": 0.9, "low": 0.899, "high": 0.901})


def test_of_several_sizes_the_best_is_advised_and_the_others_are_named():
    """GIVEN batches of 4 and 16 THEN the sentence is on 16, and says what 4 takes."""
    one = only(advice(document(row("batch_size", "4", mj=30.0), LARGER), None), "batch_size")
    assert one.sentence.startswith("A batch of 16")
    assert "also 30.0 mJ [29.70, 30.30] with a batch of 4" in one.sentence


def test_what_takes_more_is_said_to_cost():
    """GIVEN eager attention at 1.3 times the joules THEN it costs 30 % more, and its saving is negative."""
    one = only(advice(document(row("attention", "eager", mj=130.0, us=1300.0)), None), "attention")
    assert one.confident
    assert "Eager attention instead of sdpa attention costs 30 % more joules" in one.sentence
    assert one.saving["value"] == pytest.approx(-0.3)


def test_an_interval_that_includes_one_cannot_be_told():
    """GIVEN a static cache at 0.995 of the joules, known to 1 %, THEN nothing is advised, and both are named."""
    one = only(advice(document(row("kv_cache", "static", mj=99.5)), None), "kv_cache")
    assert not one.confident
    assert "cannot be told: 99.5 mJ [98.5, 100.5] against 100 mJ [99.0, 101.0]" in one.sentence
    assert "includes 1" in one.sentence


@pytest.mark.parametrize("quality", ["C", "invalid"])
@pytest.mark.parametrize("spoilt", [{"guards": ["another process"]}, {"windows": 2}])
def test_a_disturbed_window_carries_no_advice(quality, spoilt):
    """GIVEN a tenth of the joules beside another process, or in two windows, THEN it cannot be told."""
    one = only(advice(document(row("batch_size", "16", mj=10.0, quality=quality, **spoilt)), None), "batch_size")
    assert not one.confident
    assert "for more than scatter" in one.sentence


def test_scattered_windows_say_what_is_saved_at_least():
    """GIVEN a tenth of the joules, known to 60 %, THEN the nearer end of the interval is said to be saved."""
    one = only(advice(document(row("batch_size", "16", mj=10.0, half=0.6, quality="C")), None), "batch_size")
    assert one.confident
    assert "saves at least 84 % of the joules per generated token: 10.0 mJ [4, 16]" in one.sentence
    assert one.saving["low"] == pytest.approx(0.84)


@pytest.mark.parametrize(("mj", "said"), [(150.0, "at least 20 % more joules"), (400.0, "at least 3.20 times")])
def test_scattered_windows_say_what_it_costs_at_least(mj, said):
    """GIVEN more joules, known to 20 %, THEN the nearer end of the interval is what is said to be lost."""
    found = advice(document(row("attention", "eager", mj=mj, half=0.2, quality="C")), None)
    assert f"costs {said}" in only(found, "attention").sentence


def test_what_is_below_grade_c_says_so_and_is_not_confident():
    """GIVEN a tenth of the joules, below grade C, THEN the sentence says so and comes after what can be told."""
    weak = row("batch_size", "16", mj=10.0, half=0.6, quality="invalid")
    found = advice(document(weak, row("attention", "eager", mj=130.0, us=1300.0)), None)
    assert [one.what for one in found] == ["attention", "batch_size"]
    assert [one.confident for one in found] == [True, False]
    assert found[1].sentence.endswith("(below grade C: not to be relied on).")
    assert "below grade C" not in found[0].sentence


def test_a_base_below_grade_c_makes_no_advice_confident():
    """GIVEN the run's own setting below grade C, THEN every sentence beside it says so."""
    rows = [LARGER, row("context_length", "128", mj=50.0), row("context_length", "8192", mj=300.0)]
    found = document(*rows)
    found["rows"][0]["quality"] = "invalid"
    said = advice(found, None)
    assert "below grade C" in only(said, "batch_size").sentence
    assert not only(said, "batch_size").confident
    # the price of context is that of the shortest and the longest, which are of grade A
    assert only(said, "context_length").confident
    found["rows"][3]["quality"] = "invalid"
    price = only(advice(found, None), "context_length")
    assert "below grade C" in price.sentence
    assert not price.confident


def test_a_smaller_saving_of_grade_c_comes_before_a_larger_one_below_it():
    """GIVEN nine tenths saved below grade C and a half at grade C, THEN the half is advised, without the other."""
    rows = [row("batch_size", "16", mj=10.0, quality="invalid"), row("batch_size", "4", mj=50.0, quality="C")]
    one = only(advice(document(*rows), None), "batch_size")
    assert one.confident
    assert one.sentence.startswith("A batch of 4")
    assert "a batch of 16" not in one.sentence


def test_a_time_within_the_scatter_is_not_told():
    """GIVEN steps of 1 ms and 1.05 ms, known to 5 %, THEN neither is said to take longer."""
    found = document(row("batch_size", "16", mj=10.0, us=1050.0, half=0.05))
    found["rows"][0]["time_us"] = limited(1000.0, 0.05)
    one = only(advice(found, None), "batch_size")
    assert "whether a step takes longer cannot be told (1.05 ms against 1.00 ms)" in one.sentence


def test_what_is_surely_saved_decides_what_is_advised():
    """GIVEN a half that may be nothing, and a proven third THEN the third is advised."""
    unsure = {
        **row("batch_size", "4", mj=50.0, quality="invalid"),
        "ratio": {"value": 0.5, "low": 0.1, "high": 0.99},
    }
    one = only(advice(document(unsure, row("batch_size", "16", mj=67.0)), None), "batch_size")
    assert one.sentence.startswith("A batch of 16 instead of a batch of 1 saves 33 %")


def test_a_document_without_guards_needs_good_grades():
    """GIVEN a row of an older version, of grade C, THEN why is not known, and nothing is advised."""
    older = row("batch_size", "16", mj=10.0, quality="C")
    del older["guards"]
    one = only(advice(document(older), None), "batch_size")
    assert not one.confident
    assert "it takes A or B" in one.sentence


def test_a_graph_says_what_else_it_needs_and_what_idle_power_takes():
    """GIVEN a step in a CUDA graph on a static cache THEN the cache, the capture and idle power are named."""
    graph = row("execution", "cuda-graph", mj=40.0, us=300.0, setup_s=0.05, static_mj=30.0)
    graph["kv_cache"] = "static"
    found = document(graph)
    found["rows"][0]["static_mj"] = 90.0
    one = only(advice(found, None), "execution")
    assert "A CUDA graph instead of eager execution saves 60 % of the joules" in one.sentence
    assert (
        "(of which idle power 30.0 mJ) against 100 mJ [99.0, 101.0] (of which idle power 90.0 mJ)" in one.sentence
    )
    assert "a step takes 30 % of the time" in one.sentence
    assert "it needs a static KV cache" in one.sentence
    assert "capturing took 50.0 ms once" in one.sentence


def test_compiling_is_told_apart():
    """GIVEN a compiled step THEN the seconds of compiling are named, and are not in its joules."""
    one = only(
        advice(document(row("execution", "torch-compile", mj=60.0, us=500.0, setup_s=24.0)), None), "execution"
    )
    assert one.sentence.startswith("torch.compile instead of eager execution saves 40 %")
    assert "compiling took 24.0 s once" in one.sentence


def test_context_has_a_price_a_thousand_tokens():
    """GIVEN 91.04 mJ at 128 tokens and 171.68 at 8,192 THEN each further 1,000 tokens cost 10 mJ a step."""
    rows = [row("context_length", "128", mj=91.04), row("context_length", "8192", mj=171.68)]
    one = only(advice(document(*rows), None), "context_length")
    assert one.confident
    assert one.sentence.startswith("Each further 1,000 tokens of context cost 10.0 mJ [")
    assert "at 128 tokens of context" in one.sentence
    assert "at 8,192" in one.sentence
    assert one.saving["value"] == pytest.approx(1 - 0.9104)


def test_a_context_that_costs_nothing_that_could_be_seen_cannot_be_told():
    """GIVEN the same joules at both ends THEN what context costs cannot be told."""
    rows = [row("context_length", "128", mj=99.9), row("context_length", "8192", mj=100.4)]
    one = only(advice(document(*rows), None), "context_length")
    assert not one.confident
    assert "cannot be told" in one.sentence


def test_modelled_joules_say_so_and_are_not_confident():
    """GIVEN joules that are time x watts THEN every sentence begins with it, and none is confident."""
    found = advice(document(LARGER, row("context_length", "128", mj=50.0), modelled=True), None)
    assert len(found) == 2
    assert all(one.sentence.startswith("MODELLED (time x stated watts)") for one in found)
    assert not any(one.confident for one in found)


def test_the_largest_saving_comes_first_and_what_cannot_be_told_last():
    """Confident advice is in the order of its saving; the rest follows."""
    rows = [row("kv_cache", "static", mj=99.9), row("attention", "eager", mj=130.0), LARGER]
    assert [one.what for one in advice(document(*rows), None)] == ["batch_size", "attention", "kv_cache"]


def test_both_phases_are_advised():
    """GIVEN prefill rows THEN they have sentences of their own, per prompt token."""
    found = document(row(phase="prefill"), row("batch_size", "16", mj=50.0, phase="prefill"), LARGER)
    sentences = [one.sentence for one in advice(found, None)]
    assert [text.count("per generated token") for text in sentences] == [1, 0]
    assert "per prompt token" in sentences[1]
    assert "a pass takes as long" in sentences[1]


def test_without_alternatives_there_is_no_advice():
    """GIVEN a run that measured no alternatives, or no base, THEN nothing is said."""
    assert advice(None, None) == []
    assert advice({**document(), "rows": [LARGER]}, None) == []


@given(
    st.floats(0.01, 100),
    st.floats(0.001, 0.2),
    st.sampled_from(["A", "B", "C", "invalid"]),
    st.sampled_from([[], ["another process"]]),
)
def test_only_intervals_without_one_of_undisturbed_windows_of_grade_c_are_confident(ratio, half, quality, guards):
    """Whatever the ratio, its width, its grade and its guards, confidence follows the rule."""
    scattered = row("batch_size", "16", mj=100 * ratio, half=half, quality=quality, guards=guards)
    one = only(advice(document(scattered), None), "batch_size")
    sound = quality in {"A", "B"} or not guards
    told = (ratio * (1 - half) > 1 or ratio * (1 + half) < 1) and sound
    assert one.confident == (told and quality != "invalid")
    assert ("below grade C" in one.sentence) == (told and quality == "invalid")
    assert ("cannot be told" in one.sentence) == (not told)
    if told:
        assert ("at least" in one.sentence) == (quality not in {"A", "B"})


# --- precision --------------------------------------------------------------------------------------------------


def benchmark(*cells, baseline="bf16", predictions=()):
    return {"baseline": baseline, "cells": list(cells), "predictions": list(predictions)}


def test_a_precision_that_saves_is_named_with_its_predictions():
    """GIVEN a benchmark against the run's own precision THEN its paired ratio is taken, with the predictions."""
    judged = {"precision": "int8", "metric": "perplexity", "agreement": limited(0.98), "difference": limited(0.2)}
    found = benchmark(cell("bf16", 100.0, ratio=1.0), cell("int8", 60.0, ratio=0.55), predictions=[judged])
    one = only(advice(document(), found), "precision")
    assert one.saving["value"] == pytest.approx(0.45)
    assert "The precision int8 instead of bf16 saves 45 % of the joules" in one.sentence
    assert (
        "600 µJ [594, 606] against 1.00 mJ [0.990, 1.010] per token in passes over 1 x 100 tokens" in one.sentence
    )
    assert "98.0 % of the predictions are those of bf16 and perplexity differs by +0.2" in one.sentence


def test_against_another_baseline_the_cells_are_compared():
    """GIVEN a benchmark against fp32 WHEN the run is bf16 THEN the ratio is that of the cells' energies."""
    cells = cell("fp32", 300.0, ratio=1.0), cell("bf16", 100.0, ratio=0.33), cell("nf4", 80.0, ratio=0.27)
    found = benchmark(*cells, baseline="fp32")
    one = only(advice(document(), found), "precision")
    assert one.saving["value"] == pytest.approx(0.2)
    assert one.saving["low"] < 0.2 < one.saving["high"]
    assert "what it does to the predictions was not measured" in one.sentence


def test_where_no_precision_saves_the_nearest_is_named():
    """GIVEN precisions that all cost more THEN that is said, with the nearest one's joules."""
    found = benchmark(
        cell("bf16", 100.0, ratio=1.0), cell("int8", 150.0, ratio=1.5), cell("nf4", 120.0, ratio=1.2)
    )
    one = only(advice(document(), found), "precision")
    assert "No precision that was measured saves joules beside bf16. The nearest" in one.sentence
    assert "nf4" in one.sentence
    assert one.saving["value"] == pytest.approx(-0.2)


def test_a_benchmark_without_the_runs_precision_says_nothing():
    """GIVEN a benchmark that lacks the run's own precision THEN there is nothing to compare with."""
    assert advice(document(), benchmark(cell("fp32", 100.0), baseline="fp32")) == []
