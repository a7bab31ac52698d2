"""A whole generation as plain data and in words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from generation_builder import Inference, build_inference, middle_of

from energyscope.reporting import text
from energyscope.reporting.data import report_data
from energyscope.reporting.data.generation import GenerationData
from energyscope.reporting.data.generation_words import (
    about,
    agreement_sentence,
    loop_sentence,
    phase_table,
    rates,
    trend_sentence,
)
from energyscope.reporting.generation_figures import generation_figures
from energyscope.runs import schema
from energyscope.runs.store import RunStore, load_run


def made(path: Path, shape: Inference | None = None, **changes: Any) -> GenerationData:
    """Build a run and read its generation, with sections of generation.json changed."""
    run = build_inference(path, shape)
    if changes:
        assert run.generation is not None
        RunStore.open(run.path).write_json(schema.GENERATION_JSON, {**run.generation, **changes})
        run = load_run(run.path)
    found = report_data(run).generation
    assert found is not None
    return found


def test_phases_are_read_in_their_order_with_joules_in_mj(tmp_path: Path) -> None:
    """The five phases come with time, energy, tokens and how they were told; the last with why it was not."""
    run = build_inference(tmp_path / "run")
    assert run.generation is not None
    found = report_data(run).generation
    assert found is not None
    assert [row.phase for row in found.phases] == ["load", "tokenize", "prefill", "decode", "detokenize"]
    decode = found.phase("decode")
    assert decode is not None
    assert decode.energy is not None
    assert decode.energy.value == pytest.approx(run.generation["phases"][3]["energy_j"]["value"] * 1e3)
    assert decode.tokens == 127
    table = phase_table(found)
    assert table.rows[-2][-1] == "not told; the tokenizer is missing"
    assert table.rows[-2][1] == "\u2013"
    assert all(len(row) == len(table.columns) for row in table.rows)


def test_parts_and_trace_are_compared_at_the_middle(tmp_path: Path) -> None:
    """The model alone at prompt + half of the new tokens, and the loop, are the parts of a traced step."""
    shape = Inference()
    run = build_inference(tmp_path / "run", shape)
    data = report_data(run)
    assert data.generation is not None
    found = data.generation.agreement
    assert found is not None
    assert found.scene == f"decode at {middle_of(shape)}"
    assert found.parts.value == pytest.approx(found.model.value + found.loop.value)
    assert data.generation.phases[3].energy is not None
    assert found.traced.value == pytest.approx(data.generation.phases[3].energy.value / 127)
    assert found.verdict == "agree"
    assert "they agree within 2.0 %" in agreement_sentence(found)


def test_a_disagreement_is_called_one(tmp_path: Path) -> None:
    """GIVEN a traced decode of 30 % more than its parts, THEN the sentence says so and by how much."""
    found = made(tmp_path / "run", Inference(disagree=1.3)).agreement
    assert found is not None
    assert found.verdict == "disagree"
    assert "less, which is a disagreement" in agreement_sentence(found)


@pytest.mark.parametrize(
    "shape", [Inference(contexts=(192, 1024), beside_trace=False), Inference(step_as_scene=True)]
)
def test_a_scene_of_the_profile_may_be_the_middle(tmp_path: Path, shape: Inference) -> None:
    """GIVEN a run that took no step beside the generations, THEN a scene of its profile is the part."""
    found = made(tmp_path / "run", shape).agreement
    assert found is not None
    assert found.scene == "decode at 192"


def test_a_step_that_was_not_taken_says_why(tmp_path: Path) -> None:
    """GIVEN a step for which no memory was left, THEN the reason stands in the place of the agreement."""
    step = {"energy_mj": None, "seconds": None, "context_length": None, "reason": "no memory was left"}
    found = made(tmp_path / "run", step=step)
    assert found.agreement is None
    assert "no memory was left" in found.disagreement


def test_without_the_model_at_the_middle_there_is_a_reason(tmp_path: Path) -> None:
    """GIVEN no such scene, THEN nothing is compared, and the reason names the context."""
    found = made(tmp_path / "run", Inference(beside_trace=False))
    assert found.agreement is None
    assert "192 tokens" in found.disagreement


def test_an_unknown_loop_says_why(tmp_path: Path) -> None:
    """GIVEN a loop that was not measured, THEN neither sentence holds a number, and the reason is there."""
    loop = {"per_token": None, "per_call": None, "windows": 0, "reason": "the run ended before"}
    found = made(tmp_path / "run", loop=loop)
    assert loop_sentence(found) == "What the loop of generate takes is not known: the run ended before."
    assert found.agreement is None
    assert "the run ended before" in found.disagreement


def test_a_phase_that_cannot_be_told_stays_unknown(tmp_path: Path) -> None:
    """GIVEN a decode without energy, THEN its cells are dashes, its reason is shown and nothing is compared."""
    untold = {"phase": "decode", "method": None, "seconds": None, "energy_j": None, "static_j": None,
              "dynamic_j": None, "power_w": None, "tokens": 127, "joules_per_token": None, "devices_j": None,
              "reason": "cannot be told apart from prefill"}  # fmt: skip
    found = made(tmp_path / "run", phases=[untold])
    assert phase_table(found).rows == [
        ["decode", *["\u2013"] * 6, "127", "\u2013", "not told; cannot be told apart from prefill"]
    ]
    assert found.total is None
    assert found.agreement is None


def test_the_phases_add_up_without_the_load(tmp_path: Path) -> None:
    """The last row is what the known phases but the load add up to, and names the others; shares are of it."""
    found = made(tmp_path / "run")
    assert found.total is not None
    assert found.total.energy is not None
    known = [row for row in found.phases if row.phase != "load" and row.energy is not None]
    whole = sum(row.energy.value for row in known if row.energy)
    assert found.total.energy.value == pytest.approx(whole)
    table = phase_table(found)
    shares = {row[0]: row[table.columns.index("share")] for row in table.rows}
    assert (shares["load"], shares["detokenize"], shares["total"]) == ("once", "\u2013", "100 %")
    decode = found.phase("decode")
    assert decode is not None
    assert decode.energy is not None
    assert shares["decode"] == text.percent(decode.energy.value / whole)
    assert table.rows[-1][-1] == "added up; without detokenize"


def test_rates_have_the_users_units(tmp_path: Path) -> None:
    """Joules per token are shown in mJ or J, times in ms; a rate that is not known says so."""
    found = made(tmp_path / "run")
    shown = {rate.label: rate.value for rate in rates(found)}
    assert shown["Energy per generated token"].endswith(" J")
    assert shown["Time per output token"].endswith(" ms")
    assert {rate.value for rate in rates(made(tmp_path / "none", rates={}))} == {"not measured"}


def test_modelled_joules_say_so(tmp_path: Path) -> None:
    """GIVEN the modelled meter, THEN table, rates, loop and trend carry the word, and there is no power trace."""
    found = made(tmp_path / "run", Inference(modelled=True))
    assert "MODELLED energy [95 %]" in phase_table(found).columns
    assert rates(found)[1].label == "Modelled energy per generated token"
    assert "MODELLED" in loop_sentence(found)
    assert "MODELLED" in trend_sentence(found)
    assert found.trace is None
    assert "no sensor was read" in found.no_trace
    assert all(figure.title.startswith("Modelled energy") for figure in generation_figures(found))


def test_the_trace_lies_on_the_marks(tmp_path: Path) -> None:
    """GIVEN a traced run, THEN power is high in the bands and low outside of them."""
    found = made(tmp_path / "run").trace
    assert found is not None
    assert found.generations == 9
    first = found.bands[0].begin_s
    idle = [point.power_w for point in found.points if point.end_s <= first]
    busy = [point.power_w for point in found.points if first + 0.1 < point.begin_s < found.bands[1].end_s - 0.1]
    assert max(idle) < 140
    assert min(busy) > 200


def test_about_and_trend_are_sentences(tmp_path: Path) -> None:
    """What was generated, and how a step's energy moves over it."""
    found = made(tmp_path / "run")
    assert about(found).startswith("Real calls of generate, each making 128 tokens from a prompt of 128 tokens")
    assert trend_sentence(found).startswith("Steps 1 to ")


