"""A run of several scenes: one table with all rows, and each scene as if it were alone."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest

from energyscope.comparison.compare import compare
from energyscope.errors import RunError
from energyscope.loading import load_model
from energyscope.metering.group import MeterGroup
from energyscope.metering.modelled import ModelledMeter
from energyscope.runs.store import RunStore, load_run, read_journal
from energyscope.settings.run import RunSettings
from energyscope.stages.phases import plan_phases, workload_of, write
from energyscope.stages.profile import ProfileSettings, profile
from energyscope.stages.sampling_budget import SamplingBudget
from energyscope.workloads import profile_inputs

NAMES = ["prefill", "decode@24", "decode@48"]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Return a run of a bundled model's prompt and two decode steps, as its journal."""
    loaded = load_model("tiny-llama", device="cpu")
    settings = RunSettings("tiny-llama", stages=("profile",), context_lengths=(24, 48), granularity="fine")
    made = RunStore.create("scenes", tmp_path_factory.mktemp("runs"))
    made.update(name="scenes", settings=settings.document(), warnings=[])
    prompt = profile_inputs(loaded, sequence_length=8)
    with MeterGroup([ModelledMeter(65.0)]) as meter:
        for scene in plan_phases(settings, loaded):
            chosen = ProfileSettings("fine", scene.layers, SamplingBudget(2, window_s=0.03, budget_s=0.06))
            given = workload_of(scene, loaded, prompt, settings, None)
            profile(loaded, given, meter, chosen, journal=made.journal, phase_name=scene.name)
    write(made, read_journal(made.path))
    return made


@pytest.fixture(scope="module")
def run(store):
    return load_run(store.path)


def test_every_scene_has_its_rows(run):
    """The table holds all scenes, in order, with phase, context and cache; no layer stands in for another."""
    keys = run.energy[["phase", "context_length", "kv_cache"]].drop_duplicates()
    assert [tuple(key) for key in keys.itertuples(index=False)] == [
        ("prefill", 8, "dynamic"), ("decode", 24, "dynamic"), ("decode", 48, "dynamic"),
    ]  # fmt: skip
    assert [scene["name"] for scene in run.scenes] == NAMES
    assert [scene["layers"] for scene in run.scenes] == ["mean", "mean", "kinds"]


def test_a_scene_is_a_run_of_its_own(run):
    """Seen alone it has its rows, its closure and its passes; the run as a whole has those of the first."""
    for name, described in zip(NAMES, run.scenes, strict=True):
        alone = run.scene(name)
        assert set(alone.energy["phase"]) == {described["phase"]}
        assert (alone.energy["kind"] == "model").sum() == 1
        assert alone.document["closure"] == described["closure"] != {}
        assert alone.document["passes"]
    assert run.document["closure"] == run.scenes[0]["closure"]
    with pytest.raises(RunError, match="it has: prefill, decode@24"):
        run.scene("decode@1024")


def test_a_decode_step_updates_its_cache(run):
    """The update of the KV cache is a component where there is one, and has energy."""
    updates = run.scene("decode@24").energy.query("kind == 'attention.cache'")
    assert len(updates) == 5
    assert (updates["energy_mj"] > 0).all()


def test_further_contexts_hold_means_only(run):
    """Every value of a layer is its kind's mean there, and no kind was left out of the model."""
    kinds = run.scene("decode@48").energy
    assert kinds[kinds["layer"].notna()]["reused"].all()
    assert kinds["differential_mj"].isna().all()


def test_a_scene_that_was_not_reached_leaves_no_row(store, tmp_path):
    """GIVEN a journal that ends in the second scene's preparation THEN only the first is in the table."""
    entries = read_journal(store.path)
    begin = next(number for number, entry in enumerate(entries) if entry.get("scene") == "decode@24")
    cut = RunStore.create("cut", tmp_path)
    cut.update(warnings=[])
    assert write(cut, entries[: begin + 1])
    assert [scene["name"] for scene in load_run(cut.path).scenes] == ["prefill"]
    assert set(load_run(cut.path).energy["phase"]) == {"prefill"}


def test_runs_are_compared_scene_by_scene(run):
    """Two runs are compared in every moment that both profiled."""
    pairs = compare([run, run]).pairs
    assert [pair.scene for pair in pairs] == NAMES
    assert all(difference.change.value == 0 for pair in pairs for difference in pair.parts if difference.change)


def test_a_decode_step_is_comparable_whatever_else_was_profiled(run):
    """GIVEN another run of decode steps alone, on a static cache, THEN they compare, and the cache is named."""
    other = replace(run, document=copy.deepcopy(run.document))
    other.document["settings"]["phase"] = "decode"
    for item in other.document["scenes"]:
        item["kv_cache"] = "static"
    prefill, decode, _ = compare([run, other]).pairs
    assert prefill.obstacles == decode.obstacles == ()
    caches = [(item.baseline, item.other) for item in decode.notes if item.field == "scene.kv_cache"]
    assert caches == [("dynamic", "static")]


@pytest.fixture(scope="module")
def twice(tmp_path_factory):
    """Return a run that measured its pass twice; the second time, its header says, in a CUDA graph."""
    loaded = load_model("tiny-llama", device="cpu")
    settings = RunSettings("tiny-llama", stages=("profile",), phase="prefill", execution="both")
    made = RunStore.create("twice", tmp_path_factory.mktemp("runs"))
    made.update(name="twice", settings=settings.document(), warnings=[])

    def keep(entry):
        if "header" in entry and entry["scene"].endswith("/cuda-graph"):
            entry = {**entry, "header": {**entry["header"], "execution": "cuda-graph"}}
        made.journal(entry)

    with MeterGroup([ModelledMeter(65.0)]) as meter:
        for scene in plan_phases(settings, loaded):
            chosen = ProfileSettings("medium", "kinds", SamplingBudget(2, window_s=0.03, budget_s=0.06))
            profile(loaded, profile_inputs(loaded), meter, chosen, journal=keep, phase_name=scene.name)
    write(made, read_journal(made.path))
    return load_run(made.path)


def test_a_moment_in_two_executions_is_two_scenes(twice):
    """The table has the rows of both, and each scene seen alone has its own rows and its own execution."""
    assert [(scene["name"], scene["execution"]) for scene in twice.scenes] == [
        ("prefill", "eager"), ("prefill/cuda-graph", "cuda-graph"),
    ]  # fmt: skip
    assert twice.energy["execution"].value_counts().nunique() == 1
    for name, execution in (("prefill", "eager"), ("prefill/cuda-graph", "cuda-graph")):
        alone = twice.scene(name)
        assert set(alone.energy["execution"]) == {execution}
        assert (alone.energy["kind"] == "model").sum() == 1
        assert alone.document["settings"]["execution"] == execution
    assert twice.document["settings"]["execution"] == "both"
