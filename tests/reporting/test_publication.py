"""Publication figures: physical sizes, readable text, and what has to be said in them."""

from __future__ import annotations

import json
import re
import struct
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pandas as pd
import pytest
import vl_convert
from benchmark_builder import Bench
from hypothesis import given
from hypothesis import strategies as st
from run_builder import Shape, build_run

from energyscope.errors import UsageError
from energyscope.notes import NOT_ITS_KERNELS
from energyscope.reporting.charts.comparison import Compared, side_by_side
from energyscope.reporting.data.benchmark_words import FOREIGN
from energyscope.reporting.publication import labels, lettering, pairs
from energyscope.reporting.publication.by_type import mean_interval
from energyscope.reporting.publication.comparative import comparative
from energyscope.reporting.publication.costliest import costliest
from energyscope.reporting.publication.drawing import draw
from energyscope.reporting.publication.files import Options, encoded, write_figures
from energyscope.reporting.publication.sheet import DOUBLE, SINGLE, Missing, Sheet
from energyscope.reporting.publication.sheets import sheets
from energyscope.reporting.publication.source import source
from energyscope.reporting.publication.specs import specification
from energyscope.runs import schema
from energyscope.runs.intervals import Interval
from energyscope.runs.store import Run, RunStore, load_run
from energyscope.runs.tree import energy_tree
from energyscope.stages.correlate import correlate

SIX = [
    "benchmark_overview", "speed_accuracy_tradeoff", "per_layer_energy_analysis", "prediction_impact_by_type",
    "energy_vs_impact_scatter", "energy_impact_correlation_matrix",
]  # fmt: skip
SVG = lettering.SVG
LEAST_FONT = 6.8  # points


def complete(path: Path, shape: Shape | None = None, **sections) -> Run:
    """Make a run with everything that figures show: benchmark, quantization beside removal, and the matrix."""
    run = build_run(path, shape or Shape(layers=3, benchmark=True), **sections)
    assert run.impact is not None
    assert run.energy is not None
    quantized = run.impact[run.impact["method"] == "zero"].assign(method="int8")
    for name in ("value", "ci_low", "ci_high"):
        quantized[name] *= 1e-3
    impact = pd.concat([run.impact, quantized], ignore_index=True)
    impact.to_csv(path / schema.IMPACT_FILE, index=False)
    run = load_run(path)
    assert run.energy is not None
    assert run.impact is not None
    RunStore.open(path).write_json(schema.CORRELATION_FILE, correlate(run.energy, run.impact))
    return load_run(path)


def drawn(run: Run, theme: str = "paper") -> dict[str, str]:
    found = sheets(source(run))
    return {one.stem: draw(one, theme) for one in found if isinstance(one, Sheet)}


def parsed(svg: str | bytes) -> ET.Element:
    return ET.fromstring(svg)  # noqa: S314 - our own


def texts(svg: str) -> list[str]:
    return ["".join(element.itertext()) for element in parsed(svg).iter(f"{{{SVG}}}text")]


def font_sizes(element: ET.Element, scale: float = 1.0) -> list[float]:
    """Return the font sizes of all visible texts, in the picture's own units."""
    if found := re.search(r"scale\(([\d.]+)\)", element.attrib.get("transform", "")):
        scale *= float(found[1])
    own = []
    if element.tag == f"{{{SVG}}}text" and element.attrib.get("opacity") != "0":
        own = [float(element.attrib["font-size"].removesuffix("px")) * scale]
    return own + [size for child in element for size in font_sizes(child, scale)]


def test_a_complete_run_has_six_figures(tmp_path):
    """GIVEN a run of all stages, THEN six sheets are drawn, with all panels, each a column wide or two."""
    run = complete(tmp_path / "run")
    found = sheets(source(run))
    assert [one.stem for one in found] == SIX
    assert [one for one in found if isinstance(one, Missing)] == []
    assert [len(one.panels) for one in found] == [6, 1, 4, 4, 1, 1]
    assert {one.width for one in found} == {SINGLE, DOUBLE}
    assert [one.left_out for one in found] == [[]] * 6


