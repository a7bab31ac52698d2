"""What components are given inside of a graph of the whole model, on a stand-in for the graph."""

from __future__ import annotations

import pytest
import torch
from families import CPU, inputs, tree_of

from energyscope.replay import graph_inputs
from energyscope.replay.activations import ActivationStore
from energyscope.replay.capture import capture
from energyscope.replay.graph_inputs import capture_in_graph, without_full_mask
from energyscope.replay.tensors import tensors_in


class StandInGraph:
    """Warms a round up, captures it, and fills the tensors that it left behind when it is launched."""

    def __init__(self, round_, device, *, unrolled=True):
        assert not unrolled
        for _ in range(3):  # two to warm up, one to capture
            for call in round_:
                call()
        self.launched = self.reads = 0
        StandInGraph.last = self

    def launch(self):
        self.launched += 1


@pytest.fixture
def graph(monkeypatch):
    monkeypatch.setattr(graph_inputs, "GraphRound", StandInGraph)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: None)
    return StandInGraph


def test_the_captured_pass_counts_and_not_the_warm_up(graph):
    """GIVEN three passes, two of them to warm up, THEN each component was called once, with one pass's inputs."""
    tree = tree_of("gpt2")
    captures, _ = capture_in_graph(tree, inputs(), CPU, ActivationStore())
    expected = capture(tree, inputs())
    assert set(captures) == set(expected)
    assert {recorded.calls for recorded in captures.values()} == {1}
    assert not any(recorded.varied for recorded in captures.values())
    for name, recorded in expected.items():
        for tensor, original in zip(tensors_in(captures[name].args), tensors_in(recorded.args), strict=True):
            assert torch.equal(tensor, original)


def test_the_graph_is_launched_before_its_values_are_read(graph):
    """A capture computes nothing: the values are there once the graph has run."""
    capture_in_graph(tree_of("llama", "medium"), inputs(), CPU, ActivationStore())
    assert graph.last.launched == 1


def test_inputs_are_kept_outside_of_the_graphs_memory(graph):
    """GIVEN memory that the graph will use again THEN what is kept is a copy, counted by the store."""
    kept = []

    class Noting(ActivationStore):
        def keep(self, value):
            kept.append(super().keep(value))
            return kept[-1]

    captures, _ = capture_in_graph(tree_of("gpt2", "coarse"), inputs(), CPU, Noting())
    assert all(any(recorded.args is value for value in kept) for recorded in captures.values())
    assert all(any(recorded.output is value for value in kept) for recorded in captures.values())


def test_a_mask_that_masks_nothing_is_left_out():
    """GIVEN a mask of ones THEN the model runs without one, as it would find out by itself in eager execution."""
    with_mask = inputs()
    without_mask = without_full_mask(with_mask)
    assert set(without_mask) == {"input_ids"}
    assert without_mask["input_ids"] is with_mask["input_ids"]
    assert "attention_mask" in with_mask


def test_a_mask_that_masks_stays():
    """GIVEN padding, or no mask at all, THEN the inputs are as they were."""
    padded = inputs()
    padded["attention_mask"][0, -1] = 0
    assert without_full_mask(padded) == padded
    assert without_full_mask({"input_ids": padded["input_ids"]}) == {"input_ids": padded["input_ids"]}


def test_masks_that_are_ready_stay():
    """GIVEN masks of four dimensions, as beside a static cache, THEN they stay: a model would build others."""
    mask = torch.ones(1, 1, 1, 12, dtype=torch.bool)
    for masks in (mask, {"full_attention": mask, "sliding_attention": mask}):
        ready = {"input_ids": inputs()["input_ids"], "attention_mask": masks}
        assert without_full_mask(ready) == ready
