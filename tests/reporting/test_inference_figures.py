"""The charts of a whole inference, the page, the terminal and the files for print."""

from __future__ import annotations

import io
import itertools
import re
from pathlib import Path

import pandas as pd
import pytest
from generation_builder import Inference, build_inference
from rich.console import Console

from energyscope.reporting.charts import growth as growth_chart
from energyscope.reporting.charts import theme
from energyscope.reporting.data import report_data
from energyscope.reporting.data.growth import CORE, STEP, Growth, GrowthPoint
from energyscope.reporting.data.scenes import scene_table
from energyscope.reporting.figures import figures
from energyscope.reporting.html import render, write_report
from energyscope.reporting.publication.drawing import draw
from energyscope.reporting.publication.sheet import Sheet
from energyscope.reporting.publication.sheets import sheets
from energyscope.reporting.publication.source import source
from energyscope.reporting.terminal import MOST_KINDS, run_summary
from energyscope.runs import schema
from energyscope.runs.intervals import Interval
from energyscope.runs.store import RunStore, load_run

NAMES = [
    "generation-flow", "generation-power-trace", "generation-power-close", "energy-per-token", "generation-parts",
    "energy-by-kind",
    "energy-flow", "energy-icicle", "energy-by-layer", "energy-heatmap", "scene-decode-1024-energy-by-kind",
    "scene-decode-1024-energy-flow", "scene-decode-1024-energy-icicle",
    "scene-decode-1024-energy-by-layer", "scene-decode-128-energy-by-kind",
    "scene-decode-8192-energy-by-kind", "attention-by-context", "power-intensity", "choices-decode",
    "choices-prefill", "anchors",
]  # fmt: skip
FOUR = ["generation_power_trace", "energy_per_token", "attention_by_context", "choices"]
WITHOUT_POWER = {"generation-power-trace", "generation-power-close", "power-intensity"}


@pytest.mark.parametrize("modelled", [False, True])
def test_every_chart_becomes_a_picture(tmp_path: Path, modelled: bool) -> None:
    """GIVEN a whole inference, THEN each chart is valid and renders without a browser; stated watts do not."""
    import vl_convert

    drawn = figures(report_data(build_inference(tmp_path / "run", Inference(layers=3, modelled=modelled))))
    assert [one.name for one in drawn] == [name for name in NAMES if not (modelled and name in WITHOUT_POWER)]
    for figure in drawn:
        assert figure.chart.to_dict(validate=True)
        spec = {**theme.spec(figure.chart), "width": 700}
        svg = vl_convert.vegalite_to_svg(spec, config=theme.config("light"), vl_version="6.1")
        assert svg.count("<path") > 3, figure.name
        assert "NaN" not in svg
        assert figure.table.rows
        assert all(len(row) == len(figure.table.columns) for row in figure.table.rows)


def test_several_devices_have_a_line_and_a_name_each(tmp_path: Path) -> None:
    """GIVEN a trace of two devices, THEN the chart has a legend that tells their lines apart."""
    import vl_convert

    run = build_inference(tmp_path / "run", Inference(layers=3))
    assert run.trace is not None
    both = pd.concat([run.trace, run.trace.assign(device="cuda:1")])
    both.to_csv(run.path / schema.TRACE_FILE, index=False)
    drawn = {one.name: one for one in figures(report_data(load_run(run.path)))}
    spec = {**theme.spec(drawn["generation-power-trace"].chart), "width": 700}
    svg = vl_convert.vegalite_to_svg(spec, config=theme.config("light"), vl_version="6.1")
    assert ">cuda:0<" in svg
    assert ">cuda:1<" in svg
    assert "Each line is a device" in drawn["generation-power-trace"].caption


def test_a_large_model_does_not_make_a_large_page(tmp_path: Path) -> None:
    """GIVEN 80 layers at four moments, THEN the page stays below 4 MB."""
    run = build_inference(tmp_path / "run", Inference(layers=80))
    assert write_report(run.path).stat().st_size < 4_000_000


def test_the_page_has_a_section_for_each_part_and_a_way_to_each_moment(tmp_path: Path) -> None:
    """Every link of the page has its target, headings do not skip a level, and ids are unique."""
    page = render(build_inference(tmp_path / "run", Inference(layers=3)))
    head = page.partition('<script type="application/json"')[0]
    ids = re.findall(r'\sid="([^"]+)"', head)
    assert len(ids) == len(set(ids))
    assert {"generation", "context", "choices", "scene-prefill", "scene-decode-1024"} <= set(ids)
    assert set(re.findall(r'href="#([^"]+)"', head)) <= set(ids)
    levels = [int(level) for level in re.findall(r"<h([1-6])", head)]
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))


