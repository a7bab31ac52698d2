"""A run beside the laws that it is a cell of: read from laws.json, of the nearest set that has it as it is now."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from cell_builder import build_cell, build_swept
from generation_builder import Inference, build_inference
from run_builder import build_run

from energyscope.reporting.data import scaling
from energyscope.reporting.data.scaling import OwnLaw, ScalingData, scaling_data
from energyscope.reporting.data.scaling_words import less_words
from energyscope.reporting.scaling_figures import scaling_figures
from energyscope.runs import schema
from energyscope.runs.intervals import Interval
from energyscope.runs.laws import load_laws, write_laws
from energyscope.runs.store import load_run
from energyscope.stages.laws import laws

CELL = "fp32-b1-s128"


def _of(run: Path) -> ScalingData:
    found = scaling_data(load_run(run))
    assert found is not None
    return found


def _law(run: Path) -> OwnLaw:
    (law,) = _of(run).groups
    return law


def _rows(law: OwnLaw) -> dict[str, dict[str, str]]:
    """Return the table as rows by their kind, with plain spaces."""
    assert law.table is not None
    columns, *rows = [
        [cell.replace("\u00a0", " ") for cell in row] for row in (law.table.columns, *law.table.rows)
    ]
    return {row[0]: dict(zip(columns, row, strict=True)) for row in rows}


def _change(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Alter the only group of a document."""
    document = load_laws(folder)
    change(document["groups"][0])
    write_laws(folder, document)


def _subject(group: dict[str, Any], name: str) -> dict[str, Any]:
    return next(one for one in group["subjects"] if one["subject"] == name)


def test_a_run_without_laws_has_no_place_among_them(tmp_path: Path) -> None:
    """GIVEN a run near which no laws name it, or that measured no components, THEN there is nothing to say."""
    run = build_run(tmp_path / "run")
    assert scaling_data(run) is None
    write_laws(tmp_path, {**_empty(), "sources": [{"path": "another"}]})
    assert scaling_data(run) is None


def _empty() -> dict[str, Any]:
    names = ("weights", "sources", "notes", "not_measured", "groups", "contrasts", "efficiency", "sizes")
    return {"schema": 1, "name": "x", **{name: [] for name in names}, "sizes_held_out": []}


def test_a_cell_lies_beside_the_law_of_its_sweep(swept: Path) -> None:
    """GIVEN a cell 3 % above a known law THEN the page's numbers are the run's and the document's."""
    found, run = _of(swept / CELL), load_run(swept / CELL)
    law, document = _law(swept / CELL), load_laws(swept)
    (own,) = [cell for cell in law.cells if cell.own]
    whole = document["groups"][0]["subjects"][0]
    assert run.energy is not None
    assert own.energy.value == pytest.approx(run.energy["energy_mj"].iloc[0])
    terms = whole["two_term"]["fixed_mj"]["value"], whole["two_term"]["marginal_pj_per_flop"]["value"]
    assert own.line == pytest.approx(terms[0] + terms[1] * own.flops * 1e-9)
    assert (found.laws.name, found.laws.link, found.laws.sweep) == ("swept", "./../report.html", True)
    assert law.about == "tiny-gpt2, prefill, fp32, eager, NVIDIA H200: one of 4 cells, batch 1, 32 to 1,024 tokens"
    share = 1 - own.line / own.energy.value
    assert 0.01 < share < 0.03
    row = _rows(law)["whole model"]
    assert row["difference [95 %]"].startswith(f"+{share * 100:.1f} % [")
    less = f"The two-term law says {row['two-term law says']}: measured less law is +{share * 100:.1f} % ["
    assert any(less in sentence and "] of the measured." in sentence for sentence in law.said)
    assert law.said[0].startswith("The whole model takes ")
    assert "left out by length" in law.said[-1].lower()


