"""The stage of laws: from runs and sweeps to one document with its page, all of which was planted."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from prediction_builder import planted_run
from run_builder import Shape, build_run

from energyscope.errors import RunError, UsageError
from energyscope.reasons import reason
from energyscope.runs.laws import load_laws
from energyscope.runs.schema import LAWS_JSON, REPORT_FILE
from energyscope.runs.store import load_run
from energyscope.runs.sweeps import Sweep, SweepCell, write_sweep
from energyscope.scaling.group_laws import ONE_CELL
from energyscope.stages import report
from energyscope.stages.laws import laws, laws_of_sweep

LENGTHS = (16, 32, 64, 128)


def planted_sweep(path: Path, lengths: tuple[int, ...] = LENGTHS, **changes: Any) -> Sweep:
    """Write a sweep of planted runs, whose last cell did not fit."""
    path.mkdir(parents=True)
    cells = [SweepCell("fp32", 1, tokens, "prefill", "done") for tokens in lengths]
    for cell in cells:
        planted_run(path / cell.name, cell.tokens, **changes)
    cells.append(SweepCell("fp32", 64, 512, "prefill", "does not fit", "no memory is left"))
    made = Sweep(path, path.name, "tiny-gpt2", "2026-11-22T10:00:00Z", "energyscope sweep tiny-gpt2", {}, cells)
    write_sweep(made)
    return made


def test_a_sweep_gets_its_laws_and_page(tmp_path: Path) -> None:
    """The document stands in the sweep's directory, with its page; its sources' paths are seen from there."""
    made = planted_sweep(tmp_path / "swept")
    document = laws_of_sweep(made)
    assert load_laws(made.path) == json.loads(json.dumps(document))
    assert (made.path / REPORT_FILE).is_file()
    assert [source["path"] for source in document["sources"]] == [f"fp32-b1-s{tokens}" for tokens in LENGTHS]
    assert (document["command"], document["modelled"]) == ("energyscope sweep tiny-gpt2", False)
    assert document["not_measured"] == [
        {"sweep": "swept", "cell": "fp32-b64-s512", "state": "does not fit", "reason": "no memory is left"}
    ]


def test_a_machine_that_cannot_draw_writes_the_laws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN no library that draws THEN laws.json is written, and the page is left to another machine."""
    monkeypatch.setattr(report, "DRAWING", ("no_such_library_of_charts",))
    path, _ = laws([str(planted_sweep(tmp_path / "swept").path)], name="mine", root=tmp_path)
    assert [file.name for file in path.iterdir()] == [LAWS_JSON]


def test_runs_and_sweeps_make_one_document(tmp_path: Path) -> None:
    """GIVEN a sweep, one of its cells again, and a run THEN each run counts once, and paths lead to them."""
    planted_sweep(tmp_path / "swept")
    planted_run(tmp_path / "other", 256)
    path, document = laws(["swept", str(tmp_path / "swept" / "fp32-b1-s16"), "other"], name="mine", root=tmp_path)
    assert path == tmp_path / "mine"
    assert [source["tokens"] for source in document["sources"]] == [*LENGTHS, 256]
    for source in document["sources"]:
        assert load_run(path / source["path"]).name == source["run"]
    assert len(document["groups"]) == 1
    whole = document["groups"][0]["subjects"][0]
    assert whole["reach"]["holds"]
    assert document["groups"][0]["held_out"]["whole"]["median"] < 0.02


def test_two_sweeps_with_the_same_names_of_cells_stay_apart(tmp_path: Path) -> None:
    """GIVEN sweeps of two executions THEN there are two groups, and each subject's contrast is the planted one."""
    planted_sweep(tmp_path / "eager")
    planted_sweep(tmp_path / "graphs", execution="cuda-graph", noise=0.5)
    _, document = laws(["eager", "graphs"], root=tmp_path)
    assert [group["execution"] for group in document["groups"]] == ["eager", "cuda-graph"]
    assert len({entry["path"] for entry in document["sources"]}) == 2 * len(LENGTHS)
    whole = [entry["ratio"]["value"] for entry in document["contrasts"] if entry["subject"] == "model"]
    assert whole == pytest.approx([0.5] * len(LENGTHS))


def test_one_cell_has_a_document_that_says_so(tmp_path: Path) -> None:
    """GIVEN a sweep of one measured cell THEN its laws are written, with the reason for there being none."""
    made = planted_sweep(tmp_path / "swept", lengths=(32,))
    document = laws_of_sweep(made)
    assert [group["reason"] for group in document["groups"]] == [ONE_CELL]
    assert (made.path / REPORT_FILE).is_file()


def test_modelled_joules_are_said_and_never_beside_measured_ones(tmp_path: Path) -> None:
    """GIVEN a modelled sweep THEN the document says MODELLED; with a measured one beside it, it is refused."""
    planted_sweep(tmp_path / "measured")
    planted_sweep(tmp_path / "modelled", modelled=True)
    assert laws(["modelled"], root=tmp_path)[1]["modelled"]
    assert not laws(["measured"], root=tmp_path, name="m")[1]["modelled"]
    with pytest.raises(UsageError, match="some of these joules are measured and others modelled"):
        laws(["measured", "modelled"], root=tmp_path, name="both")
    assert not (tmp_path / "both").exists()


