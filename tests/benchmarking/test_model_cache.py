"""Models that are kept beside each other, or loaded one at a time."""

import torch

from energyscope.benchmarking.model_cache import ModelCache, fit_together

CPU = torch.device("cpu")


def counting(loads):
    """A loader that remembers what it loaded."""

    def load(precision):
        loads.append(precision)
        return f"model in {precision} number {len(loads)}"

    return load


def take(model_cache, *precisions):
    return [model_cache.take(precision) for precision in precisions]


def test_models_that_fit_are_loaded_once():
    """GIVEN room THEN a second visit gives the same model."""
    loads = []
    model_cache = ModelCache(counting(loads), CPU, together=True)
    first = take(model_cache, "fp32", "fp16")
    assert take(model_cache, "fp32", "fp16") == first
    assert loads == ["fp32", "fp16"]


def test_models_that_do_not_fit_are_loaded_anew_each_time():
    """GIVEN no room THEN only the last one is held."""
    loads = []
    model_cache = ModelCache(counting(loads), CPU, together=False)
    take(model_cache, "fp32", "fp32", "fp16", "fp32")
    assert loads == ["fp32", "fp16", "fp32"]


def test_what_was_given_is_never_loaded():
    """The run's own model stays, and is not loaded a second time."""
    loads = []
    model_cache = ModelCache(counting(loads), CPU, together=False, given={"fp32": "the run's own"})
    assert take(model_cache, "fp32", "fp16", "fp32") == [
        "the run's own",
        "model in fp16 number 1",
        "the run's own",
    ]
    model_cache.clear()
    assert model_cache.take("fp32") == "the run's own"


def test_a_dropped_model_is_loaded_again():
    """What could not be used does not stay on the device."""
    loads = []
    model_cache = ModelCache(counting(loads), CPU, together=True)
    model_cache.take("fp32")
    model_cache.drop("fp32")
    model_cache.take("fp32")
    assert loads == ["fp32", "fp32"]


def test_fitting_leaves_room_for_activations_and_the_unknown_does_not_fit():
    """60 % of what is free; a size or a memory that is not known is taken as too much."""
    assert fit_together([35, 35], 100)
    assert not fit_together([35, 36], 100)
    assert not fit_together([30, None], 100)
    assert not fit_together([1], None)
    assert fit_together([], 100)
    assert fit_together([30, 30, 400], 100)  # the last one cannot be loaded at all
