"""Prediction: a planted law is found again, with its error beside it; what cannot be told is refused or said."""

from __future__ import annotations

import json
import math
import time
from dataclasses import replace

import pytest
from prediction_builder import CALL_MJ, NJ_PER_BYTE, PARTS, PJ_PER_FLOP, energy_mj, planted_run, whole_mj

from energyscope.errors import RunError, UsageError
from energyscope.reasons import reason, split
from energyscope.scaling.cells import RESIDUAL
from energyscope.scaling.from_runs import cells_of
from energyscope.scaling.shape_work import PassShape, Skeleton
from energyscope.stages.predict import PredictSettings, _granularity, predict

LENGTHS = (16, 32, 64, 128)


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """Runs of tiny-gpt2 at four lengths of which every joule follows the planted law."""
    root = tmp_path_factory.mktemp("swept")
    return [planted_run(root / f"s{tokens}", tokens) for tokens in LENGTHS]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Runs of two models under one law."""
    root = tmp_path_factory.mktemp("models")
    return [
        planted_run(root / f"{model}-{tokens}", tokens, model=model)
        for model in ("tiny-gpt2", "tiny-llama")
        for tokens in LENGTHS
    ]


def truth(model, phase, batch_size, tokens):
    return Skeleton(model, "fp32").work(PassShape(phase, batch_size, tokens, "fp32"), "medium")


def within(row, value, tolerance):
    return math.isclose(row["energy_mj"]["value"], value, rel_tol=tolerance)


def by_subject(prediction):
    return {row["subject"]: row for row in prediction["parts"]}


def test_a_length_between_is_foretold(swept):
    """GIVEN four lengths WHEN one between is asked THEN whole, sum and parts are near the law, inside the data."""
    prediction = predict(swept, PredictSettings("tiny-gpt2", sequence_length=96))
    works = truth("tiny-gpt2", "prefill", 1, 96)
    assert within(prediction["whole"], whole_mj(works), 0.03)
    assert within(prediction["sum"], whole_mj(works), 0.03)
    rows = by_subject(prediction)
    assert set(rows) == {*PARTS, *RESIDUAL}
    for kind in PARTS:
        assert within(rows[kind], energy_mj(works[kind]), 0.05), kind
        assert not rows[kind]["extrapolated"]
    assert not prediction["whole"]["extrapolated"]


def test_each_prediction_has_its_error_and_an_interval(swept):
    """Beside every prediction stand the error of left-out lengths, their number, and an interval."""
    prediction = predict(swept, PredictSettings("tiny-gpt2", sequence_length=96))
    for row in (prediction["whole"], prediction["sum"], *prediction["parts"]):
        assert row["held_out"]["by"] == "length"
        assert row["held_out"]["where"] == "inside"
        assert row["held_out"]["cells"] == 2  # of four lengths, the two that lie between others
        assert row["held_out"]["median"] < 0.1
        assert row["energy_mj"]["low"] <= row["energy_mj"]["value"] <= row["energy_mj"]["high"]
    timed = [row for row in prediction["parts"] if row["subject"] in PARTS]
    assert all(row["time_us"]["value"] > 0 for row in timed)


def test_outside_of_the_data_it_says_so(swept):
    """GIVEN a length beyond all THEN the prediction is extrapolated and says by how much, with errors of such."""
    prediction = predict(swept, PredictSettings("tiny-gpt2", sequence_length=256, batch_size=2))
    assert prediction["whole"]["extrapolated"]
    assert {part.code for part in split(prediction["whole"]["why"])} == {"beyond-cells"}
    assert prediction["whole"]["held_out"]["where"] == "outside"
    assert prediction["sum"]["why"].code == "parts-beyond-cells"


def test_a_batch_that_was_not_measured(swept):
    """GIVEN lengths of batch 1 WHEN a batch of 4 is asked THEN its FLOPs and bytes decide, as in the law."""
    prediction = predict(swept, PredictSettings("tiny-gpt2", sequence_length=24, batch_size=4))
    assert within(prediction["whole"], whole_mj(truth("tiny-gpt2", "prefill", 4, 24)), 0.05)


def test_a_model_that_was_not_measured(models):
    """GIVEN two models under one law WHEN a third is asked THEN it is foretold, judged by left-out models."""
    prediction = predict(models, PredictSettings("tiny-distilbert", sequence_length=64))
    assert prediction["left_out_by"] == "model"
    assert prediction["notes"][0].code == "laws-of-other-models"
    rows = by_subject(prediction)
    works = truth("tiny-distilbert", "prefill", 1, 64)
    assert within(rows["mlp"], energy_mj(works["mlp"]), 0.15)
    assert rows["mlp"]["held_out"]["by"] == "model"
    assert prediction["left_out"]["lm_head"] == reason("no-such-component", model="tiny-distilbert")
    assert prediction["sum"] is None
    assert prediction["left_out"]["sum-over-parts"] == reason("parts-without-law", parts=["lm_head"])


def test_the_law_per_call_is_the_planted_one(tmp_path):
    """GIVEN MLPs of two models without static power THEN the law per call wins, with the board's coefficients."""
    runs = [
        planted_run(tmp_path / f"{model}-{tokens}", tokens, model=model, modelled=True)
        for model in ("tiny-gpt2", "tiny-llama")
        for tokens in LENGTHS
    ]
    row = by_subject(predict(runs, PredictSettings("tiny-distilbert", sequence_length=64)))["mlp"]
    assert row["law"] == "per-call"
    terms = {name: term["value"] for name, term in row["terms"].items()}
    assert math.isclose(terms["call_mj"], CALL_MJ, rel_tol=0.05)
    assert math.isclose(terms["pj_per_flop"], PJ_PER_FLOP, rel_tol=0.05)
    assert math.isclose(terms["pj_per_byte"], NJ_PER_BYTE * 1e3, rel_tol=0.05)
    assert terms["fixed_mj"] > 0  # E0 and k of a model that nobody measured, from its configuration
    assert terms["marginal_pj_per_flop"] > PJ_PER_FLOP  # bytes come with FLOPs