def test_nothing_is_fitted(sweep: Path) -> None:
    """GIVEN a law that was altered by hand THEN the altered one is shown."""

    def alter(group: dict[str, Any]) -> None:
        law = _subject(group, "model")["two_term"]
        law.update(r2=0.123, fixed_mj={"value": 9_876.0, "low": 9_800.0, "high": 9_900.0})

    _change(sweep, alter)
    law = _law(sweep / CELL)
    assert "9.88 J" in law.said[0]
    assert _rows(law)["whole model"]["R\u00b2"] == "0.123"
    assert [cell.line is not None and cell.line > 9_876 for cell in law.cells] == [True] * 4


def test_every_kind_has_its_law(swept: Path) -> None:
    """Kinds with FLOPs have a law over them, norms over bytes; glue and what holds others are there too."""
    rows = _rows(_law(swept / CELL))
    assert {"whole model", "mlp.up", "attention.core", "lm_head", "norm", "glue", "unexplained", "layer"} <= set(
        rows
    )
    assert "pJ/FLOP" in rows["mlp.up"]["k [95 %]"]
    assert "pJ/byte" in rows["norm"]["k [95 %]"]
    assert rows["norm"]["to know"].startswith("no FLOPs: over bytes")


def test_what_must_be_known_of_a_law_stands_beside_it(sweep: Path) -> None:
    """GIVEN a negative E0 and a law that breaks below the run's shape THEN both are said, negative values too."""

    def alter(group: dict[str, Any]) -> None:
        whole = _subject(group, "model")
        whole["two_term"].update(flags=["E0 is negative"], fixed_mj={"value": -20.0, "low": -30.0, "high": -10.0})
        reach = {"holds": False, "within": 3, "cells": 4, "to_flops": whole["points"][0]["flops"]}
        whole["reach"].update(reach, first_beyond={"batch_size": 1, "tokens": 128})

    _change(sweep, alter)
    row = _rows(_law(sweep / CELL))["whole model"]
    assert row["E0 [95 %]"].startswith("-20.0 mJ")
    assert row["to know"].startswith("E0 is negative; left out, cells are foretold within 10 % up to ")
    assert row["to know"].endswith("FLOP only: this run is beyond")
    assert _rows(_law(sweep / "fp32-b1-s32"))["whole model"]["to know"].startswith("E0 is negative")
    assert "beyond" not in _rows(_law(sweep / "fp32-b1-s32"))["whole model"]["to know"]
    said = " ".join(_law(sweep / CELL).said)
    assert "Left out, cells are foretold within 10 % up to " in said
    assert "whole model (breaks at 1 \u00d7 128 tokens)" in said


def test_a_run_that_was_measured_again_is_no_cell_of_old_laws(sweep: Path) -> None:
    """GIVEN another energy of the whole model than the laws know THEN nothing of them is shown of this run."""
    file = sweep / CELL / schema.ENERGY_FILE
    frame = pd.read_csv(file, dtype={"layer": "Int64"})
    frame.loc[frame["level"] == "model", "energy_mj"] *= 1.001
    frame.to_csv(file, index=False)
    found = _of(sweep / CELL)
    assert (found.groups, found.laws.name) == ([], "swept")
    assert "another state" in found.reason
    assert _of(sweep / "fp32-b1-s32").groups


def test_further_sets_are_linked(sweep: Path) -> None:
    """GIVEN a sweep's own laws and larger sets beside it THEN the nearest are shown, and the others named."""
    root = sweep.parent
    fifth = build_cell(root / "fifth", 256)
    laws([str(sweep), str(fifth.path)], name="more", root=root)
    laws([str(sweep / CELL)], name="alone", root=root)
    laws([str(sweep / "fp32-b1-s32")], name="without", root=root)
    (root / "more" / "report.html").unlink(missing_ok=True)
    (root / "alone" / "report.html").touch()
    found = _of(sweep / CELL)
    assert found.laws.name == "swept"
    assert [(one.name, one.link) for one in found.others] == [
        ("alone", "./../../alone/report.html"),
        ("more", None),
    ]


