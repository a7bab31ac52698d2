"""Several moments of an inference, each with its own books."""

from __future__ import annotations

from pathlib import Path

import pytest
from generation_builder import Inference, build_inference
from run_builder import build_run

from energyscope.reporting.data import report_data
from energyscope.reporting.data.scenes import scene_table, scenes_data
from energyscope.reporting.rows import component_columns, component_rows
from energyscope.runs.store import RunStore, load_run


def test_each_moment_has_its_own_tree_and_books(tmp_path: Path) -> None:
    """GIVEN prefill, three contexts and the model alone, THEN each has its energy, and the last no components."""
    run = build_inference(tmp_path / "run", Inference(step_as_scene=True))
    found = scenes_data(run)
    assert [scene.short for scene in found] == [
        "prefill, 128 tokens", "decode at 1,024", "decode at 128", "decode at 8,192", "decode at 192",
    ]  # fmt: skip
    assert [scene.detailed for scene in found] == [True, True, True, True, False]
    assert [scene.own_layers for scene in found[:3]] == [True, True, False]
    assert len({scene.energy.model.value for scene in found if scene.energy.model}) == 5
    assert found[3].closure is not None
    assert found[3].closure.energy.value == 0.965
    assert found[4].closure is None


def test_tokens_of_a_pass_are_read_and_those_of_a_step_made(tmp_path: Path) -> None:
    """GIVEN a batch of 4, THEN a pass over 128 tokens has 512 and a step 4; the energy per token is by these."""
    found = scenes_data(build_inference(tmp_path / "run", Inference(batch_size=4)))
    assert [scene.tokens for scene in found[:2]] == [512, 4]
    for scene in found[:2]:
        assert scene.energy.model is not None
        assert scene.per_token is not None
        assert scene.tokens is not None
        assert scene.per_token.value * scene.tokens == pytest.approx(scene.energy.model.value)


def test_anchors_are_unique_and_plain(tmp_path: Path) -> None:
    """Names become anchors of letters, digits and hyphens."""
    found = [scene.anchor for scene in scenes_data(build_inference(tmp_path / "run"))]
    assert len(set(found)) == len(found)
    assert found[1] == "scene-decode-1024"


def test_the_report_is_of_the_first_moment_and_names_the_others(tmp_path: Path) -> None:
    """The profile's own parts are the first moment's; the headline has a pass and a step at each context."""
    data = report_data(build_inference(tmp_path / "run"))
    assert data.energy is not None
    assert data.energy.model == data.scenes[0].energy.model
    assert [scene.name for scene in data.further] == ["decode@1024", "decode@128", "decode@8192"]
    labels = [metric.label for metric in data.headline]
    assert labels[:5] == [
        "Energy per prefill pass", "Energy per 1,000 prompt tokens", "Energy per decode step at 1,024 tokens",
        "Energy per decode step at 128 tokens", "Energy per decode step at 8,192 tokens",
    ]  # fmt: skip
    assert "Energy per generated token" in labels
    assert "Closure, decode at 1,024" in labels
    assert any(sentence.startswith("Decode at 1,024: ") for sentence in data.findings)


def test_what_makes_any_moment_rough_comes_before_what_else_is_known(tmp_path: Path) -> None:
    """GIVEN books that are open in the step alone THEN the findings say so right after what takes most in both."""
    run = build_inference(
        tmp_path / "run", Inference(layers=3, contexts=(1024,), executions=("eager", "cuda-graph"))
    )
    store = RunStore.open(run.path)
    step = next(one for one in store.document["scenes"] if one["name"] == "decode@1024")
    step["closure"]["model"] = {"energy": 0.84, "energy_low": 0.82, "energy_high": 0.86, "with_glue": True}
    store.update()
    said = report_data(load_run(run.path)).findings
    assert [sentence.partition(": ")[0] for sentence in said[2:5]] == [
        "Prefill, 128 tokens, eager", "Decode at 1,024, eager", "Decode at 1,024, eager",
    ]  # fmt: skip
    assert "do not close" in said[4]


def test_a_moment_without_rows_is_left_out(tmp_path: Path) -> None:
    """GIVEN a run that was interrupted before a context was measured, THEN that moment is not shown."""
    run = build_inference(tmp_path / "run")
    store = RunStore.open(run.path)
    store.document["scenes"].append({**store.document["scenes"][1], "name": "decode@16", "context_length": 16})
    store.update()
    assert "decode@16" not in [scene.name for scene in scenes_data(load_run(run.path))]


def test_older_runs_have_no_moments(tmp_path: Path) -> None:
    """GIVEN a run that knows no scenes, THEN there are none, and its table has no column for them."""
    data = report_data(build_run(tmp_path / "run"))
    assert (data.scenes, data.further, data.growth, data.generation, data.choices) == ([], [], None, None, None)
    assert "generate" not in data.missing
    assert "Moment" not in [column.title for column in component_columns(modelled=False)]


def test_one_measurement_takes_one_row_of_the_table(tmp_path: Path) -> None:
    """GIVEN 16 layers of which one mean stands for all, THEN it takes one row that says so, in every moment."""
    data = report_data(build_inference(tmp_path / "run"))
    columns = component_columns(modelled=False, scenes=True)
    rows = component_rows(data)
    assert all(len(row) == len(columns) for row in rows)
    queries = [row for row in rows if row[1].text == "attention.query"]
    assert [row[2].text for row in queries] == [scene.short for scene in data.scenes[:4]]
    assert {row[0].text for row in queries} == {"model.layers.*.self_attn.q_proj (each of 16)"}
    assert {row[3].text for row in queries} == {""}
    layers = [row for row in rows if row[1].text == "layer" and row[2].text == "prefill, 128 tokens"]
    assert len(layers) == 16


def test_the_table_of_moments_says_what_was_not_measured(tmp_path: Path) -> None:
    """The model alone has no closure, and a modelled run no static share."""
    table = scene_table(
        scenes_data(build_inference(tmp_path / "run", Inference(modelled=True, step_as_scene=True)))
    )
    assert table.rows[-1][-1] == "model only"
    assert {row[5] for row in table.rows} == {"not measured"}
    assert all(len(row) == len(table.columns) for row in table.rows)