def test_other_versions_and_invalid_cells_are_noted(tmp_path: Path) -> None:
    """GIVEN cells of two versions of torch, one of them graded invalid, THEN notes say both."""
    planted_sweep(tmp_path / "swept")
    cell = min(item for item in (tmp_path / "swept").iterdir() if item.is_dir())
    document = json.loads((cell / "run.json").read_text())
    document["environment"] = {**document.get("environment", {}), "torch": "1.0"}
    (cell / "run.json").write_text(json.dumps(document))
    table = (cell / "per_layer_energy.csv").read_text().splitlines()
    column = table[0].split(",").index("quality")
    row = next(csv.reader([table[1]]))
    row[column] = "invalid"
    rewritten = io.StringIO()
    csv.writer(rewritten).writerow(row)
    lines = [table[0], rewritten.getvalue().strip(), *table[2:]]
    (cell / "per_layer_energy.csv").write_text("\n".join(lines) + "\n")
    notes = laws(["swept"], root=tmp_path)[1]["notes"]
    versions, invalid = (
        next(item for item in notes if item.code == code) for code in ("several-versions", "invalid-cells-used")
    )
    assert (versions.values["name"], versions.values["versions"][0]) == ("torch", "1.0")
    assert (invalid.values["invalid"], invalid.values["cells"]) == (1, len(LENGTHS))


def test_a_run_without_components_is_left_out_with_a_note(tmp_path: Path) -> None:
    """GIVEN a run that was only benchmarked beside others THEN a note names it; alone it is an error."""
    planted_sweep(tmp_path / "swept")
    build_run(tmp_path / "bench", Shape(profile=False, benchmark=True))
    _, document = laws(["swept", "bench"], root=tmp_path)
    assert reason("run-not-used", runs=["bench"], why=reason("no-component-energies")) in document["notes"]
    with pytest.raises(RunError, match=r"nothing to fit laws to \(not used: bench "):
        laws(["bench"], name="none", root=tmp_path)
    assert not (tmp_path / "none").exists()


def test_a_sweep_without_a_measured_cell_is_an_error(tmp_path: Path) -> None:
    """Nothing was measured: there is nothing to write."""
    made = planted_sweep(tmp_path / "swept", lengths=())
    with pytest.raises(RunError, match="no cell of the sweep swept was measured"):
        laws([str(made.path)], root=tmp_path)
    assert not (made.path / LAWS_JSON).exists()


@pytest.mark.parametrize(
    ("references", "options", "error", "complaint"),
    [
        ([], {}, UsageError, "name runs or sweeps"),
        (["nowhere"], {}, RunError, "no run 'nowhere'"),
        (["swept"], {"name": "swept"}, UsageError, "exists"),
        (["swept"], {"name": "a/b"}, UsageError, "is not a run name"),
    ],
)
def test_bad_input_leaves_nothing(
    tmp_path: Path, references: list[str], options: dict[str, str], error: type[Exception], complaint: str
) -> None:
    """What cannot be is one line, and makes no directory."""
    planted_sweep(tmp_path / "swept")
    with pytest.raises(error, match=complaint):
        laws(references, root=tmp_path, **options)
    assert [source.name for source in tmp_path.iterdir()] == ["swept"]


def test_a_broken_sweep_says_so(tmp_path: Path) -> None:
    """GIVEN a sweep.json that cannot be read THEN the message is of the sweep, not of a run."""
    made = planted_sweep(tmp_path / "swept")
    (made.path / "sweep.json").write_text("{", encoding="utf-8")
    with pytest.raises(RunError, match=r"sweep\.json cannot be read"):
        laws(["swept"], root=tmp_path)


def test_a_link_to_a_run_counts_once(tmp_path: Path) -> None:
    """GIVEN a run by two paths THEN it is one cell: a copy would pretend to be a second measurement."""
    planted_run(tmp_path / "one", 32)
    (tmp_path / "link").symlink_to(tmp_path / "one")
    _, document = laws(["one", str(tmp_path / "link")], root=tmp_path)
    assert len(document["sources"]) == 1


def test_a_sweep_is_not_altered_by_its_laws(tmp_path: Path) -> None:
    """Laws of a sweep elsewhere leave its directory as it was."""
    made = planted_sweep(tmp_path / "swept")
    before = sorted(file.name for file in made.path.iterdir())
    laws(["swept"], root=tmp_path)
    assert sorted(file.name for file in made.path.iterdir()) == before


def test_graphs_of_two_methods_are_not_joined(tmp_path: Path) -> None:
    """GIVEN graph prefills of before and after a change of the method THEN each has its laws, and why is said."""
    planted_sweep(tmp_path / "old", execution="cuda-graph", noise=1.4, method=None)
    planted_sweep(tmp_path / "new", execution="cuda-graph")
    _, document = laws(["old", "new"], name="both", root=tmp_path)
    assert [(group["method"], len(group["cells"])) for group in document["groups"]] == [("0", 4), ("1", 4)]
    (note,) = (candidate for candidate in document["notes"] if candidate.code == "methods-kept-apart")
    assert note.values["groups"] == ["tiny-gpt2 prefill fp32 cuda-graph"]


def test_an_old_method_alone_is_noted_and_eager_runs_are_not(tmp_path: Path) -> None:
    """GIVEN sweeps of before the change THEN graphs are to be measured again, and eager cells are joined."""
    planted_sweep(tmp_path / "graphs", execution="cuda-graph", method=None)
    planted_sweep(tmp_path / "eager", method=None)
    planted_run(tmp_path / "later", 256)
    _, document = laws(["graphs", "eager", "later"], name="all", root=tmp_path)
    assert sorted(len(group["cells"]) for group in document["groups"]) == [4, 5]
    (note,) = (candidate for candidate in document["notes"] if candidate.code == "older-method")
    assert note.values == {"why": "graph-masks", "groups": ["tiny-gpt2 prefill fp32 cuda-graph"]}
