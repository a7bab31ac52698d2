"""Decode steps on a real GPU: what is held stays, the books close, and the two ways of measuring agree."""

from __future__ import annotations

import pytest
import torch

import energyscope
from energyscope.components import component_tree
from energyscope.kv_cache import CACHE_KINDS
from energyscope.loading import load_model
from energyscope.replay.activations import ActivationStore
from energyscope.replay.capture import capture
from energyscope.replay.graph_inputs import capture_in_graph, without_full_mask
from energyscope.replay.graphs import GraphRound
from energyscope.reporting.run.generation import agreements
from energyscope.reporting.run.report import Report
from energyscope.workloads.decoding import decode_step

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]
CONTEXT = 256
SHAPE = "llama-3.2-1b"


@pytest.fixture(scope="module")
def loaded():
    return load_model(SHAPE, device="cuda", precision="bf16", weights="random")


@pytest.mark.parametrize("kind", CACHE_KINDS)
def test_a_step_in_a_graph_gives_what_it_gives_eagerly(loaded, kind):
    """Launched again and again, a graph of the step writes the same logits, and the cache keeps its length."""
    step = decode_step(loaded, context_length=CONTEXT, kv_cache=kind)
    inputs = without_full_mask(step.inputs)
    found = {}

    def whole():
        found["logits"] = loaded.model(**inputs).logits

    with torch.no_grad():
        expected = loaded.model(**step.inputs).logits.clone()
        graph = GraphRound([whole], loaded.device, unrolled=False)
        for _ in range(3):
            graph.launch()
        torch.cuda.synchronize()
    torch.testing.assert_close(found["logits"], expected, rtol=0.02, atol=0.02)
    assert int(step.inputs["past_key_values"].get_seq_length()) == CONTEXT


@pytest.mark.parametrize("kind", CACHE_KINDS)
def test_components_are_given_the_same_in_a_graph(loaded, kind):
    """What every component is given inside of a graph has the shapes of eager execution."""
    step = decode_step(loaded, context_length=CONTEXT, kv_cache=kind)
    tree = component_tree(loaded.model, loaded.adapter, "fine", kv_cache=True)
    inputs = without_full_mask(step.inputs)
    eager = capture(tree, inputs)
    graph, _ = capture_in_graph(tree, inputs, loaded.device, ActivationStore())
    assert eager.keys() == graph.keys()
    for name, one in eager.items():
        if isinstance(one.output, torch.Tensor):
            assert one.output.shape == graph[name].output.shape, name


@pytest.mark.parametrize(
    ("execution", "kind"), [("cuda-graph", "static"), ("cuda-graph", "dynamic"), ("eager", "dynamic")]
)
def test_the_books_of_a_decode_step_close(execution, kind, tmp_path):
    """Components and glue add up to 95-105 % of the step, or an interval that includes all of it."""
    run = energyscope.run(
        SHAPE, weights="random", precision="bf16", granularity="medium", layers="sample", phase="decode",
        context_lengths=(1024,), kv_cache=kind, execution=execution, stages=("profile",), root=tmp_path,
    )  # fmt: skip
    closure = run.document["closure"]["model"]
    assert 0.95 <= closure["energy"] <= 1.05 or closure["energy_low"] <= 1 <= closure["energy_high"], closure


def test_components_and_trace_agree(tmp_path):
    """A step of the model plus generate's loop takes what the traced generation took per token.

    Within 7 % beyond idle power, which the host's pace leaves alone, or as near as the interval can tell.
    """
    run = energyscope.run(
        SHAPE, weights="random", precision="bf16", stages=("generate",), root=tmp_path, name="two"
    )
    decode = next(row for row in agreements(Report(run)).rows if row["part"] == "decode")
    work = decode["work_ratio"]
    assert work.low < 1.07
    assert work.high > 0.93
    assert decode["verdict"] != "differs"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mamba2-130m", "gemma-3-1b", "t5-small"])
def test_the_books_close_of_states_windows_and_decoders(name, tmp_path):
    """GIVEN states, a full window, a decoder beside an encoder THEN parts add up to 90-110 % in a graph."""
    run = energyscope.run(
        name, weights="random", precision="bf16", layers="kinds", phase="decode", context_lengths=(600,),
        kv_cache="static", execution="cuda-graph", passes=3, stages=("profile",), root=tmp_path,
    )  # fmt: skip
    assert not [note for note in run.document["warnings"] if "not-capturable" in note]
    closure = run.document["closure"]["model"]
    assert 0.9 <= closure["dynamic"] <= 1.1 or closure["dynamic_low"] <= 1 <= closure["dynamic_high"], closure