@pytest.mark.parametrize("theme", ["paper", "light", "dark"])
def test_text_can_be_read_at_column_width(tmp_path, theme):
    """No text is smaller than 6.8 points, no tick is written 5e+2, and no two panels share an id."""
    for stem, svg in drawn(complete(tmp_path / "run"), theme).items():
        root = parsed(svg)
        assert float(root.attrib["width"]) in {SINGLE, DOUBLE}
        assert min(font_sizes(root)) >= LEAST_FONT, stem
        assert [text for text in texts(svg) if re.search(r"\de[+-]?\d|NaN|undefined", text)] == []
        ids = [element.attrib["id"] for element in root.iter() if "id" in element.attrib]
        assert len(ids) == len(set(ids))
        used = set(re.findall(r"url\(#([^)]+)\)", svg))
        assert used <= set(ids)


def test_files_have_their_physical_size(tmp_path):
    """A sheet of 510 points is 510/72 inches wide as PNG, SVG and PDF, whatever the resolution."""
    svg = drawn(complete(tmp_path / "run"))["benchmark_overview"]
    for dpi in (72, 300):
        png = encoded(svg, "png", dpi)
        width = struct.unpack(">I", png[16:20])[0]
        assert abs(width - DOUBLE * dpi / 72) <= 1
        per_metre = struct.unpack(">I", png[png.index(b"pHYs") + 4 :][:4])[0]
        assert abs(per_metre * 0.0254 - dpi) < 0.5
    assert re.search(rb"/MediaBox ?\[0 0 510 ", encoded(svg, "pdf", 300))
    root = parsed(encoded(svg, "svg", 300))
    assert root.attrib["width"] == "510pt"
    assert root.attrib["viewBox"].startswith("0 0 510 ")


def test_modelled_energy_says_so_in_every_figure_that_shows_it(tmp_path):
    """GIVEN modelled joules, THEN every figure that shows some says MODELLED; else none does."""
    modelled = drawn(complete(tmp_path / "modelled", Shape(layers=2, modelled=True, benchmark=True)))
    measured = drawn(complete(tmp_path / "measured"))
    said = {stem: any("MODELLED" in text for text in texts(svg)) for stem, svg in modelled.items()}
    assert said == {stem: stem not in {"prediction_impact_by_type", "speed_accuracy_tradeoff"} for stem in SIX}
    assert not any("MODELLED" in text for svg in measured.values() for text in texts(svg))


def test_random_weights_are_said_and_leave_figures_out(tmp_path):
    """GIVEN random weights, THEN the energy figures say so, and the others are left out with the reason."""
    shape = Shape(layers=2, impact=False, benchmark=Bench(metric=None))
    run = build_run(tmp_path / "run", shape, model={"weights": "random"})
    found = {one.stem: one for one in sheets(source(run))}
    missing = {stem: one.reason for stem, one in found.items() if isinstance(one, Missing)}
    assert sorted(missing) == sorted(set(SIX) - {"benchmark_overview", "per_layer_energy_analysis"})
    assert all("random" in reason or "no impact" in reason for reason in missing.values())
    overview = found["benchmark_overview"]
    assert isinstance(overview, Sheet)
    assert len(overview.panels) == 5
    assert "random" in overview.left_out[0]
    for svg in drawn(run).values():
        assert any(text.startswith("RANDOM WEIGHTS") for text in texts(svg))


def test_the_correlation_stands_in_the_scatter(tmp_path):
    """The coefficients written in the figure are those of correlation.json, with their limits."""
    run = complete(tmp_path / "run")
    document = json.loads((run.path / schema.CORRELATION_FILE).read_text())
    entry = next(
        one
        for one in document["correlations"]
        if (one["x"], one["y"], one["method"]) == ("energy_mj", document["impact"], "spearman")
    )
    numbers = [f"{entry[key]:+.2f}".replace("-", "\u2212") for key in ("value", "ci_low", "ci_high")]
    said = next(text for text in texts(drawn(run)["energy_vs_impact_scatter"]) if text.startswith("Spearman"))
    assert said == f"Spearman {numbers[0]} [{numbers[1]}, {numbers[2]}], n = {entry['n']}"