def test_own_cells_are_enough(models):
    """GIVEN four lengths of the model itself THEN other models' cells are not used, and the page says so."""
    prediction = predict(models, PredictSettings("tiny-llama", sequence_length=48))
    assert prediction["notes"] == [reason("other-models-not-used", models=["tiny-gpt2"], model="tiny-llama")]
    assert by_subject(prediction)["mlp"]["cells"] == len(LENGTHS)


def test_decode_steps_are_foretold(tmp_path):
    """GIVEN steps at three contexts WHEN a fourth is asked THEN it is near the law."""
    runs = [planted_run(tmp_path / f"d{context}", context, phase="decode") for context in (16, 64, 128)]
    prediction = predict(runs, PredictSettings("tiny-gpt2", context_length=100))
    assert prediction["phase"] == "decode"
    works = truth("tiny-gpt2", "decode", 1, 100)
    assert within(prediction["whole"], whole_mj(works), 0.05)
    assert within(prediction["sum"], whole_mj(works), 0.05)
    mlp = by_subject(prediction)["mlp"]  # does the same at each context
    assert mlp["law"] == "constant"
    assert within(mlp, energy_mj(works["mlp"]), 0.01)
    assert not mlp["extrapolated"]


def test_cells_of_the_same_work_say_nothing_of_another(tmp_path):
    """GIVEN steps of one sequence WHEN four are asked THEN no constant is given out for them, and why."""
    runs = [planted_run(tmp_path / f"d{context}", context, phase="decode") for context in (16, 64, 128)]
    prediction = predict(runs, PredictSettings("tiny-gpt2", context_length=64, batch_size=4))
    assert "mlp" not in by_subject(prediction)
    assert prediction["left_out"]["mlp"] == reason("other-work-than-cells", cells=3)
    assert prediction["sum"] is None


def test_one_cell_is_no_law(swept):
    """GIVEN one run THEN it is refused, with what to do."""
    with pytest.raises(UsageError, match=r"^one cell gives no law: measure another length"):
        predict(swept[:1], PredictSettings("tiny-gpt2", sequence_length=96))


def test_two_cells_have_no_held_out_error(swept):
    """GIVEN two lengths THEN a line goes through them, and that nothing judges it is said."""
    row = predict(swept[:2], PredictSettings("tiny-gpt2", sequence_length=24))["whole"]
    assert row["held_out"]["median"] is None
    assert row["held_out"]["reason"].values["why"] == reason("few-cells", cells=1, needed=2)


def test_the_same_length_twice_is_no_law(tmp_path):
    """GIVEN one length measured twice THEN it is one cell still: energy cannot be told to grow."""
    runs = [planted_run(tmp_path / name, 32) for name in ("first", "again")]
    with pytest.raises(UsageError, match=r"^one cell gives no law"):
        predict(runs, PredictSettings("tiny-gpt2", sequence_length=96))


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"board": "GPU-2222"}, ("several boards", "--mixed board", "GPU-2222: odd")),
        ({"execution": "cuda-graph"}, ("several executions", "--mixed execution")),
        ({"precision": "bf16"}, ("several precisions", "--mixed precision")),
        ({"modelled": True}, ("several meters", "leave some out")),
    ],
)
def test_runs_that_differ_are_refused(swept, tmp_path, other, words):
    """GIVEN a run of another board, execution, precision or meter THEN the message says which differs in what."""
    odd = planted_run(tmp_path / "odd", 64, **other)
    with pytest.raises(UsageError) as refused:
        predict([*swept, odd], PredictSettings("tiny-gpt2", sequence_length=96))
    assert [word for word in words if word not in str(refused.value)] == []


