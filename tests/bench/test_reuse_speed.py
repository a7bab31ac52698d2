"""How much beginning a pass at its layer saves, on a 12-layer model; as ratios. Run with `pytest -m bench`."""

from __future__ import annotations

import time

import pytest
import torch
from energyscope_adapters import gpt2
from transformers import GPT2Config, GPT2LMHeadModel

from energyscope.components import component_tree
from energyscope.impact.plan import singles
from energyscope.impact.reuse import LayerStarts

pytestmark = [pytest.mark.bench, pytest.mark.slow, pytest.mark.timeout(600)]

REPEATS = 3


def seconds_of(model, batch):
    def once():
        if batch.is_cuda:
            torch.cuda.synchronize()
        begin = time.monotonic()
        model(input_ids=batch, use_cache=False)
        if batch.is_cuda:
            torch.cuda.synchronize()
        return time.monotonic() - begin

    return min(once() for _ in range(REPEATS))


@pytest.mark.parametrize(("words", "most"), [(64, 0.65), (50257, 0.75)], ids=["without head", "with head"])
@torch.no_grad()
def test_beginning_at_its_layer_saves_a_components_pass_this_much(words, most):
    """Over all medium components of GPT-2 small's shape, passes take at most 0.65 of full ones, with head 0.75."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with torch.device(device):
        model = GPT2LMHeadModel(GPT2Config(vocab_size=words, bos_token_id=0, eos_token_id=0)).eval()
        batch = torch.randint(1, words, (4, 128))
    tree = component_tree(model, gpt2.adapter, "medium")
    starts = LayerStarts(tree, [1], 1 << 32)
    with starts.recording(0):
        whole = model(input_ids=batch, use_cache=False).logits
    places = [starts.of(one.targets[0].part.name, one.layer) for one in singles(tree, ("zero",))]
    taken = {}
    for place in sorted(set(places)):
        with starts.beginning(0, place):
            assert torch.equal(model(input_ids=batch, use_cache=False).logits, whole)
            taken[place] = seconds_of(model, batch)
    full = seconds_of(model, batch)
    ratio = sum(taken[place] for place in places) / (full * len(places))
    assert ratio <= most, f"{device}, {words} words: {ratio:.3f} of full passes over {len(places)} components"
