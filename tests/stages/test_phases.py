"""Which phases of an inference a run profiles."""

from __future__ import annotations

import weakref

import pytest
import torch
from task_models import task_model

from energyscope.errors import UsageError
from energyscope.loading import load_model
from energyscope.reasons import reason
from energyscope.settings.run import RunSettings
from energyscope.stages import phases as module
from energyscope.stages.phases import NO_DECODE, PhasePlan, middle_step, plan_phases, resolve_phase, workload_of
from energyscope.stages.run import run
from energyscope.workloads import profile_inputs

ALONE = ("profile",)


@pytest.fixture(scope="module")
def llama():
    return load_model("tiny-llama", device="cpu")


def planned(loaded, **options):
    return plan_phases(RunSettings(loaded.name, **{"stages": ALONE, **options}), loaded)


def test_a_chat_model_is_explained_as_a_generation(llama):
    """Llama's default is the prompt's pass and a decode step; GPT-2's and DistilBERT's is one forward pass."""
    assert [scene.phase for scene in planned(llama)] == ["prefill", "decode"]
    for name in ("tiny-gpt2", "tiny-distilbert"):
        assert planned(load_model(name, device="cpu")) == [PhasePlan("prefill", None, "mean")]


def test_further_contexts_are_measured_as_means(llama):
    """The first context is measured as finely as was asked for, the others as means of their kinds."""
    planned_scenes = planned(llama, phase="decode", context_lengths=(64, 32, 16), layers="all")
    assert [(scene.name, scene.layers) for scene in planned_scenes] == [
        ("decode@64", "all"), ("decode@32", "kinds"), ("decode@16", "kinds"),
    ]  # fmt: skip


def test_several_scenes_are_measured_on_a_sample(llama):
    """A generation's scenes are measured on a sample of the layers, one scene alone on every layer."""
    generation = {"phase": "both", "context_lengths": (64,)}
    assert [scene.layers for scene in planned(llama, **generation)] == ["sample", "sample"]
    assert [scene.layers for scene in planned(llama, layers="all", **generation)] == ["all", "all"]
    assert [scene.layers for scene in planned(llama, phase="decode")] == ["mean"]


def test_both_executions_are_scenes_side_by_side(llama):
    """Each moment is measured eagerly and then in a graph, as finely; the eager one has the plain name."""
    planned_scenes = planned(llama, execution="both", context_lengths=(64, 32))
    assert [(scene.name, scene.execution, scene.layers) for scene in planned_scenes] == [
        ("prefill", "eager", "sample"), ("prefill/cuda-graph", "cuda-graph", "sample"),
        ("decode@64", "eager", "sample"), ("decode@64/cuda-graph", "cuda-graph", "sample"),
        ("decode@32", "eager", "kinds"), ("decode@32/cuda-graph", "cuda-graph", "kinds"),
    ]  # fmt: skip
    settings = RunSettings("tiny-llama", execution="both")
    chosen = [module.profile_settings(settings, planned_scenes, scene) for scene in planned_scenes]
    assert [scene.execution for scene in chosen] == [scene.execution for scene in planned_scenes]
    assert {scene.sampling_budget.preheat_s for scene in chosen} == {module.PREHEAT_S}
    warm = module.profile_settings(settings, planned_scenes, planned_scenes[1], warm=True)
    assert warm.sampling_budget.preheat_s == module.REWARM_S


def test_another_execution_does_not_shorten_the_first(llama):
    """GIVEN one moment in both executions THEN each is measured until it is sure, as it would be alone."""
    both, alone = (
        RunSettings("tiny-llama", execution=execution, phase="prefill") for execution in ("both", "eager")
    )
    for settings in (both, alone):
        planned_scenes = plan_phases(settings, llama)
        assert not any(
            module.profile_settings(settings, planned_scenes, scene).sampling_budget.brief
            for scene in planned_scenes
        )
    generation = plan_phases(RunSettings("tiny-llama", execution="both", phase="both"), llama)
    assert module.profile_settings(both, generation, generation[0]).sampling_budget.phases == 2


def test_one_execution_alone_has_the_plain_name(llama):
    """GIVEN a run in graphs alone THEN its moments are called what they are called eagerly."""
    planned_scenes = planned(llama, execution="cuda-graph", phase="prefill")
    assert [(scene.name, scene.execution) for scene in planned_scenes] == [("prefill", "cuda-graph")]


