"""Publication figures: the page's charts put together at a physical size, and what has to be said on them."""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path
from xml.etree import ElementTree as ET

import pandas as pd
import pytest
from benchmark_builder import Bench
from generation_builder import Inference, build_inference
from run_builder import Shape, build_run

from energyscope import format as fmt
from energyscope import reasons
from energyscope.errors import UsageError
from energyscope.intervals import Interval
from energyscope.reporting.print.comparative import PARTS, comparative
from energyscope.reporting.print.drawing import DOUBLE_IN, SINGLE_IN, draw
from energyscope.reporting.print.files import Options, encoded, write_figures
from energyscope.reporting.print.sheets import PLANS, Panel, Sheet, sheets
from energyscope.reporting.run.report import Report
from energyscope.runs import schema
from energyscope.runs.store import Run, RunStore, load_run
from energyscope.stages.correlate import correlate

SEED = [
    "benchmark_overview", "speed_accuracy_tradeoff", "per_layer_energy_analysis", "prediction_impact_by_type",
    "energy_vs_impact_scatter", "energy_impact_correlation_matrix",
]  # fmt: skip
INFERENCE = ["generation_power_trace", "energy_per_token", "attention_by_context", "choices"]
SVG = "http://www.w3.org/2000/svg"
LEAST_PT = 6.5


def complete(path: Path, shape: Shape | None = None, **sections) -> Run:
    """Make a run with everything that figures show: benchmark, quantization beside removal, and the matrix."""
    run = build_run(
        path, shape or Shape(layers=3, benchmark=Bench(batch_sizes=(1, 8), lengths=(32, 128))), **sections
    )
    assert run.impact is not None
    quantized = run.impact[run.impact["method"] == "zero"].assign(method="int8")
    for name in ("value", "ci_low", "ci_high"):
        quantized[name] *= 1e-3
    pd.concat([run.impact, quantized], ignore_index=True).to_csv(path / schema.IMPACT_FILE, index=False)
    run = load_run(path)
    assert run.energy is not None
    assert run.impact is not None
    RunStore.open(path).write_json(schema.CORRELATION_FILE, correlate(run.energy, run.impact))
    return load_run(path)


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Run:
    return complete(tmp_path_factory.mktemp("print") / "run")


@pytest.fixture(scope="module")
def run_sheets(run) -> dict[str, Sheet]:
    return {sheet.stem: sheet for sheet in sheets(Report(run))}


@pytest.fixture(scope="module")
def drawn(run_sheets) -> dict[str, str]:
    return {stem: draw(sheet, "paper") for stem, sheet in run_sheets.items() if sheet.rows}


def parsed(svg: str | bytes) -> ET.Element:
    return ET.fromstring(svg)  # noqa: S314 - our own


def texts(svg: str) -> list[str]:
    """Return the lines of text of a picture."""
    lines = []
    for element in parsed(svg).iter(f"{{{SVG}}}text"):
        spans = list(element.iter(f"{{{SVG}}}tspan"))
        lines += ["".join(part.itertext()) for part in spans or [element]]
    return lines


def panels(sheet: Sheet) -> list[Panel]:
    return [panel for row in sheet.rows for panel in row if panel is not None]


def sizes_pt(svg: str) -> list[float]:
    """Return the font sizes of all visible texts, in points."""
    root = parsed(svg)
    scale = float(root.attrib["width"]) / float(root.attrib["viewBox"].split()[2])
    shown = (text for text in root.iter(f"{{{SVG}}}text") if text.attrib.get("opacity") != "0")
    return [float(text.attrib["font-size"].removesuffix("px")) * scale for text in shown]


def test_a_complete_run_has_the_figures_of_the_seed_study(run, run_sheets):
    """GIVEN a run of all stages, THEN each figure of the study has its panels: every metric of impact has one."""
    metrics = run.impact["metric"].nunique()
    counts = {stem: len(panels(run_sheets[stem])) for stem in [*SEED, "benchmark_sweep"]}
    assert counts == dict(zip(SEED, [6, 2, 3, metrics, 1, 1], strict=True)) | {"benchmark_sweep": 6}
    assert not [stem for stem in SEED[1:] if stem not in run_sheets]
    assert {stem for stem, sheet in run_sheets.items() if not sheet.rows} == set(INFERENCE) - {"choices"}


