"""What the answer is about, whichever part of a run was measured."""

from __future__ import annotations

from dataclasses import replace

import pytest
from benchmark_builder import Bench
from generation_builder import Inference, build_inference
from run_builder import Shape, build_run

from energyscope.reporting.run.answer import Answer
from energyscope.reporting.run.report import DECODE, PREFILL, Report
from energyscope.reporting.run.subject import shape_name, subject_of


@pytest.fixture(scope="module")
def generation(tmp_path_factory):
    """Return a run of a generation with profile, trace and alternatives."""
    return build_inference(tmp_path_factory.mktemp("generation") / "run", Inference(layers=2, contexts=(1024,)))


def without_a_profile(run, **parts):
    """Return a run that has no energy of components; its ``parts`` are replaced."""
    return replace(run, energy=None, document={**run.document, "scenes": []}, **parts)


def test_a_traced_token_is_told_whether_or_not_components_were_measured(generation):
    """GIVEN a trace with and without a profile, THEN both speak of the same token; work and idle add up."""
    whole, alone = subject_of(Report(generation)), subject_of(Report(without_a_profile(generation)))
    assert whole == alone
    assert whole.traced
    assert whole.work.value + whole.idle.value == pytest.approx(whole.energy.value)


def test_alternatives_alone_are_told_by_what_they_are_measured_against(generation):
    """GIVEN nothing but alternatives, THEN the token of their own setting, with the errors of the file."""
    run = without_a_profile(generation, generation=None)
    base = next(row for row in run.alternatives["rows"] if row["what"] == "base" and row["phase"] == DECODE)
    headline = subject_of(Report(run))
    assert headline.phase == DECODE
    assert headline.energy.value == pytest.approx(base["joules_per_token"]["value"] * 1e3)
    assert headline.energy.low == pytest.approx(base["joules_per_token"]["low"] * 1e3)
    assert Answer(Report(run)).facts["case"] == "blocks"


def test_alternatives_of_a_prompt_are_told_by_its_pass(generation):
    """GIVEN alternatives of the prefill only, THEN a pass over the prompt."""
    rows = [row for row in generation.alternatives["rows"] if row["phase"] == PREFILL]
    run = without_a_profile(generation, generation=None, alternatives={**generation.alternatives, "rows": rows})
    base = next(row for row in rows if row["what"] == "base")
    assert subject_of(Report(run)).energy.value == pytest.approx(base["energy_mj"]["value"])


def test_a_benchmark_of_one_precision_is_told_by_its_inference(tmp_path):
    """GIVEN one precision, THEN its energy, its trust and its numbers, and no word of a winner."""
    bench = Bench(precisions=("fp16",), batch_sizes=(4,), metric=None)
    run = build_run(tmp_path / "run", Shape(profile=False, impact=False, benchmark=bench))
    (cell,) = run.benchmark["cells"]
    headline, answer = subject_of(Report(run)), Answer(Report(run))
    assert headline.energy.value == pytest.approx(cell["energy_mj"]["value"])
    assert headline.per_token.value == pytest.approx(cell["energy_mj"]["value"] / (4 * cell["sequence_length"]))
    assert answer.facts["case"] == "blocks"
    assert answer.stats
    assert "no component was measured" in answer.trust


def test_a_baseline_that_was_not_measured_is_no_verdict_on_precisions(tmp_path):
    """GIVEN cells without the baseline's, THEN the sentence says that, and not that nothing saves energy."""
    run = build_run(tmp_path / "run", Shape(profile=False, impact=False, benchmark=Bench()))
    document = {**run.benchmark, "cells": [cell for cell in run.benchmark["cells"] if cell["precision"] != "fp32"]}
    answer = Answer(Report(replace(run, benchmark=document)))
    assert answer.facts["case"] == "no-baseline"
    assert answer.facts["energy"] is not None
    assert answer.stats


def test_nothing_with_an_energy_is_no_subject(generation):
    """GIVEN a run of which no part has an energy, THEN there is nothing to speak of."""
    assert subject_of(Report(without_a_profile(generation, generation=None, alternatives=None))) is None


@pytest.mark.parametrize(
    ("batch", "length", "name"),
    [
        (1, 128, "128 tokens"),
        (8, 2048, "8 x 2,048 tokens"),
        (4, None, "4 examples"),
        (1, None, "one example"),
        (None, 128, ""),
    ],
)
def test_a_shape_reads_as_what_a_pass_reads(batch, length, name):
    """GIVEN batch and length, THEN both in words; a batch of one is not named."""
    assert shape_name(batch, length) == name
