"""What launching from the host costs, of runs that measured both executions."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from generation_builder import Inference, build_inference
from rich.console import Console

from energyscope.reporting.charts import grades, theme
from energyscope.reporting.data import ReportData, report_data
from energyscope.reporting.data.launching import WHOLE, Launched, Launching
from energyscope.reporting.figure import Figure
from energyscope.reporting.figures import figures
from energyscope.reporting.html import render
from energyscope.reporting.publication.source import caveats
from energyscope.reporting.terminal_runs import runs_table
from energyscope.runs import schema
from energyscope.runs.intervals import Interval
from energyscope.runs.store import Run, RunStore, load_run

SHAPE = Inference(layers=3, contexts=(1024, 128), executions=("eager", "cuda-graph"))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return build_inference(tmp_path_factory.mktemp("runs") / "both", SHAPE)


def altered(folder: Path, execution: str, component: str, values: dict[str, object]) -> ReportData:
    """Return what is reported of a run in which a component has other values, in one execution alone."""
    run = build_inference(folder / "run", SHAPE)
    table = run.energy
    assert table is not None
    rows = (table["execution"] == execution) & (table["component"] == component)
    assert rows.any()
    for column, value in values.items():
        table.loc[rows, column] = value
    table.to_csv(run.path / schema.ENERGY_FILE, index=False)
    return report_data(load_run(run.path))


def records_of(figure: Figure, column: str) -> list[dict[str, Any]]:
    """Return the records of a chart that have a column: ``fill`` those of bars, ``label`` what is beside them."""
    records = theme.expanded(theme.spec(figure.chart))["datasets"].values()
    return [row for rows in records for row in rows if column in row]


def test_every_moment_in_both_executions_is_set_side_by_side(run: Run) -> None:
    """GIVEN three moments in both THEN each has the model's and every kind's energy in both."""
    data = report_data(run)
    assert [one.moment for one in data.launching] == ["prefill, 128 tokens", "decode at 1,024", "decode at 128"]
    for one, eager, graph in zip(data.launching, data.scenes[::2], data.scenes[1::2], strict=True):
        assert (eager.execution, graph.execution) == ("eager", "cuda-graph")
        assert (one.whole.eager, one.whole.graph) == (eager.energy.model, graph.energy.model)
        assert [row.kind for row in one.kinds] == [entry.kind for entry in eager.energy.kinds]


def test_a_run_in_one_execution_has_none(tmp_path: Path) -> None:
    """GIVEN eager moments alone THEN nothing is set side by side, and none is told by its execution."""
    data = report_data(build_inference(tmp_path / "run", Inference(layers=2)))
    assert data.launching == []
    assert not any("eager" in scene.short for scene in data.scenes)
    assert not any(one.section == "launching" for one in figures(data))


def launching(eager: Interval, graph: Interval, **changes: object) -> Launching:
    whole = Launched(WHOLE, eager, graph, tuple(changes.pop("invalid", ())))  # type: ignore[arg-type]
    return Launching("prefill", "pass", [], whole, Interval(0.2), **{"modelled": False, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("graph", "said"),
    [
        (Interval(50, 49, 51), "of its time; the rest is what launching from the host costs."),
        (Interval(100, 97, 103), "; that launching from the host costs energy is not shown."),
        (Interval(120, 119, 121), "and 20 % of its time."),
        (Interval(50), "Prefill: a CUDA graph takes 50 % of the energy of eager execution and 20 % of its time."),
    ],
)
def test_what_it_means_follows_from_the_interval(graph: Interval, said: str) -> None:
    """A graph that surely takes less shows what launching costs; one that may take as much shows nothing."""
    sentence = launching(Interval(100, 99, 101), graph).said
    assert sentence.endswith(said)
    assert ("launching" in sentence) == ("launching" in said)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"invalid": ("eager",)}, "(below grade C: eager)"),
        ({"modelled": True}, "(MODELLED)"),
        ({"clocks_mhz": (1980.0, 1700.0)}, "; it ran at 1,700 MHz, and eager execution at 1,980 MHz."),
    ],
)
def test_nothing_is_concluded_of_what_is_not_alike_or_not_to_be_relied_on(
    changes: dict[str, object], said: str
) -> None:
    """GIVEN a model below grade C, modelled joules or other clocks THEN the sentence says so, and not why."""
    found = launching(Interval(100, 99, 101), Interval(50, 49, 51), **changes).said
    assert said in found
    assert "launching" not in found


def test_alike_clocks_are_no_word_worth() -> None:
    """GIVEN clocks within 1 % THEN what launching costs is said, and nothing of them."""
    found = launching(Interval(100, 99, 101), Interval(50, 49, 51), clocks_mhz=(1980.0, 1965.0)).said
    assert found.endswith("the rest is what launching from the host costs.")


def test_the_clocks_are_those_of_the_passes(run: Run) -> None:
    """Each moment's clock is read from its own passes."""
    assert {one.clocks_mhz for one in report_data(run).launching} == {(1980.0, 1980.0)}