def test_steps_without_energy_are_left_out_and_counted(tmp_path: Path) -> None:
    """GIVEN one of two groups without a value, THEN the chart has the other, and the caption counts it."""
    known = {"first": 1, "last": 8, "seconds": None, "energy_mj": {"value": 5.0, "low": None, "high": None},
             "power_w": None}  # fmt: skip
    found = made(tmp_path / "run", steps=[known, {**known, "first": 9, "last": 16, "energy_mj": None}])
    figure = next(one for one in generation_figures(found) if one.name == "energy-per-token")
    assert "1 group of steps without a value left out" in figure.caption
    assert [row[1] for row in figure.table.rows] == ["5.00 mJ", "not measured"]


def test_the_pass_in_graphs_is_told_apart_from_the_eager_trace(tmp_path: Path) -> None:
    """GIVEN a prefill measured in a CUDA graph, THEN its comparison says that the generation ran eagerly.

    The step beside the generations is taken eagerly, as they are.
    """
    run = build_inference(tmp_path / "run", Inference(executions=("cuda-graph",)))
    found = report_data(run).generation
    assert found is not None
    assert found.agreement is not None
    assert found.prefill_agreement is not None
    assert "measured in CUDA graphs" in agreement_sentence(found.prefill_agreement)
    assert "measured in CUDA graphs" not in agreement_sentence(found.agreement)
