"""The flow of a whole generation: its phases as traced, and what was measured by itself below them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from generation_builder import Inference, build_inference

from energyscope.reporting.data import ReportData, report_data
from energyscope.reporting.data.flow import FlowNode
from energyscope.reporting.data.generation import GenerationData
from energyscope.reporting.data.generation_flow import DEEPEST, LOOP, MODEL, generation_flow, scaled
from energyscope.reporting.data.generation_words import flow_caption
from energyscope.reporting.data.phases import LOAD
from energyscope.reporting.generation_figures import generation_figures
from energyscope.runs.intervals import Interval

STEPS = 127  # of 128 new tokens, the first is the prefill's
MIDDLE = Inference(layers=2, contexts=(192,))


@pytest.fixture(scope="module")
def middle(tmp_path_factory: pytest.TempPathFactory) -> ReportData:
    """A run whose decode step was measured, component by component, in the middle of its generation."""
    return report_data(build_inference(tmp_path_factory.mktemp("runs") / "run", MIDDLE))


def made(data: ReportData) -> tuple[GenerationData, FlowNode]:
    assert data.generation is not None
    assert data.generation.flow is not None
    return data.generation, data.generation.flow


def child(node: FlowNode, kind: str) -> FlowNode:
    (found,) = (one for one in node.children if one.kind == kind)
    return found


def test_the_phases_are_what_was_traced(middle: ReportData) -> None:
    """GIVEN a traced generation, THEN every phase but the load has its own energy, and they are the whole."""
    generation, flow = made(middle)
    known = {row.phase: row.energy for row in generation.phases if row.phase != LOAD and row.energy is not None}
    assert {node.kind: node.energy for node in flow.children} == known
    assert flow.energy.value == pytest.approx(sum(energy.value for energy in known.values()))


def test_a_phase_is_its_passes_the_loop_and_what_is_unexplained(middle: ReportData) -> None:
    """GIVEN passes and loop measured by themselves, THEN decode holds 127 of each and a rest."""
    generation, flow = made(middle)
    decode = child(flow, "decode")
    step = next(scene for scene in middle.scenes if scene.moment == "decode at 192")
    assert step.energy.model is not None
    assert child(decode, MODEL).energy.value == pytest.approx(step.energy.model.value * STEPS)
    assert generation.loop.energy is not None
    assert child(decode, LOOP).energy == generation.loop.energy.scaled(STEPS)
    assert decode.energy.value == pytest.approx(sum(part.energy.value for part in decode.children))
    assert child(decode, "unexplained").energy.known
    prefill = child(flow, "prefill")
    assert generation.loop.call_energy is not None
    call = generation.loop.energy.value + generation.loop.call_energy.value
    assert child(prefill, LOOP).energy.value == pytest.approx(call)


def test_blocks_are_those_of_the_moment_times_its_passes(middle: ReportData) -> None:
    """GIVEN components of the very pass, THEN blocks stand below it, and their own parts are left to its flow."""
    _, flow = made(middle)
    own = next(scene.flow for scene in middle.scenes if scene.moment == "decode at 192")
    assert own is not None
    layer, once = child(child(child(flow, "decode"), MODEL), "layer"), child(own, "layer")
    assert [node.kind for node in layer.children] == [node.kind for node in once.children]
    for node, of in zip(layer.children, once.children, strict=True):
        assert node.energy.value == pytest.approx(of.energy.value * STEPS)
        assert node.count == of.count
    assert any(node.children for node in once.children)
    assert max(node.depth for node in flow.walk()) == DEEPEST
    assert "has no" not in flow_caption(*made(middle))


def test_without_components_in_the_middle_the_step_has_no_blocks(tmp_path: Path) -> None:
    """GIVEN components at 1,024 tokens alone, THEN the step at 192 ends there, and the caption says what helps."""
    data = report_data(build_inference(tmp_path / "run", replace(MIDDLE, contexts=(1024,))))
    generation, flow = made(data)
    model = child(child(flow, "decode"), MODEL)
    assert model.children == []
    assert generation.agreement is not None
    assert model.energy == generation.agreement.model.scaled(STEPS)
    said = flow_caption(generation, flow)
    assert said.endswith("were not measured (--context-length 192 --execution eager measures a step's).")
    assert child(child(flow, "prefill"), MODEL).children


def test_a_pass_in_a_graph_is_no_part_of_an_eager_generation(tmp_path: Path) -> None:
    """GIVEN components in CUDA graphs alone, THEN they stand below no phase, and the caption says why."""
    data = report_data(build_inference(tmp_path / "run", replace(MIDDLE, executions=("cuda-graph",))))
    generation, flow = made(data)
    assert child(flow, "prefill").children == []
    assert child(child(flow, "decode"), MODEL).children == []
    said = flow_caption(generation, flow)
    assert "The prefill has no parts: its pass was measured in a CUDA graph, while the generation ran" in said
    assert "The decode has no blocks: components of that very pass, run eagerly, were not measured" in said


def test_both_executions_take_the_eager_one(tmp_path: Path) -> None:
    """GIVEN moments in both executions, THEN the blocks are those that ran as the generation did."""
    both = report_data(build_inference(tmp_path / "run", replace(MIDDLE, executions=("eager", "cuda-graph"))))
    step = next(scene for scene in both.scenes if scene.moment == "decode at 192" and scene.execution == "eager")
    assert step.energy.model is not None
    _, flow = made(both)
    assert child(child(flow, "decode"), MODEL).energy.value == pytest.approx(step.energy.model.value * STEPS)


def test_parts_that_exceed_their_phase_are_its_excess(middle: ReportData) -> None:
    """GIVEN a decode phase that took half as much, THEN nothing is unexplained and the excess is told."""
    generation, flow = made(middle)
    half = [
        replace(row, energy=row.energy.scaled(0.5)) if row.phase == "decode" and row.energy else row
        for row in generation.phases
    ]
    found = generation_flow(replace(generation, phases=half), middle.scenes)
    assert found is not None
    decode, was = child(found, "decode"), child(flow, "decode")
    parts = child(was, MODEL).energy.value + child(was, LOOP).energy.value
    assert decode.excess_mj == pytest.approx(parts - decode.energy.value)
    assert [node.kind for node in decode.children] == [MODEL, LOOP]
    figure = generation_figures(replace(generation, flow=found))[0]
    assert "beyond decode" in figure.notes[0]


def test_without_both_phases_there_is_no_flow(middle: ReportData) -> None:
    """GIVEN a prefill that could not be told, THEN no flow is drawn."""
    generation, _ = made(middle)
    assert generation_flow(replace(generation, total=None), middle.scenes) is None
    assert generation_figures(replace(generation, flow=None))[0].name != "generation-flow"


def test_the_numbers_behind_it_are_indented(middle: ReportData) -> None:
    """The table has a line for each box with its interval, and shares of the generation."""
    generation, flow = made(middle)
    figure = generation_figures(generation)[0]
    assert figure.name == "generation-flow"
    assert figure.table.columns[-1] == "share of the generation"
    assert [row[0].strip() for row in figure.table.rows] == [node.kind for node in flow.walk()]
    assert figure.table.rows[0][2].endswith("]")


def test_what_is_cut_off_has_nothing_missing() -> None:
    """GIVEN parts without a value inside of a block, THEN only a flow that goes down to them speaks of them."""
    block = FlowNode("attention", "component", 1, Interval(2.0), 3, missing=["core"])
    assert scaled(block, 3.0, DEEPEST - 1).missing == ["core"]
    assert scaled(block, 3.0, DEEPEST).missing == []
    assert scaled(block, 3.0, DEEPEST).energy == Interval(6.0)
