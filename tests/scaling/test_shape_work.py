"""Work of a shape that nobody ran: what is counted without weights is what a real pass counts."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

import pytest
import torch

from energyscope.components import component_tree
from energyscope.errors import UsageError
from energyscope.loading import load_model
from energyscope.replay.activations import ActivationStore
from energyscope.replay.capture import capture
from energyscope.scaling.shape_work import MetaTensorMode, PassShape, Skeleton
from energyscope.stages.profile import described_tree, present
from energyscope.workloads import profile_inputs
from energyscope.workloads.decoding import decode_step, prompt_pass

BUFFERS = {"rotary": 0.6, "embedding": 0.2, "model": 0.005}  # buffers' share of bytes: taken for unread
CLOSE = 0.001


def without_weights_alike(model: str, precision: str = "fp32"):
    """The real model; without its tokenizer its random tokens are those of the skeleton."""
    return replace(load_model(model, precision=precision, device="cpu"), tokenizer=None)


def really(loaded, workload, granularity="fine") -> Mapping[str, tuple[float, float, int, float]]:
    """FLOPs, bytes, calls and executed FLOPs of each kind, from the model's weights and a real pass.

    A kind that has components with and without others below them is told of the latter, as measured cells are.
    """
    tree = component_tree(loaded.model, loaded.adapter, granularity, kv_cache=workload.kv_cache is not None)
    captures = capture(tree, workload.inputs, ActivationStore())
    tree, _ = present(tree, captures)
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0, 0.0])
    above, leaves = {component.parent for component in tree}, {component.kind for component in tree.leaves()}
    for row in described_tree(tree, captures, workload.inputs):
        if row["name"] in above and row["kind"] in leaves:
            continue
        for index, name in enumerate(("flops", "bytes", "calls", "executed_flops")):
            sums[row["kind"]][index] += row[name]
    return {kind: (flops, moved, int(calls), executed) for kind, (flops, moved, calls, executed) in sums.items()}


def the_same(foreseen, real) -> None:
    assert set(foreseen) == set(real)
    for kind, (flops, moved, calls, executed) in real.items():
        assert (foreseen[kind].flops, foreseen[kind].executed_flops) == (flops, executed), kind
        assert math.isclose(foreseen[kind].bytes, moved, rel_tol=BUFFERS.get(kind, CLOSE)), kind
        assert kind == "model" or foreseen[kind].calls == calls, kind


@pytest.mark.parametrize("model", ["tiny-gpt2", "tiny-llama", "tiny-distilbert"])
@pytest.mark.parametrize(("batch_size", "length"), [(1, 16), (3, 40)])
def test_a_prefill_is_foreseen(model, batch_size, length):
    """GIVEN a bundled model WHEN its prefill is counted with and without weights THEN each kind's work agrees."""
    loaded = without_weights_alike(model)
    workload = profile_inputs(loaded, batch_size=batch_size, sequence_length=length)
    the_same(
        Skeleton(model, "fp32").work(PassShape("prefill", batch_size, length, "fp32")), really(loaded, workload)
    )


@pytest.mark.parametrize("granularity", ["coarse", "medium"])
def test_a_kind_is_whole_where_its_parts_are_not_measured(granularity):
    """GIVEN embeddings that hold others at fine THEN they are foreseen as they are measured at a coarser level."""
    loaded = without_weights_alike("tiny-distilbert")
    workload = profile_inputs(loaded, batch_size=2, sequence_length=24)
    foreseen = Skeleton("tiny-distilbert", "fp32").work(PassShape("prefill", 2, 24, "fp32"), granularity)
    the_same(foreseen, really(loaded, workload, granularity))


@pytest.mark.parametrize("model", ["tiny-gpt2", "tiny-llama"])
def test_the_first_pass_of_a_generation_is_foreseen(model):
    """GIVEN a prefill that fills a cache THEN its head sees one token, and the cache's update is counted."""
    loaded = without_weights_alike(model)
    plain = profile_inputs(loaded, batch_size=2, sequence_length=24)
    workload = prompt_pass(loaded, plain, kv_cache="dynamic", new_tokens=4)
    foreseen = Skeleton(model, "fp32").work(PassShape("prefill", 2, 24, "fp32", cached=True))
    the_same(foreseen, really(loaded, workload))


@pytest.mark.parametrize("model", ["tiny-gpt2", "tiny-llama"])
def test_a_decode_step_is_foreseen(model):
    """GIVEN a step on a filled cache THEN what is read of the cache grows with the context, as in a real one."""
    loaded = without_weights_alike(model, "bf16")
    skeleton = Skeleton(model, "bf16")
    for context in (8, 50):
        workload = decode_step(loaded, batch_size=2, context_length=context)
        the_same(skeleton.work(PassShape("decode", 2, context, "bf16")), really(loaded, workload))


def test_quantized_weights_are_counted_as_stored():
    """GIVEN NF4 WHEN bytes are foreseen THEN linears take what bitsandbytes stores, and FLOPs stay."""
    pytest.importorskip("bitsandbytes")
    loaded = load_model("tiny-llama", precision="nf4", device="cpu")
    workload = profile_inputs(loaded, batch_size=1, sequence_length=16)
    real = really(loaded, workload)["mlp.up"]
    sums = Skeleton("tiny-llama", "nf4").work(PassShape("prefill", 1, 16, "nf4"))
    full = Skeleton("tiny-llama", "fp32").work(PassShape("prefill", 1, 16, "fp32"))
    assert sums["mlp.up"].flops == real[0] == full["mlp.up"].flops
    assert sums["mlp.up"].bytes < real[1] * 1.05 < full["mlp.up"].bytes


def test_a_large_model_needs_no_memory():
    """GIVEN 70 billion parameters THEN their work is counted here: two FLOPs a weight and token."""
    work = Skeleton("llama-3.3-70b", "bf16").work(PassShape("prefill", 1, 64, "bf16"), "medium")["model"]
    assert 0.95 < work.flops / (2 * 70e9 * 64) < 1.05
    assert 0.95 < work.bytes / (2 * 70e9) < 1.05
    assert work.calls == 80


def test_what_the_model_cannot_do_is_refused():
    """Lengths beyond the positions, and steps of a model that generates nothing, are refused by name."""
    skeleton = Skeleton("tiny-gpt2", "fp32")
    with pytest.raises(UsageError, match="too long"):
        skeleton.work(PassShape("prefill", 1, 100_000, "fp32"))
    with pytest.raises(UsageError, match="too long"):
        skeleton.work(PassShape("decode", 1, 100_000, "fp32"))
    with pytest.raises(UsageError, match="generates no text"):
        Skeleton("tiny-distilbert", "fp32").work(PassShape("decode", 1, 8, "fp32"))


def test_only_meta_tensors_pretend():
    """GIVEN the mode WHEN a real tensor is asked THEN it answers for itself."""
    with MetaTensorMode({}):
        real, meta = torch.tensor([0, 5]), torch.empty(2, device="meta")
        assert real.tolist() == [0, 5]
        assert not real[0]
        assert meta.tolist() == [0, 1]
        assert bool(meta[0])
        assert meta.data_ptr() != torch.empty(2, device="meta").data_ptr()