def test_hostile_names_are_only_text(tmp_path):
    """GIVEN names that are markup and control characters, THEN the figures hold them as text."""
    evil = "</text><script>alert(1)</script>&\"'\x00\x1b[31m ]]> \u65e5\u672c"
    path = tmp_path / "run"
    run = build_run(path, Shape(layers=2), model={"name": evil + "\ud800"})
    assert run.energy is not None
    run.energy["kind"] = run.energy["kind"].replace({"mlp.up": evil, "attention": "x" * 400})
    for svg in drawn(run).values():
        root = parsed(svg)
        tags = {element.tag.removeprefix(f"{{{SVG}}}") for element in root.iter()}
        assert tags <= {"svg", "title", "rect", "g", "path", "text", "line", "defs", "clipPath", "linearGradient",
                        "stop", "tspan"}  # fmt: skip
        assert encoded(svg, "png", 72).startswith(b"\x89PNG")
    assert any("<script>" in text for text in texts(drawn(run)["per_layer_energy_analysis"]))


def test_components_that_share_a_measurement_are_one_entry(tmp_path):
    """GIVEN sub-components measured as means over four layers, THEN each is listed once, the largest first."""
    run = build_run(tmp_path / "run", Shape(layers=4, impact=False))
    assert run.energy is not None
    found = costliest(energy_tree(run.energy))
    names = [entry.label for entry in found]
    assert names[:2] == ["lm_head", "mlp.up (each of 4)"]
    assert len(set(names)) == len(names) == 10
    sizes = [entry.energy.value for entry in found]
    assert sizes == sorted(sizes, reverse=True)
    assert any(re.fullmatch(r"norm \(ln_\d\), layer \d", name) for name in names)


def test_two_models_side_by_side(tmp_path):
    """GIVEN two complete runs, THEN seven panels are drawn, and each model has its key and its own baseline."""
    one, other = complete(tmp_path / "one"), complete(tmp_path / "other", model={"name": "distilbert"})
    sheet = comparative(source(one), source(other))
    assert isinstance(sheet, Sheet)
    assert [key.name for key in sheet.keys] == ["tiny-gpt2", "distilbert"]
    assert (len(sheet.panels), sheet.left_out) == (7, [])
    said = texts(draw(sheet, "paper"))
    assert {"Energy relative to own FP32", "Speed relative to own FP32", "Batch 1, 128 tokens."} <= set(said)


def swept(path: Path, weak: str | None = None, **bench) -> Run:
    """Make a run of two batch sizes and lengths; ``weak`` is a precision whose energies are below grade C."""
    bench = {"batch_sizes": (1, 8), "lengths": (32, 128), **bench}
    run = build_run(path, Shape(layers=2, impact=False, benchmark=Bench(**bench)))
    assert run.benchmark is not None
    for cell in run.benchmark["cells"]:
        cell["quality"] = "invalid" if cell["precision"] == weak else cell["quality"]
    return run


def test_several_batch_sizes_and_lengths_have_their_figure(tmp_path):
    """GIVEN two of each, THEN latency, energy and tokens/J are drawn over both, with one legend of all panels."""
    found = {one.stem: one for one in sheets(source(swept(tmp_path / "run", weak="int8")))}
    sheet, overview = found["benchmark_sweep"], found["benchmark_overview"]
    assert isinstance(sheet, Sheet)
    assert isinstance(overview, Sheet)
    assert [len(row) for row in sheet.rows] == [3, 3]
    assert [key.name for key in sheet.keys] == ["FP32", "FP16", "BF16", "INT8"]
    assert len({key.shape for key in sheet.keys}) == 4
    said = texts(draw(sheet, "paper"))
    assert {"Energy by length", "32 tokens.", "Batch 1."} <= set(said)
    assert said.count("INT8") == 1  # no panel has a legend of its own
    assert "Without 3 energies below grade C." in sheet.notes[-1]
    assert overview.left_out == ["shows batch 1, 32 tokens, the first of 4 combinations; see benchmark_sweep"]