def test_a_generation_has_its_own_figures(tmp_path):
    """GIVEN a traced generation with alternatives, THEN its four figures are drawn, one panel for each phase."""
    report = Report(build_inference(tmp_path / "run", Inference(layers=2)))
    made = {sheet.stem: sheet for sheet in sheets(report)}
    assert all(made[stem].rows for stem in INFERENCE)
    titles = [panel.title for panel in panels(made["choices"])]
    assert [title.rpartition(": ")[2] for title in titles] == ["decode", "prefill"]
    assert draw(made["attention_by_context"], "dark").startswith("<svg")


def test_what_is_left_out_has_a_reason_of_the_catalogue(tmp_path):
    """GIVEN a run without results, THEN every figure has a code that says why; so has every panel left out."""
    bare = sheets(Report(build_run(tmp_path / "bare", Shape(profile=False, impact=False))))
    assert [sheet.stem for sheet in bare] == [plan.stem for plan in PLANS]
    assert {plan.otherwise for plan in PLANS} <= set(reasons.WORDS)
    assert all(reasons.read(str(sheet.reason)).code for sheet in bare if not sheet.rows)
    random = build_run(
        tmp_path / "random",
        Shape(layers=2, impact=False, benchmark=Bench(metric=None)),
        model={"weights": "random"},
    )
    made = {sheet.stem: sheet for sheet in sheets(Report(random))}
    assert len(panels(made["benchmark_overview"])) == 5
    assert reasons.read(str(made["benchmark_overview"].reason)).code == "without-panels"
    assert made["speed_accuracy_tradeoff"].reason == (random.benchmark or {})["predictions_reason"]


def test_a_sheet_is_as_wide_as_its_column_and_its_text_can_be_read(run_sheets, drawn):
    """No text is smaller than 6.5 points or cut off, no tick says NaN, and all lies on the sheet."""
    for stem, svg in drawn.items():
        root = parsed(svg)
        inches = DOUBLE_IN if run_sheets[stem].wide else SINGLE_IN
        assert float(root.attrib["width"]) == pytest.approx(72 * inches, abs=0.1), stem
        assert min(sizes_pt(svg)) >= LEAST_PT, stem
        assert not [line for line in texts(svg) if "NaN" in line or "undefined" in line or line.endswith("\u2026")]
        assert 700 < float(root.attrib["viewBox"].split()[2]) < 860 or not run_sheets[stem].wide, stem


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_other_themes_keep_the_size(run_sheets, drawn, theme):
    """GIVEN another theme, THEN a sheet has another paper, and the same size and texts."""
    svg = draw(run_sheets["benchmark_overview"], theme)
    paper = drawn["benchmark_overview"]
    assert parsed(svg).attrib["viewBox"] == parsed(paper).attrib["viewBox"]
    assert texts(svg) == texts(paper)
    assert re.findall(r'fill="(#\w+)"', svg)[0] == {"light": "#ffffff", "dark": "#14181d"}[theme]


def test_files_have_their_physical_size(drawn):
    """A sheet of 7.16 inches is as wide as PNG, SVG and PDF, whatever the resolution."""
    svg = drawn["benchmark_overview"]
    for dpi in (72, 300):
        png = encoded(svg, "png", dpi)
        assert abs(struct.unpack(">I", png[16:20])[0] - DOUBLE_IN * dpi) <= 1
        per_metre = struct.unpack(">I", png[png.index(b"pHYs") + 4 :][:4])[0]
        assert abs(per_metre * 0.0254 - dpi) < 0.5
    box = re.search(rb"/MediaBox ?\[0 0 ([\d.]+) ", encoded(svg, "pdf", 300))
    assert box is not None
    assert float(box[1]) == pytest.approx(DOUBLE_IN * 72, abs=0.1)
    assert parsed(encoded(svg, "svg", 300)).attrib["width"].endswith("pt")


def test_modelled_and_random_stand_on_every_figure_that_they_concern(run, run_sheets, tmp_path):
    """GIVEN modelled joules and random weights, THEN each figure with joules says so, and measured ones not."""
    shape = Shape(layers=2, modelled=True, benchmark=Bench(modelled=True))
    modelled = sheets(Report(build_run(tmp_path / "modelled", shape, model={"weights": "random"})))
    for sheet in (sheet for sheet in modelled if sheet.rows):
        notes = " ".join(sheet.notes)
        assert ("MODELLED" in notes) == (sheet.stem != "prediction_impact_by_type")
        assert "RANDOM WEIGHTS" in notes
    assert not any("MODELLED" in note or "RANDOM" in note for sheet in run_sheets.values() for note in sheet.notes)
    assert all("95 %" in " ".join(run_sheets[stem].notes) for stem in SEED[:5])