def test_the_set_that_joins_the_run_with_most_cells_is_shown(sweep: Path) -> None:
    """GIVEN no laws in the sweep and three sets beside it THEN that of most cells, and never one without a law."""
    root = sweep.parent
    (sweep / schema.LAWS_JSON).unlink()
    for name, tokens in (("a", (128,)), ("b", (32, 128, 512)), ("c", (32, 128, 512, 1024)), ("d", (128, 512))):
        laws([str(sweep / f"fp32-b1-s{one}") for one in tokens], name=name, root=root)
    assert _of(sweep / CELL).laws.name == "c"


def test_a_farther_law_is_better_than_none(sweep: Path) -> None:
    """GIVEN laws of one cell beside the run, and of several farther up, THEN the law is shown."""
    nearer = sweep.rename(sweep.parent / "cells")
    laws([str(nearer)], name="farther", root=nearer.parent)
    (nearer / schema.LAWS_JSON).unlink()
    laws([str(nearer / CELL)], name="near", root=nearer)
    assert _of(nearer / CELL).laws.name == "farther"


def test_one_cell_says_why_there_is_no_law(tmp_path: Path) -> None:
    """GIVEN laws of one cell THEN the reason stands alone: no sentence, no table, no chart."""
    build_cell(tmp_path / "one", 128)
    laws(["one"], name="alone", root=tmp_path)
    law = _law(tmp_path / "one")
    assert (law.reason or "").startswith("one cell: no law")
    assert (law.said, law.table, law.notes) == ([], None, [])
    assert law.about.endswith("the only cell, batch 1, 128 tokens")
    assert scaling_figures(_of(tmp_path / "one")) == []


def test_two_cells_give_a_line_that_nothing_checks(sweep: Path) -> None:
    """GIVEN two cells THEN their line is shown and no difference from it: any two cells lie on one."""
    (sweep / schema.LAWS_JSON).unlink()
    laws([str(sweep / CELL), str(sweep / "fp32-b1-s512")], name="pair", root=sweep.parent)
    row = _rows(_law(sweep / CELL))["whole model"]
    assert (row["two-term law says"], row["difference [95 %]"]) == ("\u2013", "\u2013")
    assert "two cells give a line that nothing checks" in row["to know"]
    law = _law(sweep / CELL)
    assert "measured less law" not in " ".join(law.said)
    assert (law.compared, law.line, {cell.line for cell in law.cells}) == (False, [], {None})
    (figure,) = scaling_figures(_of(sweep / CELL))
    assert ("Solid" in figure.caption, "two-term" in figure.table.columns) == (False, False)


def test_of_two_runs_with_one_shape_the_run_finds_its_own(sweep: Path) -> None:
    """GIVEN another run of the same shape in the laws THEN each page shows what that run measured."""
    again = build_cell(sweep.parent / "again", 128)
    file = again.path / schema.ENERGY_FILE
    frame = pd.read_csv(file, dtype={"layer": "Int64"})
    columns = ["energy_mj", "energy_ci_low_mj", "energy_ci_high_mj"]
    frame[columns] *= 2
    frame.to_csv(file, index=False)
    (sweep / schema.LAWS_JSON).unlink()
    laws([str(again.path), str(sweep)], name="both", root=sweep.parent)
    first, second = _rows(_law(sweep / CELL)), _rows(_law(again.path))
    for kind in ("whole model", "mlp.up", "norm"):
        values = [float(rows[kind]["this run [95 %]"].split()[0]) for rows in (first, second)]
        assert values[1] == pytest.approx(2 * values[0], rel=0.01)


