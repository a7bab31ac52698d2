"""A held KV cache does an update's whole work, and is as it was afterwards."""

from __future__ import annotations

import pytest
import torch
from reading_models import gpt_oss

from energyscope.errors import ModelError
from energyscope.kv_cache import CACHE_KINDS, cache_bytes, cache_storages, caches_in, hold, is_cache, new_cache
from energyscope.loading import load_model

BATCH, CONTEXT = 2, 9


@pytest.fixture(scope="module", params=["tiny-llama", "tiny-gpt2"])
def model(request):
    return load_model(request.param, device="cpu").model


@pytest.fixture
def ids(model):
    return torch.randint(5, 100, (BATCH, CONTEXT + 1), generator=torch.Generator().manual_seed(0))


def filled(model, ids, kind):
    """Return a cache of all tokens but the last, held."""
    cache = new_cache(model, kind, positions=CONTEXT + 1)
    with torch.no_grad():
        model(input_ids=ids[:, :-1], past_key_values=cache, use_cache=True)
    return hold(cache)


def operations(model, ids, cache):
    """Return the names of the operations of a step, sorted."""
    with torch.no_grad(), torch.profiler.profile() as profiler:
        model(input_ids=ids[:, -1:], past_key_values=cache, use_cache=True)
    return sorted(event.name for event in profiler.events() if event.name.startswith("aten::"))


@pytest.mark.parametrize("kind", CACHE_KINDS)
def test_every_step_on_a_held_cache_is_the_same(model, ids, kind):
    """Step after step the logits are those of the whole sequence, and the cache keeps its length and its bytes."""
    cache = filled(model, ids, kind)
    before = cache_bytes([cache])
    with torch.no_grad():
        whole = model(input_ids=ids, use_cache=False).logits[:, -1]
        for _ in range(3):
            step = model(input_ids=ids[:, -1:], past_key_values=cache, use_cache=True).logits[:, -1]
            torch.testing.assert_close(step, whole, atol=1e-4, rtol=1e-4)
    assert int(cache.get_seq_length()) == CONTEXT
    assert cache_bytes([cache]) == before


@pytest.mark.parametrize("kind", CACHE_KINDS)
def test_a_held_step_runs_the_operations_of_an_ordinary_one(model, ids, kind):
    """Holding adds no operation and leaves none out: what is measured is what a generation does."""
    free = new_cache(model, kind, positions=CONTEXT + 1)
    with torch.no_grad():
        model(input_ids=ids[:, :-1], past_key_values=free, use_cache=True)
    held = filled(model, ids, kind)
    operations(model, ids, held)  # the first pass of a profiler sets it up
    assert operations(model, ids, held) == operations(model, ids, free)


def test_an_empty_dynamic_cache_stays_empty(model, ids):
    """The prompt's pass fills the cache of a generation: held, every pass finds it empty."""
    cache = hold(new_cache(model, "dynamic", positions=1))
    with torch.no_grad():
        for _ in range(2):
            model(input_ids=ids, past_key_values=cache, use_cache=True)
            assert cache.get_seq_length() == 0


def test_a_held_step_can_follow_in_inference_mode(model, ids):
    """A script may call the model in inference mode, replay does not: both can use the cache."""
    cache = filled(model, ids, "static")
    with torch.inference_mode():
        model(input_ids=ids[:, -1:], past_key_values=cache, use_cache=True)
    with torch.no_grad():
        model(input_ids=ids[:, -1:], past_key_values=cache, use_cache=True)


@pytest.fixture(params=[4, CONTEXT, CONTEXT + 1, 64], ids=["full", "just full", "one left", "wide"])
def sliding(request):
    """Return a model whose first layer attends to a window, and the ids of a step after the context."""
    torch.manual_seed(0)
    model = gpt_oss(sliding_window=request.param).eval()
    return model, torch.randint(5, 60, (BATCH, CONTEXT + 1), generator=torch.Generator().manual_seed(0))