def test_the_correlation_stands_in_the_scatter(run, drawn):
    """The coefficients written in the figure are those of correlation.json, with their limits."""
    document = json.loads((run.path / schema.CORRELATION_FILE).read_text())
    entry = next(
        entry
        for entry in document["correlations"]
        if (entry["x"], entry["y"], entry["method"]) == ("energy_mj", document["impact"], "spearman")
    )
    value = fmt.measured(Interval(entry["value"], entry["ci_low"], entry["ci_high"]))
    assert f"Spearman {value}, n = {entry['n']}" in texts(drawn["energy_vs_impact_scatter"])


def test_one_legend_is_that_of_all_panels(drawn):
    """GIVEN six panels of four precisions, THEN each precision is named once."""
    lines = texts(drawn["benchmark_sweep"])
    assert [lines.count(name) for name in ("FP32", "FP16", "BF16", "INT8")] == [1, 1, 1, 1]


def test_hostile_names_are_only_text(tmp_path):
    """GIVEN names that are markup and control characters, THEN the figures hold them as text."""
    evil = "</text><script>alert(1)</script>&\"'\x00\x1b[31m ]]> \u65e5\u672c"
    run = build_run(tmp_path / "run", Shape(layers=2), model={"name": evil + "\ud800"})
    assert run.energy is not None
    run.energy["kind"] = run.energy["kind"].replace({"mlp.up": evil, "attention": "x" * 400})
    energy = next(sheet for sheet in sheets(Report(run)) if sheet.stem == "per_layer_energy_analysis")
    both = comparative(Report(run), Report(build_run(tmp_path / "other", Shape(layers=2))))
    for sheet in (energy, both):
        svg = draw(sheet, "paper")
        tags = {element.tag.rpartition("}")[2] for element in parsed(svg).iter()}
        assert not {"script", "image", "foreignObject"} & tags
        assert encoded(svg, "png", 72).startswith(b"\x89PNG")


def test_two_models_side_by_side(run, tmp_path):
    """GIVEN two complete runs, THEN every subject is a panel, and a run has one colour in all of them."""
    other = complete(tmp_path / "other", model={"name": "distilbert"})
    sheet = comparative(Report(run), Report(other))
    assert [panel.title for panel in panels(sheet)] == [part.title for part in PARTS]
    assert sheet.reason is None
    lines = texts(draw(sheet, "paper"))
    assert [lines.count(name) for name in ("tiny-gpt2", "distilbert")] == [1, 1]


def test_what_one_of_two_runs_lacks_is_said(run, tmp_path):
    """GIVEN a run without impact, THEN its panel shows the other alone and the reason names the run."""
    other = build_run(tmp_path / "other", Shape(layers=2, impact=False), model={"name": "distilbert"})
    sheet = comparative(Report(run), Report(other))
    lacking = [read for read in reasons.split(sheet.reason) if read.code == "without-panels"]
    values = dict(lacking[0].values)
    assert "distilbert" in reasons.words(values["why"])
    assert len(values["panels"]) == 6  # impact, four of precisions, and energy with impact
    empty = build_run(tmp_path / "empty", Shape(profile=False, impact=False))
    assert not comparative(Report(empty), Report(empty)).rows


@pytest.mark.parametrize("options", [{"formats": ("gif",)}, {"formats": ()}, {"dpi": 9}, {"theme": "pink"}])
def test_bad_options_are_refused(options):
    """An option that cannot be met is refused before anything is drawn."""
    with pytest.raises(UsageError):
        Options(**options)


def test_a_figure_that_cannot_be_drawn_says_so(run, tmp_path, monkeypatch):
    """GIVEN a library that refuses a chart, THEN the figure is left out with the error, and no file is left."""
    import vl_convert

    def refuse(*_, **__):
        raise ValueError("no")

    monkeypatch.setattr(vl_convert, "vegalite_to_svg", refuse)
    made = list(write_figures([run], tmp_path / "out", Options()))
    assert not any(figure.path for figure in made)
    assert {reasons.read(str(figure.reason)).code for figure in made} >= {"cannot-be-drawn"}
    assert list((tmp_path / "out").iterdir()) == []