def test_several_moments_of_a_run_have_a_row_each(sweep: Path) -> None:
    """GIVEN a run whose table holds two lengths THEN its law has both as its own, and the table says which."""
    frames = [pd.read_csv(sweep / name / schema.ENERGY_FILE, dtype={"layer": "Int64"})
              for name in (CELL, "fp32-b1-s512")]  # fmt: skip
    pd.concat(frames).to_csv(sweep / CELL / schema.ENERGY_FILE, index=False)
    (sweep / schema.LAWS_JSON).unlink()
    laws(
        [str(sweep / CELL), str(sweep / "fp32-b1-s32"), str(sweep / "fp32-b1-s1024")], name="x", root=sweep.parent
    )
    law = _law(sweep / CELL)
    assert "2 of 4 cells" in law.about
    assert [cell.at for cell in law.cells if cell.own] == ["1 \u00d7 128 tokens", "1 \u00d7 512 tokens"]
    assert law.table is not None
    assert [row[:2] for row in law.table.rows[:2]] == [
        ["whole model", "1 \u00d7 128 tokens"], ["whole model", "1 \u00d7 512 tokens"]
    ]  # fmt: skip


def test_modelled_joules_are_called_modelled(tmp_path: Path) -> None:
    """GIVEN modelled cells THEN the data, the sentences with joules, the title and the axis say so."""
    path = build_swept(tmp_path / "modelled", modelled=True).path / CELL
    found = _of(path)
    assert found.modelled
    assert all("(MODELLED)" in sentence for sentence in found.groups[0].said[:2])
    (figure,) = scaling_figures(found)
    assert figure.title.startswith("Modelled energy")
    assert "Modelled energy" in json.dumps(figure.chart.to_dict())


def test_cells_that_are_graded_invalid_are_counted(sweep: Path) -> None:
    """GIVEN two invalid cells among four THEN a note says so."""
    document = load_laws(sweep)
    for one in document["sources"][:2]:
        one["quality"] = "invalid"
    write_laws(sweep, document)
    assert any(note.endswith("in 2 of 4 cells") for note in _law(sweep / CELL).notes)


def test_a_run_that_is_below_grade_c_is_marked(sweep: Path) -> None:
    """GIVEN a run whose whole model and norms are graded invalid THEN each of their numbers says so."""
    _grade(sweep / CELL, lambda frame: (frame["level"] == "model") | (frame["kind"] == "norm"))
    document = load_laws(sweep)
    next(one for one in document["sources"] if one["run"] == CELL)["quality"] = "invalid"
    write_laws(sweep, document)
    law, rows = _law(sweep / CELL), _rows(_law(sweep / CELL))
    assert "] (below grade C) a pass." in law.said[1]
    marked = {kind for kind, row in rows.items() if row["this run [95 %]"].endswith("] \u2020")}
    assert marked == {"whole model", "norm"}
    assert re.match(r"(\d+) of \1 below grade C", rows["norm"]["to know"])
    assert law.notes[0].startswith("\u2020 Below grade C")
    assert law.notes[-1].endswith("in 1 of 4 cells, this run among them")
    (figure,) = scaling_figures(_of(sweep / CELL))
    said = {row[0]: row[2] for row in figure.table.rows}
    assert [at for at, energy in said.items() if energy.endswith(", below grade C")] == [
        "1 \u00d7 128 tokens (this run)"
    ]
    (figure,) = scaling_figures(_of(sweep / "fp32-b1-s32"))
    assert {row[0]: row[2] for row in figure.table.rows}["1 \u00d7 128 tokens"].endswith(", below grade C")
    assert "\u2020" not in "".join(_law(sweep / "fp32-b1-s32").notes)