def test_modelled_joules_never_mix(swept, tmp_path):
    """GIVEN `--mixed meter` THEN it is refused: joules that were not measured make no law with measured ones."""
    with pytest.raises(UsageError, match="--mixed meter is not possible"):
        predict(swept, PredictSettings("tiny-gpt2", mixed=("meter",)))


def test_boards_are_scaled_to_one_when_asked(swept, tmp_path):
    """GIVEN a board that takes 8 % more WHEN boards may mix THEN its cells are scaled, and by how much is said."""
    odd = [planted_run(tmp_path / f"b{item}", item, board="GPU-2222", noise=1.08) for item in (32, 128)]
    prediction = predict([*swept, *odd], PredictSettings("tiny-gpt2", sequence_length=96, mixed=("board",)))
    assert within(prediction["whole"], whole_mj(truth("tiny-gpt2", "prefill", 1, 96)), 0.03)
    (note,) = (item for item in prediction["notes"] if item.code == "scaled-to-board")
    assert (note.values["board"], note.values["factor"]) == ("GPU-2222", pytest.approx(1 / 1.08))


def test_a_limit_picks_its_runs(swept, tmp_path):
    """GIVEN runs at 700 W, the default, and at 400 W WHEN one is named THEN the others stay out."""
    held = [planted_run(tmp_path / f"b{item}", item, noise=0.8) for item in (16, 64, 128)]
    for run in held:
        run.document["device"] |= {"power_limit_w": 400.0, "default_power_limit_w": 700.0}
    asked = PredictSettings("tiny-gpt2", sequence_length=96)
    whole = whole_mj(truth("tiny-gpt2", "prefill", 1, 96))
    assert within(predict([*swept, *held], replace(asked, limit="default"))["whole"], whole, 0.03)
    assert within(predict([*swept, *held], replace(asked, limit="400 W"))["whole"], 0.8 * whole, 0.03)
    with pytest.raises(UsageError, match=r"--limit 500 W: they have 400 W, default"):
        predict([*swept, *held], replace(asked, limit="500 W"))
    with pytest.raises(UsageError, match=r"several limits .*choose one with --limit"):
        predict([*swept, *held], asked)


def test_a_precision_picks_its_runs(swept, tmp_path):
    """GIVEN runs of two precisions WHEN one is named THEN the others stay out; one nobody measured is refused."""
    odd = planted_run(tmp_path / "odd", 64, precision="bf16")
    prediction = predict([*swept, odd], PredictSettings("tiny-gpt2", sequence_length=96, precision="fp32"))
    assert len(prediction["from"]) == len(LENGTHS)
    with pytest.raises(UsageError, match="no law carries over"):
        predict(swept, PredictSettings("tiny-gpt2", sequence_length=96, precision="nf4"))


def test_a_length_beyond_the_positions_is_refused(swept):
    """GIVEN a length that the model has no positions for THEN it is refused with their number."""
    with pytest.raises(UsageError, match=r"too long: tiny-gpt2 has 512 positions"):
        predict(swept, PredictSettings("tiny-gpt2", sequence_length=4096))


@pytest.mark.parametrize(
    "settings",
    [
        PredictSettings("tiny-gpt2", phase="prefill", context_length=8),
        PredictSettings("tiny-gpt2", phase="decode", sequence_length=8),
        PredictSettings("tiny-gpt2", sequence_length=8, context_length=8),
        PredictSettings("tiny-gpt2", phase="both"),
        PredictSettings("tiny-gpt2", context_length=8),
    ],
)
def test_contradictions_are_refused(swept, settings):
    """Options of the other phase, both at once, and a phase that no run measured, are refused."""
    with pytest.raises(UsageError):
        predict(swept, settings)


def test_a_negative_term_is_shown_and_flagged(tmp_path):
    """GIVEN joules that fall with the length THEN k is negative as it is, not clipped, and a flag says so."""
    runs = [
        planted_run(tmp_path / f"n{tokens}", tokens, noise=noise)
        for tokens, noise in ((16, 3.0), (64, 1.0), (128, 0.4))
    ]
    row = predict(runs, PredictSettings("tiny-gpt2", sequence_length=32))["whole"]
    if row["law"] == "two-term":
        assert row["terms"]["marginal_pj_per_flop"]["value"] < 0
    assert any("negative" in str(flag.code) for flag in row["flags"])


def test_fits_take_less_than_a_second(swept):
    """GIVEN runs that are read WHEN a shape is foretold THEN laws are fitted and judged in under a second."""
    begin = time.process_time()  # not the wall's: a busy machine is not what is judged
    predict(swept, PredictSettings("tiny-gpt2", sequence_length=96))
    assert time.process_time() - begin < 5  # the bar is 1 s; a slow machine is given room