def test_energies_without_a_ratio_say_nothing() -> None:
    """GIVEN an energy that is not positive THEN there is no share, and no sentence."""
    assert launching(Interval(-1, -2, 1), Interval(50, 49, 51)).said == ""


def test_the_findings_and_the_top_begin_with_both_executions(run: Run) -> None:
    """The findings begin with what a graph saves, and the top has the graph's energy beside the eager one."""
    data = report_data(run)
    assert [sentence.split(":")[0] for sentence in data.findings] == [
        "Prefill, 128 tokens", "Decode at 1,024", "Prefill, 128 tokens, eager", "Decode at 1,024, eager",
        *(sentence.split(":")[0] for sentence in data.findings[4:]),
    ]  # fmt: skip
    labels = [metric.label for metric in data.headline]
    assert labels[:3] == [
        "Energy per prefill pass", "Energy per 1,000 prompt tokens", "Energy in a CUDA graph, prefill, 128 tokens",
    ]  # fmt: skip
    assert not any("cuda-graph" in label for label in labels)


def test_growth_and_agreement_are_of_one_execution(run: Run) -> None:
    """The context's growth has one point at each context, and the trace agrees with the eager step."""
    data = report_data(run)
    assert data.growth is not None
    assert data.growth.contexts == [128, 1024]
    assert data.generation is not None
    assert data.generation.agreement is not None
    assert data.generation.agreement.same_execution
    assert "(eager)" in data.growth.said[0]
    moments = {point.moment for point in data.intensity}
    assert {"decode at 1,024, eager", "decode at 1,024, CUDA graph"} <= moments


@pytest.mark.parametrize("execution", ["eager", "cuda-graph"])
def test_a_kind_without_all_its_values_is_not_compared(run: Run, tmp_path: Path, execution: str) -> None:
    """GIVEN a norm that has no value in one execution THEN a note names norms; others are set side by side."""
    energy = dict.fromkeys(("energy_mj", "energy_ci_low_mj", "energy_ci_high_mj"))
    data = altered(tmp_path, execution, "model.norm", energy)
    found = data.launching[0]
    assert "norm" in {row.kind for row in report_data(run).launching[0].kinds}
    assert found.left_out == ("norm",)
    assert "norm" not in {row.kind for row in found.kinds}
    assert "mlp.up" in {row.kind for row in found.kinds}
    figure = next(one for one in figures(data) if one.section == "launching")
    assert figure.notes == ["Not set side by side, since some value is missing in one execution or both: norm."]


def test_the_grade_at_the_top_is_the_worst_of_all_that_stands_there(tmp_path: Path) -> None:
    """GIVEN a graph whose model is invalid THEN the grade is, its energy says so, and all rows are counted."""
    data = altered(tmp_path, "cuda-graph", "model", {"quality": "invalid"})
    metrics = {one.label: one for one in data.headline}
    count = sum(len(scene.tree.nodes) for scene in data.scenes)
    assert metrics["Quality grade"].value == "invalid"
    assert f"{count} rows" in metrics["Quality grade"].detail
    assert "below grade C: CUDA graph" in metrics["Energy in a CUDA graph, prefill, 128 tokens"].note