def test_a_shape_of_a_precision_is_the_same_in_all_panels(tmp_path):
    """GIVEN a first precision without energy, THEN the others' marks are the same with energy and without."""
    sheet = next(
        one for one in sheets(source(swept(tmp_path / "run", weak="fp32"))) if one.stem == "benchmark_sweep"
    )
    assert isinstance(sheet, Sheet)
    scales = [specification(panel.chart, 250, None, "#fff")["layer"][-2:] for panel in sheet.panels]
    shapes = [[layer["encoding"]["shape"]["scale"] for layer in layers if "shape" in layer["encoding"]]
              for layers in scales]  # fmt: skip
    assert all(one == shapes[0] and one for one in shapes)


def test_times_that_are_not_the_kernels_are_marked(tmp_path):
    """GIVEN INT8 without its library's kernels, THEN the sweep marks its name, and the comparison says so."""
    run, other = swept(tmp_path / "run"), swept(tmp_path / "other")
    assert run.benchmark is not None
    model = next(entry for entry in run.benchmark["models"] if entry["precision"] == "int8")
    model["notes"] = [NOT_ITS_KERNELS]
    one = source(run)
    sheet = next(found for found in sheets(one) if found.stem == "benchmark_sweep")
    assert isinstance(sheet, Sheet)
    assert [key.name for key in sheet.keys] == ["FP32", "FP16", "BF16", "INT8 *"]
    assert sum(FOREIGN in text for text in texts(draw(sheet, "paper"))) == len(sheet.panels)
    compared = comparative(one, source(other))
    assert isinstance(compared, Sheet)
    assert any("INT8: its time and energy are not" in note for note in compared.notes)


def test_one_shape_has_no_sweep(tmp_path):
    """GIVEN one batch size and length, THEN there are six figures, and none says which shape it shows."""
    found = sheets(source(complete(tmp_path / "run")))
    assert [one.stem for one in found] == SIX
    assert not any("combinations" in said for one in found if isinstance(one, Sheet) for said in one.left_out)


def test_captions_explain_only_what_is_drawn(tmp_path):
    """GIVEN energies below grade C, THEN quality against speed, which shows none, does not speak of them."""
    run = swept(tmp_path / "run", weak="int8")
    found = {one.stem: one for one in sheets(source(run)) if isinstance(one, Sheet)}
    assert "Hollow" in found["benchmark_overview"].notes[-1]
    assert "Hollow" not in found["speed_accuracy_tradeoff"].notes[-1]
    decided = complete(tmp_path / "decided")
    assert decided.correlation is not None
    scatter = next(one for one in sheets(source(decided)) if one.stem == "energy_vs_impact_scatter")
    assert isinstance(scatter, Sheet)
    data = source(decided).data.correlation
    assert data is not None
    undecided = any(point.quadrant == "undecided" for point in data.points)
    assert ("Hollow" in scatter.notes[-1]) == undecided


def test_energies_below_grade_c_are_hollow_beside_another_run(tmp_path):
    """Such a cell's energy and ratio are hollow; where it is the baseline, all its ratios are."""

    def weak(name: str, *, baseline: bool) -> set[str]:
        data = [source(swept(tmp_path / name, weak=name)).data.benchmark]
        found = pairs.precisions(
            data, [name], pairs.shapes(data), lambda cell: cell.energy_ratio, baseline=baseline, energy=True
        )
        return {one.item for one in found if one.invalid}

    assert weak("int8", baseline=True) == {"INT8"}
    assert weak("fp32", baseline=False) == {"FP16", "BF16", "INT8"}
    sheet = comparative(source(swept(tmp_path / "a", weak="int8")), source(swept(tmp_path / "b")))
    assert isinstance(sheet, Sheet)
    assert "Hollow: energy below grade C." in sheet.notes[-1]
    spec = specification(side_by_side([Compared("x", "a", Interval(1.0), invalid=True)], ["a"], "t", "d"),
                         300, None, "#fff")  # fmt: skip
    assert next(iter(spec["datasets"].values()))[0]["invalid"] is True


