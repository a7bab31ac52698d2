"""What compare says of settings, of what is missing, and of values that stand for several components."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from generation_builder import Inference, build_inference
from run_builder import Shape, build_run

from energyscope.comparison.compare import compare

USED = {"method": "nf4", "double_quant": False, "skipped": ["lm_head"]}


def test_quantization_options_and_places_are_settings_that_differ(tmp_path: Path) -> None:
    """GIVEN two runs of nf4 with other options, THEN each of them is a note, and the joules stay comparable."""
    first = build_run(
        tmp_path / "a", settings={"precision": "nf4"}, model={"quantization": {**USED, "compute_dtype": "float32"}}
    )
    second = build_run(
        tmp_path / "b",
        settings={
            "precision": "nf4",
            "double_quant": True,
            "skip_modules": ["down_proj"],
            "device_map": "balanced",
        },
        model={
            "quantization": {**USED, "compute_dtype": "bfloat16"},
            "device_map": {"h.0": "cuda:0", "h.1": "cpu"},
        },
    )
    pair = compare([first, second]).pairs[0]
    assert pair.obstacles == ()
    assert [(item.field, item.baseline, item.other) for item in pair.notes] == [
        ("settings.double_quant", False, True),
        ("model.quantization.compute_dtype", "float32", "bfloat16"),
        ("settings.skip_modules", False, ["down_proj"]),
        ("settings.device_map", False, "balanced"),
    ]


def test_a_precision_without_a_compute_dtype_says_nothing_of_it(tmp_path: Path) -> None:
    """GIVEN fp32 against nf4, THEN the precision is the note: fp32 has no other data type to multiply in."""
    model = {"quantization": {**USED, "compute_dtype": "float32"}}
    second = build_run(tmp_path / "b", settings={"precision": "nf4"}, model=model)
    first = build_run(tmp_path / "a", settings={"precision": "fp32"})
    (note,) = compare([first, second]).pairs[0].notes
    assert (note.field, note.baseline, note.other) == ("settings.precision", "fp32", "nf4")


def test_warnings_of_both_runs_are_repeated_once_each(tmp_path: Path) -> None:
    """GIVEN a warning of both runs and one of the second, THEN each appears once with the runs' names."""
    first = build_run(tmp_path / "a", warnings=["kernels are wrong"])
    second = build_run(tmp_path / "b", warnings=["kernels are wrong", "scales were unpacked"])
    assert compare([first, second]).warnings == (
        {"warning": "kernels are wrong", "runs": ["a", "b"]},
        {"warning": "scales were unpacked", "runs": ["b"]},
    )


def test_an_interrupted_run_says_which_stages_are_not_done(tmp_path: Path) -> None:
    """GIVEN a run that was stopped in generate, THEN that stage and those never begun are named; report is not."""
    stages = {"generate": {"state": "interrupted"}, "report": {"state": "failed"}}
    asked = {"stages": ["generate", "profile", "alternatives", "report"]}
    broken = build_run(tmp_path / "broken", settings=asked, stages=stages)
    unfinished = compare([build_run(tmp_path / "a"), broken]).unfinished
    assert [(item["run"], item["stage"], item["state"]) for item in unfinished] == [
        ("broken", "generate", "interrupted"),
        ("broken", "alternatives", "not begun"),
    ]


def test_generations_are_compared_with_the_verdicts_of_components(tmp_path: Path) -> None:
    """GIVEN a generation with other rates, THEN times have verdicts, eager totals and work have none."""
    first, second = (build_inference(tmp_path / name, Inference(layers=2)) for name in "ab")
    assert second.generation is not None
    rates = {**second.generation["rates"]}
    for name in ("joules_per_generated_token", "time_per_output_token_s"):
        rates[name] = {key: value * 3 for key, value in rates[name].items()}
    second = dataclasses.replace(second, generation={**second.generation, "rates": rates})
    (generation,) = compare([first, second]).generations
    rows = {row.name: row for row in generation.rows}
    assert list(rows) == [
        "work per generated token", "energy per generated token", "energy per prompt token",
        "time to first token", "time per output token",
        "tokens per joule", "generate's loop per step",
    ]  # fmt: skip
    token = rows["energy per generated token"]
    assert (token.verdict, token.reason) == ("not-comparable", "eager-total")
    assert token.relative is not None
    assert token.relative.value == pytest.approx(3.0)
    assert rows["work per generated token"].reason == "interval-unknown"
    assert rows["time per output token"].verdict == "more"
    assert rows["time to first token"].verdict == "no-difference-shown"


