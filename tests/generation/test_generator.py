"""Real generations: as many tokens as were asked for, each with its time, and what cannot be is refused."""

from __future__ import annotations

import pytest
import tiny_models
import torch
from task_models import task_model

from energyscope.errors import ModelError, UsageError
from energyscope.generation.generator import GenerateSettings, GreedyGenerator, check_generation, too_large
from energyscope.loading import load_model
from energyscope.workloads import profile_inputs
from energyscope.workloads.decoding import LENGTH_MEMORY, fresh_cache_length

NEW = 12


def generator(loaded, kv_cache="dynamic", batch_size=2):
    return GreedyGenerator(loaded, profile_inputs(loaded, batch_size=batch_size, sequence_length=16), kv_cache)


@pytest.mark.parametrize("kv_cache", ["dynamic", "static"])
@pytest.mark.parametrize("batch_size", [1, 2])
def test_every_token_has_its_time(loaded, kv_cache, batch_size):
    """Stamps come in order between begin and end, one a token whatever the batch."""
    mark, ids = generator(loaded, kv_cache, batch_size).timed(NEW)
    assert ids.shape == (batch_size, NEW)
    assert len(mark.tokens_s) == NEW
    moments = [mark.begin_s, *mark.tokens_s, mark.end_s]
    assert moments == sorted(moments)
    assert len(set(moments)) == len(moments)


def test_both_caches_generate_the_same(loaded):
    """A cache's kind changes how long tokens take, not which they are."""
    assert torch.equal(generator(loaded)(NEW), generator(loaded, "static")(NEW))


@pytest.mark.parametrize("kv_cache", ["dynamic", "static"])
def test_beside_an_encoder_tokens_follow_what_it_read(kv_cache):
    """GIVEN a decoder beside an encoder THEN its tokens are the likeliest of whole passes."""
    t5 = task_model("sequence-to-sequence")
    workload = profile_inputs(t5, sequence_length=16)
    ids = workload.inputs["decoder_input_ids"][:, :1]
    with torch.no_grad():
        for _ in range(NEW):
            passed = t5.model(input_ids=workload.inputs["input_ids"], decoder_input_ids=ids, use_cache=False)
            ids = torch.cat([ids, passed.logits[:, -1:].argmax(-1)], dim=1)
    assert torch.equal(GreedyGenerator(t5, workload, kv_cache)(NEW), ids[:, 1:])


def test_it_is_greedy_whatever_the_model_usually_does(loaded, monkeypatch):
    """GIVEN a model whose own settings sample THEN two generations are the same, those of the plain settings."""
    plain = generator(loaded)(NEW)
    for name, value in (("do_sample", True), ("temperature", 5.0), ("top_p", 0.9), ("num_beams", 2)):
        monkeypatch.setattr(loaded.model.generation_config, name, value)
    assert torch.equal(generator(loaded)(NEW), plain)


def test_an_end_of_sequence_does_not_end_it(tmp_path):
    """GIVEN a model whose every token ends a sequence THEN as many tokens come as were asked for."""
    every = list(range(tiny_models.VOCABULARY - 1))
    ending = load_model(str(tiny_models.save_model(tmp_path, "llama", eos_token_id=every)), device="cpu")
    mark, _ = generator(ending).timed(8)
    assert len(mark.tokens_s) == 8


def test_a_generation_that_ends_early_is_refused(loaded, monkeypatch):
    """GIVEN generation settings with a time limit THEN the run stops, and says what to take out."""
    monkeypatch.setattr(loaded.model.generation_config, "max_time", 1e-9)
    with pytest.raises(ModelError, match="take out what ends it early"):
        generator(loaded).timed(NEW)


def test_a_static_cache_is_forgotten(loaded):
    """Afterwards generate makes static caches as long as it would have before."""
    before = getattr(loaded.model, LENGTH_MEMORY, None)
    with fresh_cache_length(loaded.model):
        generator(loaded, "static")(NEW)
    assert getattr(loaded.model, LENGTH_MEMORY, None) == before


def test_what_cannot_be_generated_is_refused_before_anything_runs(loaded):
    """Beyond the model's positions, with a classifier, or with senseless numbers: one line each."""
    workload = profile_inputs(loaded, sequence_length=16)
    with pytest.raises(UsageError, match=r"cannot generate so much: .*100000\d\d"):
        check_generation(loaded, workload, GenerateSettings(new_tokens=10**7))
    classifier = load_model("tiny-distilbert", device="cpu")
    with pytest.raises(UsageError, match="generates no text"):
        check_generation(classifier, profile_inputs(classifier, sequence_length=16), GenerateSettings())
    for wrong in ({"new_tokens": 0}, {"kv_cache": "paged"}, {"seconds": 0}, {"least": 1}, {"passes": 1}):
        with pytest.raises(UsageError):
            GenerateSettings(**wrong)


def test_the_batch_that_fits_is_named(loaded, monkeypatch):
    """GIVEN memory for three sequences of eight THEN half of the half is what fits; with none, other advice."""
    batch, room = generator(loaded, batch_size=8), 3
    real = batch._generate

    def generate(**options):
        if len(options["input_ids"]) > room:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return real(**options)

    monkeypatch.setattr(batch, "_generate", generate)
    assert too_large(batch, 4, loaded.device) == (
        "a batch of 8 x (16 + 4) tokens does not fit in the memory of cpu: a batch of 2 does"
    )
    room = 0
    assert too_large(batch, 4, loaded.device).endswith("use a shorter prompt or generate fewer tokens")
    assert batch.inputs["input_ids"].shape[0] == 8
