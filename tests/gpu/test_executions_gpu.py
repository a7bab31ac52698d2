"""Both executions in one run on a real GPU: the same moments twice, and what launching from the host costs.

About two minutes on an H200: a small shape, coarse components and two windows of each.
"""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import energyscope  # noqa: E402
from energyscope.runs.tree import energy_tree  # noqa: E402

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]
NAMES = ["prefill", "prefill/cuda-graph", "decode@256", "decode@256/cuda-graph"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return energyscope.run(
        "llama-3.2-1b", root=tmp_path_factory.mktemp("runs"), weights="random", precision="bf16",
        execution="both", phase="both", context_lengths=(256,), granularity="coarse", layers="kinds", passes=2,
        component_budget_s=1.0, stages=("profile",),
    )  # fmt: skip


def root_of(run, name):
    return energy_tree(run.scene(name).energy).root


def test_every_moment_was_measured_in_both(run):
    """The run has each moment eagerly and in a graph, with all of the rows of the other."""
    assert [one["name"] for one in run.scenes] == NAMES
    for eager, graph in zip(NAMES[::2], NAMES[1::2], strict=True):
        tables = [run.scene(name).energy for name in (eager, graph)]
        assert [set(table["execution"]) for table in tables] == [{"eager"}, {"cuda-graph"}]
        assert list(tables[0]["component"]) == list(tables[1]["component"])
        assert all(table["energy_mj"].notna().all() for table in tables)


def test_a_graph_takes_less_where_the_host_sets_the_pace(run):
    """A pass over 128 tokens, and a step, of a 1B model are bound by launching: a graph saves time and joules."""
    for eager, graph in zip(NAMES[::2], NAMES[1::2], strict=True):
        first, second = root_of(run, eager), root_of(run, graph)
        assert second.number("time_us") < first.number("time_us")
        assert second.energy.value < first.energy.value