def test_modelled_sections_say_so(tmp_path: Path) -> None:
    """GIVEN a modelled run, THEN the sections of context, generation and choices each begin with the word."""
    page = render(build_inference(tmp_path / "run", Inference(layers=3, modelled=True)))
    for name in ("generation", "context", "choices"):
        section = page.partition(f'<section id="{name}"')[2].partition("</section>")[0]
        assert "<strong>MODELLED" in section[:400], name


def test_stages_that_failed_say_so_and_those_not_asked_for_are_silent(tmp_path: Path) -> None:
    """GIVEN a generation that failed and alternatives not asked for, THEN only the first has a section."""
    run = build_inference(tmp_path / "run", Inference(layers=3, generation=False, alternatives=False))
    store = RunStore.open(run.path)
    store.document["stages"]["generate"] = {"state": "failed", "reason": "no memory is left", "seconds": 3.0}
    store.update()
    page = render(load_run(run.path))
    assert "The generate stage failed: no memory is left." in page
    assert '<section id="choices"' not in page


def test_text_of_documents_is_escaped(tmp_path: Path) -> None:
    """GIVEN markup in notes and reasons, THEN the page has no element of theirs."""
    run = build_inference(tmp_path / "run", Inference(layers=3))
    store = RunStore.open(run.path)
    for name, document in ((schema.GENERATION_JSON, run.generation), (schema.ALTERNATIVES_JSON, run.alternatives)):
        assert document is not None
        store.write_json(name, {**document, "notes": ["<script>alert(1)</script>"]})
    assert "<script>alert(1)" not in render(load_run(run.path))


def test_the_terminal_shows_moments_phases_and_advice(tmp_path: Path) -> None:
    """The summary has a line for each moment, the phases, both lists of components and what to change; 80 wide."""
    run = build_inference(tmp_path / "run", Inference(layers=3, step_as_scene=True))
    console = Console(width=80, record=True, file=(tmp_path / "out").open("w"))
    console.print(run_summary(run))
    said = console.export_text()
    assert max(map(len, said.splitlines())) <= 80
    for words in ("By moment of the inference", "prefill, 128 tokens", "decode at 8,192", "model only",
                  "A whole generation (128 tokens from 128)", "detokenize", "Largest components, decode at 1,024",
                  "What to change", "it copies itself whole at each step", "they agree within"):  # fmt: skip
        assert words in " ".join(said.split()), words


def test_modelled_joules_in_the_terminal(tmp_path: Path) -> None:
    """GIVEN a modelled run, THEN the tables of moments and phases say so."""
    run = build_inference(tmp_path / "run", Inference(layers=3, modelled=True))
    console = Console(width=100, record=True, file=(tmp_path / "out").open("w"))
    console.print(run_summary(run))
    assert console.export_text().count("MODELLED energy") >= 4


def test_the_figures_for_print(tmp_path: Path) -> None:
    """The four sheets of an inference are drawn with all panels, with text that can be read."""
    found = {one.stem: one for one in sheets(source(build_inference(tmp_path / "run", Inference(layers=3))))}
    assert list(found)[-4:] == FOUR
    for stem, panels in zip(FOUR, (2, 2, 1, 2), strict=True):
        sheet = found[stem]
        assert isinstance(sheet, Sheet)
        assert len(sheet.panels) == panels
        svg = draw(sheet, "paper")
        assert "NaN" not in svg
        assert not re.search(r">\d+e[+-]?\d+<", svg)


def test_figures_of_parts_that_are_not_there_are_not_made(tmp_path: Path) -> None:
    """GIVEN a modelled run without alternatives and with one context, THEN only energy per token is drawn."""
    shape = Inference(layers=3, modelled=True, contexts=(1024,), alternatives=False)
    found = [one.stem for one in sheets(source(build_inference(tmp_path / "run", shape)))]
    assert [stem for stem in found if stem in FOUR] == ["energy_per_token"]
    sheet = next(one for one in sheets(source(load_run(tmp_path / "run"))) if one.stem == "energy_per_token")
    assert isinstance(sheet, Sheet)
    assert any("MODELLED" in note for note in sheet.notes)