@pytest.mark.parametrize(("kind", "room"), [("dynamic", 40), ("static", 47)])
def test_the_traced_generation_has_a_step_to_compare_with(llama, kind, room):
    """It stands in the middle of the generation, and a static cache is as long as `generate` makes it."""
    step = middle_step(
        RunSettings("tiny-llama", new_tokens=16, batch_size=2, kv_cache=kind),
        llama,
        profile_inputs(llama, batch_size=2, sequence_length=32),
        None,
    )
    assert (step.context, step.batch_size, step.kv_cache) == (40, 2, kind)
    keys = step.inputs["past_key_values"].layers[0].keys
    assert keys.shape[-2] == room, "32 + 16 - 1 slots, of which 40 are filled"


def test_a_step_beside_an_encoder_has_all_that_was_read():
    """GIVEN a decoder beside an encoder THEN its cache has half of the new tokens, beside all that was read."""
    t5 = task_model("sequence-to-sequence")
    step = middle_step(RunSettings("t5", new_tokens=16), t5, profile_inputs(t5, sequence_length=32), None)
    cache = step.inputs["past_key_values"]
    assert step.context == cache.get_seq_length() == 9, "the token that it begins with, and eight"
    assert cache.cross_attention_cache.get_seq_length() == 32


def test_a_generation_of_one_token_has_no_step(llama):
    """Nothing is decoded after the first token, which is the reason."""
    assert (
        middle_step(
            RunSettings("tiny-llama", new_tokens=1), llama, profile_inputs(llama, sequence_length=32), None
        )
        == NO_DECODE
    )


def test_a_step_without_memory_is_a_reason(llama, monkeypatch):
    """GIVEN a cache that does not fit THEN the generation is traced without its step, which has the reason."""

    def full(*_args, **_options):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate")

    monkeypatch.setattr(module, "decode_step", full)
    assert middle_step(
        RunSettings("tiny-llama", new_tokens=16), llama, profile_inputs(llama, sequence_length=32), None
    ) == reason("no-memory-for-step")


def test_reads_around_components_are_of_one_pass(llama):
    """Triggered sampling knows forward passes only: its default phase is prefill, and others are refused."""
    assert resolve_phase(RunSettings("tiny-llama", sampling="triggered"), llama.adapter) == "prefill"
    with pytest.raises(UsageError, match="--phase both"):
        RunSettings("tiny-llama", sampling="triggered", phase="both").check()


def test_a_context_beyond_the_positions_is_refused(llama):
    """The plan says so, before anything is measured."""
    with pytest.raises(UsageError, match="--context-length 100000"):
        planned(llama, context_lengths=(100_000,))


def test_a_classifier_is_not_decoded():
    """Asking for decode steps of a model that has none is refused."""
    with pytest.raises(UsageError, match="--phase prefill"):
        planned(load_model("tiny-distilbert", device="cpu"), phase="decode")


def test_a_prefill_alone_has_no_cache_and_one_of_a_generation_has(llama):
    """What the model is given follows from the phase."""
    prompt = profile_inputs(llama, sequence_length=8)
    alone = workload_of(PhasePlan("prefill", None, "mean"), llama, prompt, RunSettings("m", phase="prefill"), None)
    beside = workload_of(PhasePlan("prefill", None, "mean"), llama, prompt, RunSettings("m", phase="both"), None)
    assert alone is prompt
    assert beside.kv_cache == "dynamic"
    assert beside.inputs["logits_to_keep"] == 1


def test_a_context_is_measured_once(llama):
    """The same length twice is one scene."""
    assert [scene.name for scene in planned(llama, phase="decode", context_lengths=(64, 64))] == ["decode@64"]


def test_who_asks_about_the_cache_gets_decode_steps():
    """GPT-2's default is one forward pass, unless a context or a kind of cache is named."""
    loaded = load_model("tiny-gpt2", device="cpu")
    assert [scene.phase for scene in planned(loaded, context_lengths=(64,))] == ["prefill", "decode"]
    assert [scene.phase for scene in planned(loaded, kv_cache="static")] == ["prefill", "decode"]
    with pytest.raises(UsageError, match="--context-length"):
        RunSettings("tiny-gpt2", phase="prefill", context_lengths=(64,)).check()


def test_a_phases_cache_is_gone_before_its_memory_is_released(tmp_path, monkeypatch):
    """GIVEN two phases WHEN the device's memory is released after each THEN nothing holds the phase's workload."""
    workloads, alive = [], []
    monkeypatch.setattr(module, "profile", lambda _, workload, *__, **___: workloads.append(weakref.ref(workload)))
    monkeypatch.setattr(module, "release", lambda _: alive.append([ref() is not None for ref in workloads]))
    run("tiny-llama", root=tmp_path, device="cpu", phase="decode", context_lengths=(16, 24), stages=("profile",))
    assert alive == [[False], [False, False]]