def test_cells_below_grade_c_are_hollow(sweep: Path) -> None:
    """GIVEN another cell that is graded invalid THEN its point is hollow, and the caption says so; else not."""
    (figure,) = scaling_figures(_of(sweep / CELL))
    assert "Hollow" not in figure.caption
    assert not [one for one in _records(figure.chart.to_dict()) if one.get("weak")]
    document = load_laws(sweep)
    next(one for one in document["sources"] if one["run"] == "fp32-b1-s512")["quality"] = "invalid"
    write_laws(sweep, document)
    (figure,) = scaling_figures(_of(sweep / CELL))
    assert figure.caption.endswith(" Hollow: below grade C.")
    hollow = [(one["at"], one["series"]) for one in _records(figure.chart.to_dict()) if one.get("weak")]
    assert hollow == [("1 \u00d7 512 tokens", "cells of the law")]


def test_a_slope_that_may_be_zero_is_no_cost(sweep: Path) -> None:
    """GIVEN k of the whole model and of the norms whose intervals hold 0 THEN no growth is said to be shown."""

    def alter(group: dict[str, Any]) -> None:
        slope = {"value": 1.0, "low": -0.5, "high": 2.5}
        _subject(group, "model")["two_term"]["marginal_pj_per_flop"] = slope
        _subject(group, "norm")["by_bytes"]["pj_per_byte"] = slope

    _change(sweep, alter)
    law = _law(sweep / CELL)
    assert law.said[0].startswith(
        "No growth with FLOPs is shown of the whole model: k is 1.00 pJ/FLOP [-0.5, 2.5]"
    )
    rows = _rows(law)
    assert rows["whole model"]["k [95 %]"] == "1.00 pJ/FLOP [-0.5, 2.5] (no growth shown)"
    assert rows["norm"]["k [95 %]"] == "1.00 pJ/byte [-0.5, 2.5] (no growth shown)"
    assert "no growth" not in rows["mlp.up"]["k [95 %]"]


def test_a_slope_that_may_be_zero_has_no_rising_line(sweep: Path) -> None:
    """GIVEN k of the whole model whose interval holds 0 THEN the chart has no solid line, and a note says why."""
    (before,) = scaling_figures(_of(sweep / CELL))

    def alter(group: dict[str, Any]) -> None:
        law = _subject(group, "model")["two_term"]
        law["marginal_pj_per_flop"] = {"value": 1.0, "low": -0.5, "high": 2.5}

    _change(sweep, alter)
    (after,) = scaling_figures(_of(sweep / CELL))
    drawn = ["[1, 0]" in str(figure.chart.to_dict()["layer"]) for figure in (before, after)]
    assert drawn == [True, False]
    assert ["Solid" in figure.caption for figure in (before, after)] == [True, False]
    assert ["No line of" in figure.caption for figure in (before, after)] == [False, True]
    assert " No line of the two-term law, as the interval of k holds 0: whole model." in after.caption
    assert after.table.columns == before.table.columns, "numbers stay"


def _grade(run: Path, bad: Callable[[pd.DataFrame], Any]) -> None:
    file = run / schema.ENERGY_FILE
    frame = pd.read_csv(file, dtype={"layer": "Int64"})
    frame["quality"] = "A"
    frame.loc[bad(frame), "quality"] = "invalid"
    frame.to_csv(file, index=False)


def test_grades_are_those_of_the_execution(tmp_path: Path) -> None:
    """GIVEN runs in both executions, whose cells share path and shape, THEN a grade is of the one that has it."""
    for name, prompt in (("a", 128), ("b", 512)):
        build_inference(
            tmp_path / name, Inference(layers=2, prompt=prompt, contexts=(), executions=("eager", "cuda-graph"),
                                       beside_trace=False, generation=False, alternatives=False)
        )  # fmt: skip
    laws(["a", "b"], name="both", root=tmp_path)
    document = load_laws(tmp_path / "both")
    for one in document["sources"]:
        one["quality"] = "invalid" if one["execution"] == "eager" else "A"
    write_laws(tmp_path / "both", document)
    found = {law.about.split(", ")[3]: law for law in _of(tmp_path / "a").groups}
    assert [note for note in found["eager"].notes if "2 of 2 cells" in note]
    assert not [note for note in found["CUDA graph"].notes if "invalid" in note]
    other = {kind: [cell.invalid for cell in law.cells if not cell.own] for kind, law in found.items()}
    assert other == {"eager": [True], "CUDA graph": [False]}