def test_a_moment_in_one_execution_alone_is_named(tmp_path: Path) -> None:
    """GIVEN a step that was measured eagerly alone THEN the page says so, and its name has its execution."""
    copy = build_inference(tmp_path / "run", Inference(layers=2, contexts=(1024,), executions=SHAPE.executions))
    store = RunStore.open(copy.path)
    store.update(scenes=[one for one in store.document["scenes"] if one["name"] != "decode@1024/cuda-graph"])
    data = report_data(load_run(copy.path))
    assert data.alone_in == ["Decode at 1,024 was measured in one execution alone: eager."]
    assert [scene.short for scene in data.scenes] == [
        "prefill, 128 tokens, eager", "prefill, 128 tokens, CUDA graph", "decode at 1,024, eager",
    ]  # fmt: skip
    assert report_data(build_inference(tmp_path / "all", SHAPE)).alone_in == []


def test_the_figure_has_both_values_of_every_kind(run: Run) -> None:
    """Each moment has a chart; its table has a line for each kind and one for the model, with the share."""
    drawn = [one for one in figures(report_data(run)) if one.section == "launching"]
    assert len(drawn) == 3
    table = drawn[0].table
    assert table.columns == ["kind", "eager", "CUDA graph", "graph / eager"]
    assert table.rows[-1][0] == WHOLE
    assert len(records_of(drawn[0], "label")) == 2 * (len(table.rows) - 1)
    bars = records_of(drawn[0], "fill")
    assert {row["execution"] for row in bars} == {"eager", "CUDA graph"}
    assert {row["fill"] for row in bars} == {grades.FULL, grades.PALE, grades.REST}


def test_the_work_of_both_is_drawn_from_zero(run: Run) -> None:
    """GIVEN dynamic energies THEN each bar begins with its own, solid, and its static energy follows, pale."""
    data = report_data(run)
    figure = next(one for one in figures(data) if one.section == "launching")
    assert "Solid, from zero, is dynamic energy" in figure.caption
    assert "In one piece, as a part is unknown or negative: unexplained." in figure.caption
    (rest,) = (row for row in records_of(figure, "fill")
               if (row["kind"], row["execution"]) == ("unexplained", "eager"))  # fmt: skip
    assert (rest["fill"], rest["dash"]) == (grades.REST, grades.REST_DASH)
    scene = data.scenes[0]
    norm = next(entry for entry in scene.energy.kinds if entry.kind == "norm")
    work, waiting = (row for row in records_of(figure, "fill")
                     if (row["kind"], row["execution"]) == ("norm", "eager"))  # fmt: skip
    assert norm.dynamic_mj is not None
    assert (work["start"], work["fill"], waiting["fill"]) == (0.0, grades.FULL, grades.PALE)
    assert work["end"] == waiting["start"]
    assert work["end"] / waiting["end"] == pytest.approx(norm.dynamic_mj / norm.energy.value)


def test_a_dynamic_energy_that_is_no_part_of_the_whole_is_not_drawn_as_work(tmp_path: Path) -> None:
    """GIVEN an LM head whose eager dynamic energy is negative THEN its bar is not split, and it is named."""
    data = altered(tmp_path, "eager", "lm_head", {"dynamic_mj": -5.0})
    figure = next(one for one in figures(data) if one.section == "launching")
    (bar,) = (row for row in records_of(figure, "fill")
              if (row["kind"], row["execution"]) == ("lm_head", "eager"))  # fmt: skip
    assert (bar["part"], bar["fill"]) == ("all", grades.REST)
    assert "lm_head (eager)" in figure.caption


def test_a_quotient_of_a_weak_value_is_marked_and_the_model_named_first(tmp_path: Path) -> None:
    """GIVEN a model that is invalid eagerly THEN its share is marked, and the note begins with it."""
    data = altered(tmp_path, "eager", "model", {"quality": "invalid"})
    figure = next(one for one in figures(data) if one.section == "launching")
    assert figure.table.rows[-1][3].endswith("\u2020")
    assert figure.notes[0].endswith(f": {WHOLE} (eager).")
    weak = altered(tmp_path / "weak", "eager", "lm_head", {"quality": "invalid"})
    figure = next(one for one in figures(weak) if one.section == "launching")
    rows = [one for one in records_of(figure, "label") if one["kind"] == "lm_head"]
    labels = {one["execution"]: one["label"] for one in rows}
    assert labels["CUDA graph"].endswith("% \u2020")
    assert "mJ \u2020" not in labels["CUDA graph"]