def test_the_document_is_plain(swept):
    """What is returned can be written as JSON without anything of its own."""
    prediction = predict(swept, PredictSettings("tiny-gpt2", sequence_length=96))
    assert json.loads(json.dumps(prediction, allow_nan=False)) == prediction


def test_a_run_without_components_is_refused(swept, tmp_path):
    """GIVEN a run of a benchmark alone THEN the message names it."""
    from run_builder import Shape, build_run

    empty = build_run(tmp_path / "empty", Shape(profile=False, benchmark=True))
    with pytest.raises(RunError, match="empty holds no energies"):
        predict([*swept, empty], PredictSettings("tiny-gpt2"))


def at_granularity(run, granularity, *, norm_in_layers=False):
    """Return a run as if its components were told apart at a granularity; coarse ones lack what layers hold."""
    document = {**run.document, "settings": {**run.document["settings"], "granularity": granularity}}
    energy = run.energy
    if norm_in_layers:
        energy = energy[~energy["kind"].isin(["attention", "mlp"])].copy()
        is_norm = energy["kind"] == "norm"
        columns = ["energy_mj", "energy_ci_low_mj", "energy_ci_high_mj", "static_mj", "time_us", "flops", "bytes"]
        energy[columns] = energy[columns].where(~is_norm, energy[columns] / 9)
    return replace(run, document=document, energy=energy)


def test_work_is_foreseen_as_finely_as_it_was_measured(swept, tmp_path):
    """GIVEN runs of one granularity THEN work is foreseen at it; GIVEN none that says so, at the finest."""
    assert _granularity(cells_of(at_granularity(swept[0], "medium"))) == "medium"
    unsaid = replace(swept[0], document={**swept[0].document, "settings": {}})
    assert _granularity(cells_of(unsaid)) == "fine"


def test_two_granularities_keep_the_sum(swept, tmp_path):
    """GIVEN medium runs and coarse ones, whose norm is another, THEN the sum is of the medium ones, as said."""
    medium = [at_granularity(run, "medium") for run in swept]
    coarse = [at_granularity(planted_run(tmp_path / "c", 48), "coarse", norm_in_layers=True)]
    asked = PredictSettings("tiny-gpt2", sequence_length=96)
    alone, both = predict(medium, asked), predict([*coarse, *medium], asked)
    assert both["sum"]["energy_mj"] == alone["sum"]["energy_mj"]
    assert by_subject(both) == by_subject(alone)
    assert both["whole"]["cells"] == len(LENGTHS) + 1
    note = reason("one-granularity", cells=4, granularity="medium", others=1, unused=["coarse"])
    assert note in both["notes"]


def test_another_models_parts_do_not_lose_the_sum(swept, tmp_path):
    """GIVEN enough cells of the model, and other ones of a model with other parts, THEN the sum is told."""
    other = planted_run(tmp_path / "o", 48, model="tiny-llama")
    other = replace(other, energy=other.energy[other.energy["kind"] != "embedding"])
    prediction = predict([other, *swept], PredictSettings("tiny-gpt2", sequence_length=96))
    assert prediction["sum"] is not None
    assert {source["model"] for source in prediction["from"]} == {"tiny-gpt2"}


def test_no_lower_limit_is_negative(tmp_path):
    """GIVEN joules that scatter by half THEN no lower limit lies below 0, and which rows have none is said."""
    scatter = {16: 0.7, 32: 1.6, 64: 0.6, 128: 1.4}
    runs = [planted_run(tmp_path / f"r{row}", row, noise=noise) for row, noise in scatter.items()]
    prediction = predict(runs, PredictSettings("tiny-gpt2", sequence_length=48))
    rows = [prediction["whole"], prediction["sum"], *prediction["parts"]]
    assert all(row["energy_mj"]["value"] > 0 for row in rows)
    without = [row for row in rows if row["energy_mj"]["low"] is None]
    assert without
    assert all(reason("no-lower-limit", quantity="energy") in row["flags"] for row in without)
    assert all(row["energy_mj"]["high"] > row["energy_mj"]["value"] for row in without)
    assert all(
        row["energy_mj"]["low"] > 0 for row in rows if row not in without and row["subject"] != "unexplained"
    )


def test_a_law_that_says_a_negative_energy_tells_nothing(tmp_path):
    """GIVEN joules that fall with length WHEN a far longer one is asked THEN none is told, and why, in a line."""
    runs = [
        planted_run(tmp_path / f"n{tokens}", tokens, noise=noise, modelled=True)
        for tokens, noise in ((16, 3.0), (64, 1.0), (128, 0.4))
    ]
    with pytest.raises(UsageError, match=r"^nothing can be predicted: the law gives a negative energy here"):
        predict(runs, PredictSettings("tiny-gpt2", sequence_length=512, batch_size=8))