def test_the_best_law_is_told_beside_the_two_term_law(sweep: Path) -> None:
    """GIVEN a roofline that foretells left-out cells best THEN its name and value stand there too."""

    def alter(group: dict[str, Any]) -> None:
        whole = _subject(group, "model")
        residuals = [-0.06] * len(whole["points"])
        whole.update(
            best="roofline (floor)", roofline={"law": "roofline (floor)", "residuals": residuals, "flags": []}
        )

    _change(sweep, alter)
    law = _law(sweep / CELL)
    (own,) = [cell for cell in law.cells if cell.own]
    assert own.roofline == pytest.approx(own.energy.value * 1.06)
    assert "The roofline (floor) law, with the least error of left-out cells, says " in law.said[1]
    rows = _rows(law)
    assert rows["whole model"]["best law says"].startswith("roofline (floor): ")
    assert rows["whole model"]["best law says"].removeprefix("roofline (floor): ") in law.said[1]
    _change(sweep, lambda group: _subject(group, "model").update(best="two-term"))
    assert _rows(_law(sweep / CELL))["whole model"]["best law says"] == "the same"
    assert "with the least error" not in _law(sweep / CELL).said[1]


def test_what_was_tested_by_leaving_out_is_told_from_the_runs_own_difference(sweep: Path) -> None:
    """GIVEN a law that does not foretell its smallest cells THEN only a kind far from it is said to be."""

    def alter(group: dict[str, Any]) -> None:
        for name, factor in (("model", 1.0), ("mlp.up", 0.88)):
            subject = _subject(group, name)
            subject["reach"].update(holds=False, within=0, cells=4, to_flops=None, first_beyond=None)
            index = [point["tokens"] for point in subject["points"]].index(128)
            subject["two_term"]["residuals"][index] = 1 - factor

    _change(sweep, alter)
    rows = _rows(_law(sweep / CELL))
    left_out = "left out, not even the 3 smallest cells are all foretold within 10 %"
    assert rows["whole model"]["to know"] == left_out
    assert rows["mlp.up"]["to know"] == f"this run lies more than 10 % off the law; {left_out}"
    _change(sweep, lambda group: _subject(group, "model")["two_term"].update(residuals=[0.2] * 4))
    assert "This run lies more than 10 % off the law." in _law(sweep / CELL).said[1]


def test_what_the_section_is_about_stands_first(swept: Path) -> None:
    """A narrow screen shows the first columns: the run, its law and their difference."""
    assert list(_rows(_law(swept / CELL))["norm"])[:4] == [
        "kind", "this run [95 %]", "two-term law says", "difference [95 %]"
    ]  # fmt: skip


def test_the_axis_of_a_decode_is_of_steps(tmp_path: Path) -> None:
    """GIVEN decode steps at two contexts THEN their FLOPs are those of a step, not of a pass."""
    shape = Inference(layers=2, prefill=False, contexts=(128, 1024), beside_trace=False,
                      generation=False, alternatives=False)  # fmt: skip
    build_inference(tmp_path / "a", shape)
    laws(["a"], name="steps", root=tmp_path)
    (figure,) = scaling_figures(_of(tmp_path / "a"))
    spec = json.dumps(figure.chart.to_dict())
    assert "FLOPs of a step" in spec
    assert "FLOPs of a pass" not in spec