def test_ratios_begin_at_zero():
    """GIVEN ratios near 1, THEN their axis begins at 0 all the same, as that of every panel of ratios."""
    found = [Compared("x", "a", Interval(0.9)), Compared("y", "a", Interval(1.1))]
    spec = specification(side_by_side(found, ["a"], "t", "d", 1.0, from_zero=True), 300, None, "#fff")
    scales = [layer["encoding"]["x"].get("scale") for layer in spec["layer"]]
    assert {"zero": True, "nice": True} in scales


def test_panels_without_data_are_left_out_and_said(tmp_path):
    """GIVEN a second run without benchmark and impact, THEN the panel of both stays and the others are named."""
    one = complete(tmp_path / "one")
    bare = build_run(tmp_path / "bare", Shape(layers=2, impact=False, modelled=True))
    sheet = comparative(source(one), source(bare))
    assert isinstance(sheet, Sheet)
    assert [key.name for key in sheet.keys] == ["one", "bare (MODELLED energy)"]  # the models' names are the same
    assert "speed-up by precision of bare" in sheet.left_out[0]
    assert "impact by type" in sheet.left_out[0]
    assert "bare: no data." in texts(draw(sheet, "paper"))
    assert any("MODELLED" in note for note in sheet.notes)
    nothing = [replace(run, energy=None, impact=None, correlation=None, benchmark=None) for run in (one, bare)]
    assert isinstance(comparative(source(nothing[0]), source(nothing[1])), Missing)


def test_shares_of_families_are_comparable(tmp_path):
    """Query, key, value and qkv are all attention; the families and the unexplained rest make up the model."""
    kinds = ("attention.qkv", "attention.key", "lm_head", "classifier", "experts")
    assert [pairs.family(kind) for kind in kinds] == ["attention", "attention", "head", "head", "mlp"]
    run = build_run(tmp_path / "run", Shape(impact=False))
    assert run.energy is not None
    found = pairs.energy_shares([run], ["a"])
    rest = sum(node.unexplained.value for node in energy_tree(run.energy).nodes if node.unexplained)
    model = energy_tree(run.energy).model_energy
    assert model is not None
    assert sum(one.value.value for one in found) + 100 * rest / model.value == pytest.approx(100)


@given(st.lists(st.tuples(st.floats(-5, 5), st.floats(0, 3), st.floats(0, 3)), min_size=1, max_size=9))
def test_errors_over_the_same_examples_do_not_cancel(values):
    """The interval of a mean over components is as wide as theirs are on average."""
    items = [Interval(value, value - below, value + above) for value, below, above in values]
    mean = mean_interval(items)
    assert mean.low is not None
    assert mean.high is not None
    assert mean.value == pytest.approx(sum(item.value for item in items) / len(items))
    assert mean.high - mean.low == pytest.approx(sum(below + above for _, below, above in values) / len(values))


@given(st.text(max_size=120), st.floats(40, 300))
def test_lines_fit(text, room):
    """Every line fits the room, and no word is lost unless it had to be cut."""
    found = lettering.lines(text, 7.5, room)
    assert all(lettering.width(line, 7.5) <= room for line in found)
    if not any("\u2026" in line for line in found):
        assert " ".join(found).split() == text.split()


def test_what_is_written_beside_bars_gets_room():
    """GIVEN a text that would leave the panel, THEN the scale is lengthened; GIVEN one that fits, it is not."""

    def ends(said: str) -> list[float]:
        data = {"name": "d"}
        x = {"field": "edge", "scale": {"domain": [0, 10]}}
        layer = {"mark": {"type": "text", "align": "left", "dx": 7}, "data": data,
                 "encoding": {"x": {"field": "edge"}, "text": {"field": "said"}}}  # fmt: skip
        bar = {"mark": "bar", "data": data, "encoding": {"x": x, "y": {"field": "name", "type": "nominal"}}}
        spec = {"layer": [bar, layer], "datasets": {"d": [{"edge": 9.0, "said": said, "name": "a"}]}}
        labels.make_room(spec, 250)
        return x["scale"]["domain"]

    assert ends("1") == [0, 10]
    assert ends("123 mJ and more") == [0, pytest.approx(9 / 0.55, rel=0.15)]


