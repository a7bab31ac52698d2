"""Rounds that keep the caches as in the model: copies beyond the L2, rotating token ids."""

from __future__ import annotations

import torch

from energyscope.replay.capture import Capture
from energyscope.replay.rotation import MAXIMUM_COPIES, copies_needed, footprint_bytes, own_round


def test_copies_reach_twice_the_cache():
    """Instances together hold twice the L2; none where the whole model fits in it, or on a CPU."""
    assert copies_needed(20, 1000, 50) == 5
    assert copies_needed(500, 1000, 50) == 1
    assert copies_needed(20, 40, 50) == 1
    assert copies_needed(0, 1000, 50) == 1
    assert copies_needed(20, 1000, None) == 1
    assert copies_needed(1, 10_000, 5000) == MAXIMUM_COPIES


def test_copies_have_storage_of_their_own():
    """Each instance in a round has weights elsewhere in memory, and computes the same."""
    module = torch.nn.Linear(4, 4)
    calls = own_round(module, Capture((torch.ones(1, 4),), {}), instances=3, kind="mlp")
    assert len({call.func.weight.data_ptr() for call in calls}) == 3
    outputs = [call() for call in calls]
    assert all(torch.equal(output, outputs[0]) for output in outputs)


def test_an_embedding_gets_rotating_ids():
    """An embedding's rounds look up different rows, all of them in the table."""
    table = torch.nn.Embedding(50, 4)
    calls = own_round(table, Capture((torch.zeros(1, 8, dtype=torch.long),), {}), instances=4, kind="embedding")
    ids = torch.stack([call.args[0] for call in calls])
    assert len(ids.unique()) > 8
    assert ids.max() < 50


def test_only_token_ids_rotate():
    """GIVEN an embedding with smaller tables beside the tokens' own THEN what looks these up is left as it was."""
    tables = torch.nn.ModuleDict({"tokens": torch.nn.Embedding(50, 4), "types": torch.nn.Embedding(2, 4)})
    zeros = torch.zeros(1, 8, dtype=torch.long)
    arguments = {"input_ids": zeros, "token_type_ids": zeros, "position_ids": zeros, "attention_mask": zeros}
    calls = own_round(tables, Capture((), arguments), instances=1, kind="embedding")
    for name in ("token_type_ids", "position_ids", "attention_mask"):
        assert all(call.keywords[name] is zeros for call in calls)
    assert len({tuple(call.keywords["input_ids"].flatten().tolist()) for call in calls}) == len(calls) > 1


def test_shared_storage_counts_once():
    """A tied weight is one weight."""
    first, second = torch.nn.Linear(8, 8, bias=False), torch.nn.Linear(8, 8, bias=False)
    second.weight = first.weight
    assert footprint_bytes(torch.nn.Sequential(first, second)) == 256
