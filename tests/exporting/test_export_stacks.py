"""Flame graphs of energy: the weights add up to what was measured, and each format is what its readers take."""

from __future__ import annotations

import json

import jsonschema
import pytest
from generation_builder import Inference, build_inference
from page_gallery import HOSTILE, hostile_run
from run_builder import Shape, build_run

from energyscope.errors import RunError
from energyscope.exporting import export
from energyscope.exporting.stacks import OVERHEAD, UNEXPLAINED, UNKNOWN, UNSPLIT, phases
from energyscope.runs import schema
from energyscope.runs.store import RunStore, load_run
from energyscope.runs.tree import energy_tree

COUNT = {"type": "integer", "minimum": 0}
WEIGHTS = {"type": "array", "minItems": 1, "items": {"type": "number", "exclusiveMinimum": 0}}
SPEEDSCOPE = {  # what speedscope's reader needs of a file of sampled profiles
    "type": "object",
    "required": ["$schema", "shared", "profiles"],
    "properties": {
        "$schema": {"const": "https://www.speedscope.app/file-format-schema.json"},
        "name": {"type": "string"},
        "exporter": {"type": "string"},
        "activeProfileIndex": COUNT,
        "shared": {
            "required": ["frames"],
            "properties": {
                "frames": {
                    "type": "array",
                    "items": {"required": ["name"], "properties": {"name": {"type": "string", "minLength": 1}}},
                }
            },
        },
        "profiles": {
            "type": "array",
            "minItems": 1,
            "items": {
                "required": ["type", "name", "unit", "startValue", "endValue", "samples", "weights"],
                "properties": {
                    "type": {"const": "sampled"},
                    "name": {"type": "string"},
                    "unit": {"enum": ["none", "nanoseconds", "microseconds", "milliseconds", "seconds", "bytes"]},
                    "startValue": {"const": 0},
                    "endValue": {"type": "number"},
                    "samples": {"type": "array", "items": {"type": "array", "minItems": 1, "items": COUNT}},
                    "weights": WEIGHTS,
                },
            },
        },
    },
}


def changed(run, **cells):
    """Return the run with cells of its energy table changed, each ``component=(column, value)``."""
    frame = run.energy.copy()
    for component, (column, value) in cells.items():
        frame.loc[frame["component"] == component.replace("__", "."), column] = value
    RunStore.open(run.path).write_rows(schema.ENERGY_FILE, frame.to_dict("records"), schema.ENERGY_COLUMNS)
    return load_run(run.path)


def test_stacks_through_a_component_add_up_to_its_energy(tmp_path):
    """GIVEN parts, overhead and a rest THEN what lies on a component is what it was measured to take."""
    run = build_run(tmp_path / "run", Shape(layers=2, impact=False))
    (phase,) = phases(run)
    assert {OVERHEAD, UNEXPLAINED} <= {path[-1] for path, _ in phase.stacks}
    root = energy_tree(run.energy).root
    checked = [(root, ("model",))]
    for node, path in checked:
        on_it = sum(weight for names, weight in phase.stacks if names[: len(path)] == path)
        assert on_it == pytest.approx(node.energy.value * 1e3)
        checked += [(child, (*path, child.name.removeprefix(f"{node.name}."))) for child in node.children]
    assert len(checked) == len(run.energy)


def test_a_remainder_below_zero_is_left_out_and_named(tmp_path):
    """GIVEN parts that take more than the whole THEN no weight is negative, and the note says by how much."""
    run = build_run(tmp_path / "run", Shape(layers=2, impact=False, unexplained_share=-0.03))
    (phase,) = phases(run)
    assert all(weight > 0 for _, weight in phase.stacks)
    tree = energy_tree(run.energy)
    below = [node.unexplained.value for node in tree.nodes if node.children]
    assert all(value < 0 for value in below)
    total = sum(weight for _, weight in phase.stacks) / 1e3
    assert total == pytest.approx(tree.root.energy.value - sum(below))
    assert phase.note.startswith(
        f"{len(below)} remainders below 0 left out, so all adds up to {-sum(below):.2f} mJ"
    )