def test_generations_of_other_lengths_are_not_comparable(tmp_path: Path) -> None:
    """GIVEN other numbers of new tokens, THEN no row has a verdict of less or more."""
    runs = [build_inference(tmp_path / str(new), Inference(layers=2, new_tokens=new)) for new in (32, 64)]
    (generation,) = compare(runs).generations
    assert [(item.name, item.baseline, item.other) for item in generation.obstacles] == [("new tokens", 32, 64)]
    assert {row.verdict for row in generation.rows} == {"not-comparable"}


def test_a_decode_step_is_called_so(tmp_path: Path) -> None:
    """GIVEN scenes, THEN the energy of a decode step is that of a step, and a prefill's that of a forward pass."""
    runs = [build_inference(tmp_path / name, Inference(layers=2)) for name in "ab"]
    named = {pair.scene: pair.whole[1].name for pair in compare(runs).pairs}  # after work
    assert named["prefill"] == "energy per forward pass"
    assert {name for scene, name in named.items() if scene != "prefill"} == {"energy per decode step"}


def test_stated_power_is_not_compared_and_time_has_the_interval_of_energy(tmp_path: Path) -> None:
    """GIVEN two modelled runs, THEN latency gets energy's verdict and mean power, the stated watts, has no row."""
    runs = [
        build_run(tmp_path / name, Shape(modelled=True, scale=scale)) for name, scale in (("a", 1.0), ("b", 2.0))
    ]
    pair = compare(runs).pairs[0]
    whole = {item.name: item for item in pair.whole}
    assert "mean power" not in whole
    assert whole["latency"].verdict == whole["energy per forward pass"].verdict == "more"


@pytest.mark.parametrize(
    ("environment", "named"),
    [({"threads": 4}, "CPU threads"), ({"threads": 1, "clock": "processor"}, "clock of times")],
)
def test_times_of_other_threads_or_another_clock_are_not_comparable(
    tmp_path: Path, environment: dict[str, Any], named: str
) -> None:
    """GIVEN two runs on a CPU that differ in threads or in the clock of times, THEN no row has less or more."""
    runs = [
        build_run(tmp_path / name, Shape(modelled=True, scale=scale), device={"type": "cpu"}, environment=own)
        for name, scale, own in (("a", 1.0, {"threads": 1}), ("b", 2.0, environment))
    ]
    pair = compare(runs).pairs[0]
    assert [condition.name for condition in pair.obstacles] == [named]
    assert {row.verdict for row in pair.whole} == {"not-comparable"}


def test_a_difference_without_an_interval_is_none_that_was_looked_for(tmp_path: Path) -> None:
    """GIVEN measured latencies, which have no interval, THEN there is no verdict, not "no-difference-shown"."""
    pair = compare([build_run(tmp_path / "a"), build_run(tmp_path / "b", Shape(scale=0.5))]).pairs[0]
    latency = next(item for item in pair.whole if item.name == "latency")
    assert (latency.verdict, latency.reason) == ("not-comparable", "interval-unknown")


def test_a_mean_over_the_layers_is_one_difference(tmp_path: Path) -> None:
    """GIVEN kinds measured as means over four layers, THEN each is one row that stands for four."""
    pair = compare([build_run(tmp_path / "a"), build_run(tmp_path / "b", Shape(scale=0.9))]).pairs[0]
    shared = [part for part in pair.parts if part.count > 1]
    assert shared
    assert {(part.count, part.origin) for part in shared} == {(4, "mean over the layers")}
    assert all("*" in part.name for part in shared)
    assert len({part.name for part in pair.parts}) == len(pair.parts)


def test_what_neither_run_measured_is_named_apart(tmp_path: Path) -> None:
    """GIVEN modelled runs, THEN idle energy and work are not rows without values."""
    runs = [build_run(tmp_path / name, Shape(modelled=True)) for name in "ab"]
    pair = compare(runs).pairs[0]
    assert pair.unmeasured[:2] == ("idle energy", "work")
    assert not {"idle energy", "work"} & {item.name for item in pair.whole}