def test_a_held_window_stays_as_it_is(sliding):
    """GIVEN a static window, full or not THEN steps are those of the whole sequence, and keys stay in place."""
    model, ids = sliding
    cache = filled(model, ids, "static")
    window = cache.layers[0]
    assert type(window).__name__ == "StaticSlidingWindowLayer"
    kept = window.keys[:, :, :CONTEXT].clone()
    with torch.no_grad():
        whole = model(input_ids=ids, use_cache=False).logits[:, -1]
        for _ in range(3):
            step = model(input_ids=ids[:, -1:], past_key_values=cache, use_cache=True).logits[:, -1]
            torch.testing.assert_close(step, whole, atol=1e-4, rtol=1e-4)
    assert torch.equal(window.keys[:, :, :CONTEXT], kept)
    assert window.get_seq_length() == CONTEXT


@pytest.mark.parametrize("rows", [4, 6])
def test_several_rows_at_once_leave_a_held_window_as_it_is(sliding, rows):
    """GIVEN a step of several tokens, which may fill the window THEN it is repeated, and the cache stays."""
    model, ids = sliding
    cache, cached = new_cache(model, "static", positions=CONTEXT + 1), CONTEXT + 1 - rows
    with torch.no_grad():
        model(input_ids=ids[:, :cached], past_key_values=cache, use_cache=True)
        hold(cache)
        kept = cache.layers[0].keys[:, :, :cached].clone()
        whole = model(input_ids=ids, use_cache=False).logits[:, -rows:]
        for _ in range(3):
            step = model(input_ids=ids[:, cached:], past_key_values=cache, use_cache=True).logits
            torch.testing.assert_close(step, whole, atol=1e-4, rtol=1e-4)
    assert torch.equal(cache.layers[0].keys[:, :, :cached], kept)


def test_attention_finds_a_held_windows_keys_in_the_cache(sliding):
    """GIVEN a window that is full THEN what attention reads counts as the cache's memory, once."""
    model, ids = sliding
    cache = filled(model, ids, "static")
    before, new = cache_bytes([cache]), torch.zeros_like(cache.layers[0].keys[:, :, :1])
    keys, values = cache.update(new, new, 0)
    assert {keys.untyped_storage().data_ptr(), values.untyped_storage().data_ptr()} <= cache_storages(cache)
    assert cache_bytes([cache]) == before


def test_a_held_window_runs_the_operations_of_an_ordinary_one(sliding):
    """GIVEN a static window, full or not THEN holding adds no operation and leaves none out."""
    model, ids = sliding
    free = new_cache(model, "static", positions=CONTEXT + 1)
    with torch.no_grad():
        model(input_ids=ids[:, :-1], past_key_values=free, use_cache=True)
    held = filled(model, ids, "static")
    operations(model, ids, held)
    assert operations(model, ids, held) == operations(model, ids, free)


def test_states_that_cannot_be_held_are_refused(model):
    """GIVEN a layer of another kind THEN its name is said, and what to do."""

    class Compressed:
        keys = values = None

    cache = new_cache(model, "static", positions=4)
    cache.layers[0] = Compressed()
    with pytest.raises(ModelError, match="--kv-cache"):
        hold(cache)


def test_caches_are_found_in_nested_arguments(model):
    """A cache is known by its layers, wherever it stands; tensors and modules are none."""
    cache = new_cache(model, "dynamic", positions=1)
    assert list(caches_in(((1, [cache]), {"mask": torch.ones(2)}))) == [cache]
    assert not is_cache(torch.ones(1))
    assert not is_cache(torch.nn.Linear(1, 1))
    assert not is_cache(None)


def test_only_a_static_cache_hands_out_its_own_memory(model, ids):
    """The keys that attention reads lie in a static cache; of a dynamic one they are a copy."""
    layer_keys = {}
    for kind in CACHE_KINDS:
        cache = filled(model, ids, kind)
        new = torch.zeros_like(cache.layers[0].keys[:, :, :1])
        keys, _ = cache.update(new, new, 0)
        layer_keys[kind] = keys.untyped_storage().data_ptr() in cache_storages(cache)
    assert layer_keys == {"dynamic": False, "static": True}