def test_without_overhead_or_a_part_the_rest_says_what_it_may_be(tmp_path):
    """GIVEN no measured overhead, or a part without a value, THEN the rest is named so, and nothing is guessed."""
    run = build_run(tmp_path / "plain", Shape(layers=1, impact=False, glue=False))
    names = {path[-1] for path, _ in phases(run)[0].stacks}
    assert UNSPLIT in names
    assert not {OVERHEAD, UNEXPLAINED} & names
    layer = "transformer.h.0"
    lacking = changed(run, transformer__h__0__mlp__act=("energy_mj", None))
    mlp = {path[3]: weight for path, weight in phases(lacking)[0].stacks if path[1:3] == (layer, "mlp")}
    assert set(mlp) == {"c_fc", "c_proj", UNKNOWN}
    tree = {node.name: node for node in energy_tree(lacking.energy).nodes}
    assert sum(mlp.values()) == pytest.approx(tree[f"{layer}.mlp"].energy.value * 1e3)


def test_a_profile_for_each_phase_in_speedscope(tmp_path):
    """GIVEN prefill and decode THEN each is a profile that speedscope's reader takes, with the phase's energy."""
    run = build_inference(
        tmp_path / "run", Inference(layers=2, contexts=(1024,), executions=("eager", "cuda-graph"))
    )
    document = json.loads(export(run, "speedscope").path.read_text())
    jsonschema.validate(document, SPEEDSCOPE)
    expected = {phase.name: sum(weight for _, weight in phase.stacks) for phase in phases(run)}
    assert len(expected) == 4
    ends = {profile["name"].partition(", microjoules")[0]: profile["endValue"] for profile in document["profiles"]}
    assert ends == pytest.approx(expected)
    frames = document["shared"]["frames"]
    for profile in document["profiles"]:
        assert profile["unit"] == "none"
        assert len(profile["samples"]) == len(profile["weights"])
        assert all(place < len(frames) for sample in profile["samples"] for place in sample)
        assert {frames[sample[0]]["name"] for sample in profile["samples"]} == {"model"}


def read_collapsed(text: str) -> dict[tuple[str, ...], int]:
    """Read lines as flamegraph.pl does: names to the last blank, then a number."""
    lines = [line.rpartition(" ") for line in text.splitlines()]
    return {tuple(names.split(";")): int(count) for names, _, count in lines}


def test_collapsed_stacks_hold_whole_microjoules(tmp_path):
    """GIVEN a run THEN each stack is a line below its phase, whose number is the weight to half a microjoule."""
    run = build_run(tmp_path / "run", Shape(layers=2, impact=False))
    stacks = read_collapsed(export(run, "collapsed").path.read_text())
    (phase,) = phases(run)
    assert stacks == {("prefill eager (uJ)", *path): round(weight) for path, weight in phase.stacks}
    assert sum(stacks.values()) > 1000


@pytest.mark.parametrize("which", [*HOSTILE, "formula", "separators"])
def test_names_keep_a_stack_one_line(tmp_path, which):
    """GIVEN hostile names THEN a line has as many frames as the stack, and none begins as a formula does."""
    names = {**HOSTILE, "formula": '=cmd|"/c calc"!A1', "separators": "a;b c;\n9 9"}
    run = hostile_run(tmp_path / "run", names[which])
    lines = export(run, "collapsed").path.read_text().split("\n")[:-1]
    (phase,) = phases(run)
    assert [len(line.rpartition(" ")[0].split(";")) for line in lines] == [
        1 + len(path) for path, weight in phase.stacks if round(weight)
    ]
    assert not [frame for line in lines for frame in line.split(";") if frame[0] in "=@"]
    assert all(line.isprintable() for line in lines)
    jsonschema.validate(json.loads(export(run, "speedscope").path.read_text()), SPEEDSCOPE)


def test_a_modelled_profile_says_so_wherever_it_is_named(tmp_path):
    """GIVEN modelled joules THEN the file's name, which is the window's title, and each profile's say so."""
    run = build_run(tmp_path / "run", Shape(layers=1, impact=False, modelled=True))
    document = json.loads(export(run, "speedscope").path.read_text())
    assert "MODELLED" in document["name"]
    assert all("MODELLED" in profile["name"] for profile in document["profiles"])


def test_a_run_without_components_is_one_line(tmp_path):
    """GIVEN a run that profiled nothing THEN the error names the run and what it lacks."""
    run = build_run(tmp_path / "run", Shape(profile=False, impact=False))
    with pytest.raises(RunError, match="run has no energy of components"):
        export(run, "collapsed")