@pytest.mark.parametrize("cells", [[{"path": CELL}], [{"path": CELL, "batch_size": "x", "tokens": None}]])
def test_broken_laws_are_said_to_be_unreadable(sweep: Path, cells: list[dict[str, Any]]) -> None:
    """GIVEN cells without a shape in a document that names the run THEN that is the reason, and no other."""
    laws([str(sweep)], name="good", root=sweep.parent)
    _change(sweep, lambda group: group.update(cells=cells))
    found = _of(sweep / CELL)
    assert (found.laws.name, bool(found.groups), [one.name for one in found.unread]) == ("good", True, ["swept"])
    shutil.rmtree(sweep.parent / "good")
    found = _of(sweep / CELL)
    assert found.reason == "but its laws.json cannot be read for this run: a cell has no batch size or no length"
    assert (found.groups, found.unread) == ([], [])


def test_an_error_of_ours_is_not_blamed_on_the_file(swept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN a bug in what makes the table THEN it is seen, and not taken for a broken neighbour."""
    monkeypatch.setattr(scaling, "kinds_table", lambda own: own.missing)
    with pytest.raises(AttributeError):
        scaling_data(load_run(swept / CELL))


def test_why_laws_that_name_a_run_tell_nothing(sweep: Path) -> None:
    """GIVEN laws without a whole model or a cell of the run, or a run without its energy, THEN that is said."""
    document = load_laws(sweep)
    group = document["groups"][0]
    subjects, cells = group["subjects"], group["cells"]
    group["subjects"] = subjects[1:]
    write_laws(sweep, document)
    assert "these laws have no whole model" in _of(sweep / CELL).reason
    group.update(subjects=subjects, cells=[one for one in cells if one["path"] != CELL])
    write_laws(sweep, document)
    assert _of(sweep / CELL).reason == "but no law there joins it"
    file = sweep / CELL / schema.ENERGY_FILE
    frame = pd.read_csv(file, dtype={"layer": "Int64"})
    frame.loc[frame["level"] == "model", "energy_mj"] = None
    frame.to_csv(file, index=False)
    assert _of(sweep / CELL).reason.startswith("but has no energy of the whole model")


@pytest.mark.parametrize(
    ("measured", "law", "said"),
    [
        (Interval(200.0, 190.0, 210.0), 180.0, "+10.0 % [5.3, 14.3]"),
        (Interval(200.0, 190.0, 210.0), -20.0, "+110.0 % [109.5, 110.5]"),
        (Interval(200.0), 220.0, "-10 %"),
        (Interval(200.0, 199.0, 201.0), 200.0, "0.0 % [-0.5, 0.5]"),
        (Interval(200.0, 190.0, 212.0), 212.3, "-6 % [-12, 0]"),
        (Interval(-3.0, -10.0, 4.0), 5.0, "-8.00 mJ [-15, -1]"),
        (Interval(3.0, -1.0, 7.0), 1.0, "+2.00 mJ [-2.0, 6.0]"),
    ],
)
def test_a_difference_is_a_share_where_that_has_a_meaning(measured: Interval, law: float, said: str) -> None:
    """GIVEN a measured energy that may be 0 THEN the difference is in joules, else a share of the measured."""
    assert less_words(measured, law) == said


def test_the_chart_marks_the_run(swept: Path) -> None:
    """GIVEN four cells THEN one series is the run's, its mark is ringed, and the table says which cell it is."""
    (figure,) = scaling_figures(_of(swept / CELL))
    assert (figure.name, figure.section) == ("scaling-law", "scaling")
    assert [row[0] for row in figure.table.rows].count("1 \u00d7 128 tokens (this run)") == 1
    records = _records(figure.chart.to_dict())
    own = [one for one in records if one.get("series") == "this run"]
    assert [one["at"] for one in own if "at" in one] == ["1 \u00d7 128 tokens"]
    assert len([one for one in own if "word" in one]) == 1
    assert len([one for one in records if one.get("series") == "cells of the law" and "at" in one]) == 3


def _records(spec: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the records of a chart, each set once."""
    sets = [layer["data"]["values"] for layer in spec["layer"] if "values" in layer.get("data", {})]
    return [one for index, rows in enumerate(sets) if rows not in sets[:index] for one in rows]