def test_a_run_of_decode_steps_alone_renders(tmp_path: Path) -> None:
    """GIVEN no prefill, THEN the first decode step is the page's own profile."""
    run = build_inference(tmp_path / "run", Inference(layers=2, prefill=False, contexts=(64,)))
    data = report_data(run)
    assert data.headline[0].label == "Energy per decode step at 64 tokens"
    assert "Energy per decode step at 64 tokens" in render(run)


def test_a_generation_without_a_profile_renders(tmp_path: Path) -> None:
    """GIVEN a run of which only the generation was measured, THEN its rates are the headline."""
    run = build_inference(tmp_path / "run", Inference(layers=2))
    (run.path / schema.ENERGY_FILE).unlink()
    run = load_run(run.path)
    assert "Energy per generated token" in [metric.label for metric in report_data(run).headline]
    assert '<section id="generation"' in render(run)


def test_an_interval_that_reaches_zero_is_drawn_on_a_logarithmic_axis() -> None:
    """GIVEN a wide interval on a logarithmic axis, THEN it is drawn from the lower end of the axis."""
    wide = [GrowthPoint(CORE, at, Interval(2.0, -5.0, 9.0)) for at in (16, 256)]
    whole = [GrowthPoint(STEP, at, Interval(130.0, 120.0, 140.0)) for at in (16, 256)]
    found = Growth([16, 256], [CORE], wide, whole, cache="", said=[], modelled=False)
    specification = theme.spec(growth_chart.growth(found, "said", "Energy"))
    scale = specification["layer"][0]["encoding"]["y"]["scale"]
    assert scale["type"] == "log"
    drawn = [row for values in specification["datasets"].values() for row in values if row["group"] == CORE]
    for row in drawn:
        assert scale["domain"][0] <= row["low"] < row["value"] < row["high"] == 9.0
    assert all("transform" not in layer or "null" in str(layer["transform"]) for layer in specification["layer"])


@pytest.mark.parametrize(
    ("values", "limits", "expected"),
    [
        ([1.0, 100.0], [0.9, 110.0], (0.9, 110.0)),
        ([1.0, 100.0], [-3.0, 110.0], (0.5, 110.0)),
        ([1.0, 100.0], [1e-6, None], (0.05, 100.0)),
    ],
)
def test_a_logarithmic_axis_has_room_for_what_it_cuts(
    values: list[float], limits: list[float | None], expected: tuple[float, float]
) -> None:
    """The axis holds values and limits; below a tenth of the smallest value, and at 0, intervals are cut off."""
    assert theme.log_domain(values, limits) == pytest.approx(expected)
    assert theme.on_log(-1.0, expected) == expected[0]
    assert theme.on_log(None, expected) is None


def test_glue_and_what_is_unexplained_are_never_cut(tmp_path: Path) -> None:
    """GIVEN more kinds than the terminal has rows for, THEN only components are folded, and their sum is there."""
    console = Console(width=200, record=True, file=io.StringIO())
    run = build_inference(tmp_path / "run")
    console.print(run_summary(run))
    table = console.export_text().partition("By kind of component")[2].partition("Largest components")[0]
    energy = report_data(run).energy
    assert energy is not None
    components = [entry for entry in energy.kinds if entry.role == "component"]
    assert len(components) > MOST_KINDS
    assert f"{len(components) - MOST_KINDS} more kind" in table
    for entry in energy.kinds:
        if entry.role != "component":
            assert re.search(rf"^ ?{entry.kind} ", table, re.MULTILINE)


def test_modelled_stands_once_above_the_advice(tmp_path: Path) -> None:
    """GIVEN a modelled run, THEN the list says so at its head and not on every line; the banner allows for it."""
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(run_summary(build_inference(tmp_path / "run", Inference(modelled=True))))
    said = console.export_text()
    assert said.count("MODELLED (time x stated watts)") == 1
    assert "no advice follows" not in said
    assert "advice on joules is advice on time" in said


def test_a_step_of_the_model_alone_says_where_it_stands(tmp_path: Path) -> None:
    """GIVEN the model alone at the middle of the generation, THEN both tables of moments say what it is."""
    run = build_inference(tmp_path / "run", Inference(step_as_scene=True))
    data = report_data(run)
    assert [scene.middle for scene in data.scenes] == [False] * 4 + [True]
    assert scene_table(data.scenes).rows[-1][0].endswith(": the middle of the traced generation")
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(run_summary(run))
    said = console.export_text()
    assert "the middle of" in said
    assert max(len(line) for line in said.splitlines()) <= 80