def test_each_is_told_as_waiting_and_work(run: Run) -> None:
    """The model's idle power times time and its work are told of both; of stated watts neither is."""
    one = launching(Interval(2080, 2010, 2140), Interval(1030, 1012, 1045))
    assert one.split == ""
    known = replace(one, whole=replace(one.whole, dynamic_mj=(700.0, 695.0)))
    assert known.split == (
        "Idle power times time is 1.38 J eagerly and 335 mJ in the graph, the work beyond it 700 mJ and 695 mJ "
        "(parts without an interval)."
    )
    assert replace(known, modelled=True).split == ""
    assert replace(known, whole=replace(known.whole, invalid=("eager",))).split == ""
    assert replace(known, whole=replace(known.whole, dynamic_mj=(-5.0, 695.0))).split == ""
    found = report_data(run)
    eager, graph = (scene.dynamic_mj for scene in found.scenes[:2])
    assert found.launching[0].whole.dynamic_mj == (eager, graph)
    assert found.launching[0].split
    assert found.launching[0].split in render(run).replace("\u00a0", " ")


def test_bars_below_grade_c_are_hollow_in_their_own_execution(tmp_path: Path) -> None:
    """GIVEN an LM head that is invalid eagerly alone THEN its eager bar is hollow alone, and its value marked."""
    data = altered(tmp_path, "eager", "lm_head", {"quality": "invalid"})
    figure = next(one for one in figures(data) if one.section == "launching")
    bars = [bar for bar in records_of(figure, "fill") if bar["kind"] == "lm_head"]
    hollow = {bar["execution"] for bar in bars if bar["fill"] <= grades.HOLLOW and bar["dash"] == grades.DASHED}
    assert hollow == {"eager"}
    row = next(row for row in figure.table.rows if row[0] == "lm_head")
    assert row[1].endswith("\u2020")
    assert not row[2].endswith("\u2020")
    said = "\u2020 Below grade C, hollow where all of it is, not to be relied on: lm_head (eager)."
    assert figure.notes == [said]


def test_a_kind_of_which_only_a_part_is_below_grade_c_keeps_its_bar(tmp_path: Path) -> None:
    """GIVEN one of several MLPs that is invalid THEN the kind is marked, and its bar is not hollow."""
    data = altered(tmp_path, "eager", "model.layers.0.mlp.up_proj", {"quality": "invalid"})
    figure = next(one for one in figures(data) if one.section == "launching")
    assert next(one for one in records_of(figure, "label") if one["kind"] == "mlp.up")["label"].endswith("\u2020")
    assert {bar["dash"] == grades.SOLID for bar in records_of(figure, "fill") if bar["kind"] == "mlp.up"} == {True}


def test_rows_below_grade_c_are_counted_in_every_moment(tmp_path: Path) -> None:
    """GIVEN an LM head that is invalid in the graph alone THEN the limits of the run name it."""
    said = " ".join(altered(tmp_path, "cuda-graph", "lm_head", {"quality": "invalid"}).limitations)
    assert "1 component did not reach grade C in some moment (lm_head)" in said


def test_an_interrupted_run_says_what_it_measured(tmp_path: Path) -> None:
    """GIVEN both asked for and eager moments alone measured THEN the page is of eager execution, and says so."""
    copy = build_inference(tmp_path / "run", Inference(layers=2))
    store = RunStore.open(copy.path)
    store.document["settings"]["execution"] = "both"
    store.update()
    data = report_data(load_run(copy.path))
    assert data.execution.name == "eager"
    facts = {fact.name: fact.value for fact in data.method}
    assert facts["Execution"] == "eager (eager and CUDA graph asked for)"


def test_figures_and_lists_name_the_execution_of_their_energy(run: Run) -> None:
    """Figures for a paper carry it as a note, and the list of runs says which one its energy is of."""
    assert "Eager execution: the run measured CUDA graphs as well." in caveats(run)
    console = Console(width=120, file=io.StringIO())
    console.print(runs_table([run]))
    assert "both (energy: eager)" in console.file.getvalue()  # type: ignore[attr-defined]
