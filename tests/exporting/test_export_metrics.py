"""Metrics: a flat dictionary whose names every tracker takes, and the same in a store of MLflow."""

from __future__ import annotations

import json
import math
import re
import sys

import mlflow
import pytest
from benchmark_builder import Bench
from generation_builder import Inference, build_inference
from page_gallery import HOSTILE, hostile_run
from run_builder import Eager, Shape, build_run
from served_builder import build_served

from energyscope.errors import RunError, UsageError
from energyscope.exporting import export
from energyscope.exporting import metrics as exporting
from energyscope.exporting.metrics import log_to_mlflow, metrics

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")  # the narrowest rule, of W&B


@pytest.fixture
def store(tmp_path, monkeypatch):
    """A file store of MLflow, where the environment says, as a server's address would stand there."""
    address = (tmp_path / "store").as_uri()
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
    return mlflow.MlflowClient(address)


def test_values_limits_and_grades_are_those_of_the_run(tmp_path):
    """GIVEN a profile THEN the model's energy, limits and grade are the table's, each by a name with its unit."""
    run = build_run(tmp_path / "run", Eager(layers=2, impact=False))
    numbers = metrics(run)
    model = run.energy.iloc[0]
    assert numbers["prefill_energy_mj"] == model["energy_mj"]
    assert numbers["prefill_energy_mj_low"] == model["energy_ci_low_mj"]
    assert numbers["prefill_energy_mj_high"] == model["energy_ci_high_mj"]
    assert (model["quality"], numbers["prefill_energy_mj_grade"]) == ("invalid", 4)
    assert numbers["prefill_work_mj"] == model["dynamic_mj"]
    assert (model["dynamic_quality"], numbers["prefill_work_mj_grade"]) == ("B", 2)
    assert numbers["prefill_token_mj"] == pytest.approx(model["energy_mj"] / 128)
    assert numbers["prefill_time_us"] == model["time_us"]
    mlp = run.energy[run.energy["kind"] == "mlp"]["energy_mj"].sum()
    assert numbers["prefill_mlp_energy_mj"] == pytest.approx(mlp)


def test_a_generation_and_every_phase_have_names(tmp_path):
    """GIVEN phases at several contexts and a trace THEN each has names of its own, and tokens theirs in joules."""
    run = build_inference(tmp_path / "run", Inference(layers=2, contexts=(1024, 128)))
    numbers = metrics(run)
    by_scene = {scene["name"]: run.scene(scene["name"]).energy.iloc[0]["energy_mj"] for scene in run.scenes}
    assert numbers["decode_1024_energy_mj"] == by_scene["decode@1024"]
    assert numbers["decode_128_energy_mj"] == by_scene["decode@128"]
    rate = run.generation["rates"]["joules_per_generated_token"]
    assert numbers["generation_joules_per_generated_token"] == rate["value"]
    assert numbers["generation_joules_per_generated_token_high"] == rate["high"]
    assert numbers["generation_joules_per_generated_token_grade"] == 1  # half-width 0.8 % of nine generations


def test_what_is_unknown_is_left_out(tmp_path):
    """GIVEN a modelled run, whose work is not known, THEN it has no such names, and joules say MODELLED."""
    numbers = metrics(build_run(tmp_path / "run", Shape(layers=1, impact=False, modelled=True, benchmark=True)))
    assert not [name for name in numbers if "work" in name or "idle" in name]
    assert "MODELLED_prefill_energy_mj" in numbers
    assert "prefill_time_us" in numbers
    joules = [name for name in numbers if re.search("energy|power|token_mj|joule", name)]
    assert len(joules) > 20
    assert all(name.startswith("MODELLED_") for name in joules)


def test_a_benchmark_and_a_server(tmp_path):
    """GIVEN precisions, or a server, THEN their energies and costs are there with limits."""
    run = build_run(tmp_path / "run", Shape(profile=False, impact=False, benchmark=Bench()))
    cell = run.benchmark["cells"][0]
    name = f"benchmark_{cell['precision']}_{cell['batch_size']}x{cell['sequence_length']}"
    numbers = metrics(run)
    assert numbers[f"{name}_energy_mj"] == cell["energy_mj"]["value"]
    assert numbers[f"{name}_latency_s_low"] == cell["latency_s"]["low"]
    served = build_served(tmp_path / "server")
    costs = {cost["cause"]: cost for cost in served.serving["costs"]}
    numbers = metrics(served)
    assert numbers["server_prompt_j_per_token"] == costs["prompt"]["value"]
    assert numbers["server_time_w_high"] == costs["time"]["high"]
    load = served.loads.iloc[0]
    assert numbers[exporting_name(load["load"])] == load["request_j"]


def exporting_name(load: str) -> str:
    return f"server_{re.sub('[^A-Za-z0-9]+', '_', load)}_request_j"


@pytest.mark.parametrize("which", HOSTILE)
def test_names_are_letters_digits_and_underscores(tmp_path, which):
    """GIVEN hostile names THEN those of the metrics are ones that every tracker takes, and values are finite."""
    document = json.loads(export(hostile_run(tmp_path / "run", HOSTILE[which]), "metrics").path.read_text())
    assert len(document) > 50
    assert all(NAME.fullmatch(name) and len(name) <= 250 for name in document)
    assert all(isinstance(value, int | float) and math.isfinite(value) for value in document.values())


def test_a_run_without_figures_is_one_line(tmp_path):
    """GIVEN a run with nothing but its settings THEN the error says so."""
    run = build_run(tmp_path / "run", Shape(profile=False, impact=False), sensor={"idle_w": None})
    with pytest.raises(RunError, match="has no figures"):
        metrics(run)


def test_mlflow_has_the_same_numbers(tmp_path, store, monkeypatch):
    """GIVEN a store in the environment THEN a run of MLflow holds every number, by several calls if need be."""
    monkeypatch.setattr(exporting, "MOST_AT_ONCE", 50)
    run = build_run(tmp_path / "a run", Shape(layers=1, impact=False, modelled=True, benchmark=True))
    logged = store.get_run(log_to_mlflow(run))
    assert len(logged.data.metrics) > 50
    assert logged.data.metrics == metrics(run)
    assert logged.info.status == "FINISHED"
    tags = {name: logged.data.tags[name] for name in ("mlflow.runName", "model", "meter")}
    assert tags == {"mlflow.runName": "a run", "model": run.document["model"]["name"], "meter": "MODELLED"}


def test_mlflow_that_is_missing_or_refuses_is_one_line(tmp_path, store, monkeypatch):
    """GIVEN no MLflow, no address, or one that MLflow does not take, THEN the line says what to do."""
    run = build_run(tmp_path / "run", Shape(layers=1, impact=False))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "gopher://nowhere")
    with pytest.raises(RunError, match=r"MLflow: .*gopher"):
        log_to_mlflow(run)
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    with pytest.raises(UsageError, match="MLFLOW_TRACKING_URI is not set"):
        log_to_mlflow(run)
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(UsageError, match=r"pip install 'energyscope-llm\[mlflow\]'"):
        log_to_mlflow(run)