def test_names_do_not_cover_each_other():
    """GIVEN two points at one place and a third far away, THEN two of the three names stay."""
    records = [{"label": name, "right": False, "x": x, "y": y, "place": "l"}
               for name, x, y in (("first", 1.0, 1.0), ("second", 1.01, 1.01), ("third", 1.0, 5.0))]  # fmt: skip
    encoding = {"x": {"field": "x"}, "y": {"field": "y"}, "text": {"field": "label"}}
    far = [{"x": 9.0, "y": 9.0}]
    spec = {"layer": [{"mark": {"type": "text"}, "data": {"name": "names"}, "encoding": encoding}],
            "datasets": {"names": records, "points": far}}  # fmt: skip
    labels.thin(spec, 400, 300)
    assert [record["label"] for record in spec["datasets"]["names"]] == ["first", "third"]


def test_axes_begin_at_zero_where_values_come_near_it():
    """A ratio of 0.3 beside one of 1.6 is drawn from zero; values of 90 to 93 are not."""
    near = [Compared("INT8", "a", Interval(0.3)), Compared("NF4", "a", Interval(1.6))]
    far = [Compared("INT8", "a", Interval(90.0)), Compared("NF4", "a", Interval(93.0))]

    def begins(found: list[Compared]) -> bool:
        spec = specification(side_by_side(found, ["a"], "t", "d"), 300, None, "#fff")
        return any(layer["encoding"]["x"].get("scale", {}).get("zero") for layer in spec["layer"])

    assert (begins(near), begins(far)) == (True, False)


@pytest.mark.parametrize(
    "bad", [{"formats": ("gif",)}, {"formats": ()}, {"dpi": 71}, {"dpi": 1201}, {"theme": "x"}]
)
def test_bad_options_are_refused(bad):
    """A format, resolution or theme that there is not is a usage error that names the choices."""
    with pytest.raises(UsageError, match=r"^--\w+ .*choose"):
        Options(**bad)


def test_nothing_is_left_half_written(tmp_path):
    """GIVEN a run written twice, THEN the directory holds exactly the figures' files."""
    run = build_run(tmp_path / "run", Shape(layers=2, impact=False))
    for _ in range(2):
        made = list(write_figures([run], tmp_path / "out", Options(("png", "pdf"), 72)))
    written = {one.path.name for one in made if one.path}
    assert written == {"per_layer_energy_analysis.png", "per_layer_energy_analysis.pdf"}
    assert {path.name for path in (tmp_path / "out").iterdir()} == written


def test_figures_are_not_replaced_unasked(tmp_path):
    """GIVEN replace=False and a figure of the same name, THEN it is named, kept, and nothing else is written."""
    run = build_run(tmp_path / "run", Shape(layers=2, impact=False))
    (tmp_path / "out").mkdir()
    old = tmp_path / "out" / "per_layer_energy_analysis.pdf"
    old.write_text("another run's")
    with pytest.raises(UsageError, match=r"per_layer_energy_analysis\.pdf exists already.*--force"):
        list(write_figures([run], tmp_path / "out", Options(("png", "pdf"), 72, replace=False)))
    assert [path.name for path in (tmp_path / "out").iterdir()] == [old.name]
    assert old.read_text() == "another run's"


def test_ticks_are_written_out():
    """Ticks of hundreds are 100 and 200, not 1e+2 and 2e+2."""
    found = [Compared(name, "a", Interval(value)) for name, value in (("x", 30.0), ("y", 390.0))]
    svg = vl_convert.vegalite_to_svg(specification(side_by_side(found, ["a"], "t", "d"), 300, None, "#fff"))
    assert "200" in texts(svg)
    assert [text for text in texts(svg) if "e+" in text] == []
