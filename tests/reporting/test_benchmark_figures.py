from __future__ import annotations

import itertools
import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from benchmark_builder import PRECISIONS, Bench
from hypothesis import given
from hypothesis import strategies as st
from run_builder import Shape, build_run

from energyscope.notes import NOT_ITS_KERNELS
from energyscope.reporting.benchmark_figures import benchmark_figures
from energyscope.reporting.charts import theme
from energyscope.reporting.charts.benchmark import Bar, bars
from energyscope.reporting.charts.benchmark_plane import Spot, _box, _placed, plane
from energyscope.reporting.data.benchmark import Prediction, benchmark_data
from energyscope.reporting.data.benchmark_words import CLIPPED
from energyscope.reporting.figure import Figure
from energyscope.reporting.html import render
from energyscope.reporting.quality_figures import drawn_quality
from energyscope.runs.intervals import Interval

SMALL = ["latency", "speedup", "energy", "throughput", "quality", "size"]
COLUMN_PT = 165


def _figures(path: Path, bench: Bench | None = None, **shape: Any) -> dict[str, Figure]:
    run = build_run(path / "run", Shape(layers=1, impact=False, benchmark=bench or Bench(), **shape))
    return {figure.name: figure for figure in benchmark_figures(benchmark_data(run))}


def _records(figure: Figure) -> list[dict[str, Any]]:
    return [record for values in theme.spec(figure.chart)["datasets"].values() for record in values]


def _labels(figure: Figure) -> dict[str, str]:
    return {record["title"]: record["label"] for record in _records(figure) if "label" in record}


BENCHES = {
    "plain": (Bench(), {}, [*SMALL, "tradeoff"]),
    "accuracy": (Bench(metric="accuracy", precisions=tuple(PRECISIONS), no_energy=("nf4",)), {},
                 [*SMALL, "tradeoff"]),
    "random": (Bench(metric=None), {}, [*(name for name in SMALL if name != "quality"), "tradeoff"]),
    "modelled": (Bench(), {"modelled": True}, [*SMALL, "tradeoff"]),
    "single trial": (Bench(trials=1), {}, [*SMALL, "tradeoff"]),
    "alone": (Bench(precisions=("fp16",), baseline=None), {},
              ["latency", "energy", "throughput", "quality", "size"]),
    "sweep": (Bench(batch_sizes=(1, 8), lengths=(32, 128)), {},
              [*SMALL, "tradeoff", "sweep-batch-latency", "sweep-batch-tokens-per-joule", "sweep-length-latency",
               "sweep-length-tokens-per-joule"]),
}  # fmt: skip


@pytest.mark.parametrize("name", BENCHES)
def test_every_chart_becomes_a_picture_at_column_width(tmp_path: Path, name: str) -> None:
    """GIVEN any benchmark, THEN each chart that it allows renders at a third of a page without a NaN."""
    import vl_convert

    bench, shape, expected = BENCHES[name]
    drawn = _figures(tmp_path, bench, **shape)
    assert list(drawn) == [f"benchmark-{one}" for one in expected]
    for figure in drawn.values():
        assert figure.chart.to_dict(validate=True)
        spec = {**theme.spec(figure.chart), "width": COLUMN_PT}
        svg = vl_convert.vegalite_to_svg(spec, config=theme.config("dark"), vl_version="6.1")
        assert svg.count("<path") > 2, figure.name
        assert "NaN" not in svg
        assert figure.table.rows
        assert all(len(row) == len(figure.table.columns) for row in figure.table.rows)


def test_an_interval_without_a_lower_limit_says_so(tmp_path: Path) -> None:
    """GIVEN limits below 0, THEN captions explain whiskers at 0, words give the upper limit, no axis has a NaN."""
    import vl_convert

    bench = Bench(batch_sizes=(1, 64, 4096))
    run = build_run(tmp_path / "run", Shape(layers=1, impact=False, benchmark=bench))
    plain = {figure.name: figure for figure in benchmark_figures(benchmark_data(run))}
    assert run.benchmark is not None
    for cell in run.benchmark["cells"]:
        for name in ("latency_s", "energy_mj"):
            scale = cell["batch_size"]  # so that the axis of latencies is logarithmic
            cell[name] = {"value": 0.02 * scale, "low": -0.035 * scale, "high": 0.075 * scale}
    drawn = {figure.name: figure for figure in benchmark_figures(benchmark_data(run))}
    for name in ("latency", "energy", "tradeoff", "sweep-batch-latency"):
        figure = drawn[f"benchmark-{name}"]
        assert figure.caption.endswith(CLIPPED), name
        assert CLIPPED not in plain[f"benchmark-{name}"].caption
        assert any("[up to " in cell for row in figure.table.rows for cell in row), name
        spec = {**theme.spec(figure.chart), "width": COLUMN_PT}
        svg = vl_convert.vegalite_to_svg(spec, config=theme.config("dark"), vl_version="6.1")
        assert not re.search("NaN|Infinity", svg), name
    lows = [record["low"] for record in _records(drawn["benchmark-sweep-batch-latency"]) if "low" in record]
    assert min(lows) > 0, "a logarithmic axis has no 0"


def test_nothing_is_drawn_of_nothing() -> None:
    """A run without a benchmark has no figure of it."""
    assert benchmark_figures(None) == []


def test_energy_bars_split_where_the_parts_are_known(tmp_path: Path) -> None:
    """GIVEN measured energy, THEN each bar is a solid part and a pale one that touch; modelled, one part."""
    parts = [record for record in _records(_figures(tmp_path)["benchmark-energy"]) if "start" in record]
    fp16 = [part for part in parts if part["title"] == "FP16"]
    assert [part["start"] for part in fp16] == [0.0, fp16[0]["end"]]
    assert fp16[0]["fill"] > fp16[1]["fill"]
    whole = _records(_figures(tmp_path / "modelled", modelled=True)["benchmark-energy"])
    assert sum("start" in record for record in whole) == 4


def test_modelled_joules_are_called_so_on_the_axes(tmp_path: Path) -> None:
    """GIVEN a modelled run, THEN each axis that shows joules says modelled, and no other does."""
    drawn = _figures(tmp_path, Bench(metric=None, batch_sizes=(1, 8)), modelled=True)
    said = {name: "odelled" in json.dumps(theme.spec(figure.chart)["layer"]) for name, figure in drawn.items()}
    assert {name for name, told in said.items() if told} == {
        "benchmark-energy",
        "benchmark-tradeoff",
        "benchmark-sweep-batch-tokens-per-joule",
    }
    assert drawn["benchmark-tradeoff"].title == "Modelled energy against latency"


def test_a_precision_without_energy_has_no_bar_but_a_note(tmp_path: Path) -> None:
    """GIVEN no joules for one precision, THEN it is absent from the bars, never a zero, and the note says why."""
    figure = _figures(tmp_path, Bench(no_energy=("bf16",)))["benchmark-energy"]
    assert "BF16" not in _labels(figure)
    assert figure.notes[0].startswith("BF16 has no energy: no window held five ticks")


def test_values_below_grade_c_are_hollow(tmp_path: Path) -> None:
    """GIVEN an invalid energy, THEN its bar is dashed, its label carries a dagger and the caption explains it."""
    run = build_run(tmp_path / "run", Shape(layers=1, impact=False, benchmark=True))
    assert run.benchmark is not None
    run.benchmark["cells"][1]["quality"] = "invalid"
    figure = {one.name: one for one in benchmark_figures(benchmark_data(run))}["benchmark-energy"]
    assert [title for title, label in _labels(figure).items() if label.endswith("\u2020")] == ["FP16"]
    assert "below grade C" in figure.caption


def test_intervals_are_drawn_only_where_they_are_known(tmp_path: Path) -> None:
    """GIVEN one trial, THEN the latency chart has a layer less than with five."""
    five, one = (_figures(tmp_path / str(count), Bench(trials=count))["benchmark-latency"] for count in (5, 1))
    assert len(theme.spec(five.chart)["layer"]) == len(theme.spec(one.chart)["layer"]) + 1


def test_a_speed_up_is_read_against_one(tmp_path: Path) -> None:
    """The dashed line of the speed-ups is at 1, those of the others at the baseline's value."""
    drawn = _figures(tmp_path)
    marks = {name: [r["mark"] for r in _records(figure) if "mark" in r] for name, figure in drawn.items()}
    assert marks["benchmark-speedup"] == [1.0]
    assert marks["benchmark-latency"][0] == pytest.approx(2.94, rel=0.01)
    assert marks["benchmark-tradeoff"] == []


def test_labels_move_beyond_a_line_that_they_would_meet(tmp_path: Path) -> None:
    """GIVEN a bar that ends just before the baseline's line, THEN its label stands behind that line."""
    figure = _figures(tmp_path)["benchmark-speedup"]
    edges = {
        record["title"]: record["edge"]
        for record in _records(figure)
        if "start" not in record and "edge" in record
    }
    assert edges["INT8"] == 1.0
    assert edges["FP16"] > 3


def test_paired_limits_lie_around_the_value(tmp_path: Path) -> None:
    """The thick interval of a quality is that of the difference, as wide, and the baseline has none."""
    drawn = _figures(tmp_path, Bench(metric="accuracy"))
    records = {record["title"]: record for record in _records(drawn["benchmark-quality"]) if "inner_low" in record}
    assert records["FP32"]["inner_low"] is None
    assert records["FP16"]["inner_high"] - records["FP16"]["inner_low"] == pytest.approx(0.6)
    assert records["INT8"]["inner_low"] < records["INT8"]["value"] < records["INT8"]["inner_high"]


def test_names_in_the_plane_do_not_meet() -> None:
    """GIVEN two points at nearly one place, THEN only the legend names them; the others have their names."""
    spots = [
        Spot(name, name.upper(), Interval(x), Interval(y), "")
        for name, x, y in (("fp16", 1.0, 6.40), ("bf16", 1.01, 6.41), ("fp32", 3.0, 6.4), ("int8", 5.0, 7.0))
    ]
    places = {record["title"]: record["place"] for record in _spec_records(plane(spots, ("x", "y"), "points"))}
    assert (places["FP16"], places["BF16"]) == (None, None)
    assert places["FP32"]
    assert places["INT8"].endswith("left")


def test_a_name_in_the_plane_lies_on_no_interval() -> None:
    """GIVEN a wide interval of a latency, THEN the name stands above or below it, else level with its point."""
    for wide, level in ((0.05, True), (1.5, False)):
        spots = [
            Spot("fp32", "FP32", Interval(2.0, 2.0 - wide, 2.0 + wide), Interval(9.0, 8.9, 9.1), ""),
            Spot("int8", "INT8", Interval(9.0, 8.9, 9.1), Interval(2.0, 1.9, 2.1), ""),
        ]
        places = {record["title"]: record["place"] for record in _spec_records(plane(spots, ("x", "y"), "points"))}
        assert (places["FP32"] == "right") == level
        assert places["FP32"]


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=2, max_size=8, unique=True))
def test_a_name_is_nearest_to_its_own_point(points: list[tuple[float, float]]) -> None:
    """GIVEN any points, THEN no other one lies in a name's room or nearer to its middle."""
    names = [f"name {index}" for index in range(len(points))]
    for index, place in enumerate(_placed(points, names, [])):
        if place is None:
            continue
        left, bottom, right, top = _box(*points[index], len(names[index]), place)
        middle = ((left + right) / 2, (bottom + top) / 2)
        for other in (*points[:index], *points[index + 1 :]):
            assert not (left < other[0] < right and bottom < other[1] < top)
            assert math.dist(middle, other) > math.dist(middle, points[index])


def test_the_plane_has_a_legend_of_colours_and_shapes(tmp_path: Path) -> None:
    """GIVEN a trade-off, THEN every precision is in a legend with a colour and a shape of its own."""
    layers = theme.spec(_figures(tmp_path)["benchmark-tradeoff"].chart)["layer"]
    scales = [layer["encoding"][key]["scale"] for layer in layers for key in ("color", "shape")
              if key in layer["encoding"]]  # fmt: skip
    assert all(scale["domain"] == ["FP32", "FP16", "BF16", "INT8"] for scale in scales)
    assert all(len(set(scale["range"])) == 4 for scale in scales)
    assert sum("shape" in layer["encoding"] for layer in layers) >= 1


def test_what_is_drawn_of_a_quality_stays_possible() -> None:
    """GIVEN limits beyond 100 % or below a perplexity of 1, THEN the drawing ends there."""
    sure = Prediction(
        "int8", "accuracy", Interval(0.99, 0.97, 1.02), 50, 49, Interval(-0.01, -0.05, 0.03), None, None
    )
    shown, inner = drawn_quality(sure)
    assert (shown.low, shown.high) == (97.0, 100.0)
    assert inner == (95.0, 100.0)
    low = Prediction("int8", "perplexity", Interval(1.2, 0.8, 1.6), 50, None, Interval(0.1, -0.4, 0.5), None, None)
    shown, inner = drawn_quality(low)
    assert (shown.low, shown.high) == (1.0, 1.6)
    assert inner is not None
    assert inner[0] == 1.0


def test_marked_names_are_explained_on_their_axis(tmp_path: Path) -> None:
    """GIVEN an INT8 that does not run in its kernels, THEN charts of time and energy mark it."""
    run = build_run(tmp_path / "run", Shape(layers=1, impact=False, benchmark=True))
    assert run.benchmark is not None
    run.benchmark["models"][-1]["notes"] = [f"but {NOT_ITS_KERNELS}"]
    for figure in benchmark_figures(benchmark_data(run)):
        written = json.dumps(theme.spec(figure.chart))
        marked = figure.name not in {"benchmark-quality", "benchmark-size"}
        assert ("INT8 *" in written) == marked, figure.name
        assert ("* not bitsandbytes' kernels" in written) == marked, figure.name


def test_a_benchmark_alone_has_no_empty_sections(tmp_path: Path) -> None:
    """GIVEN that no other stage was asked for, THEN nothing of components stands there."""
    run = replace(
        build_run(tmp_path / "run", Shape(layers=1, impact=False, benchmark=Bench(batch_sizes=(1, 8)))),
        energy=None,
    )
    for stage in ("profile", "ablate", "correlate"):
        run.document["stages"][stage] = {"state": "skipped", "reason": "not asked for", "seconds": None}
    page = re.sub(r"<script.*?</script>", "", render(run), flags=re.DOTALL)
    for anchor in ("profile", "efficiency", "impact", "correlate", "components", "trust"):
        assert f'id="{anchor}"' not in page
        assert f'href="#{anchor}"' not in page
    assert 'id="benchmark"' in page
    assert "4 precisions \u00b7 2 shapes: batch 1 and 8, 128 tokens" in page
    method = page.partition('<section id="method"')[2].partition("</section>")[0]
    assert "taken in shuffled blocks" in method
    assert "Each component was run" not in method
    assert "Granularity" not in method


def test_a_stage_that_failed_keeps_its_section(tmp_path: Path) -> None:
    """GIVEN a stage that was skipped for a reason of its own, THEN its section stands there and says it."""
    run = build_run(tmp_path / "run", Shape(layers=1, impact=False, benchmark=True))
    run.document["stages"]["ablate"] = {"state": "skipped", "reason": "the weights are random", "seconds": 0}
    page = render(run)
    assert 'href="#impact"' in page
    assert "The ablate stage was skipped: the weights are random." in page


def _spec_records(chart: Any) -> list[dict[str, Any]]:
    return [r for values in theme.spec(chart)["datasets"].values() for r in values if "place" in r]


def test_the_report_has_the_section_before_the_profile(tmp_path: Path) -> None:
    """GIVEN a benchmark, THEN its section is first, with six panels, what was skipped, and how each was made."""
    page = render(build_run(tmp_path / "run", Shape(layers=1, impact=False, benchmark=True)))
    assert page.index('id="benchmark"') < page.index('id="profile"')
    for name in SMALL:
        assert f'data-chart="benchmark-{name}"' in page
    assert "Not measured: NF4 (bitsandbytes is not installed)." in page
    assert "bitsandbytes LLM.int8()" in page
    assert "5 trials of 1,000 inferences" in page


def test_the_report_says_modelled_and_random_in_the_section(tmp_path: Path) -> None:
    """GIVEN modelled joules and random weights, THEN the section says both, with the reason."""
    page = render(
        build_run(tmp_path / "run", Shape(layers=1, impact=False, modelled=True, benchmark=Bench(metric=None)))
    )
    section = page.partition('<section id="benchmark"')[2].partition("</section>")[0]
    assert "<strong>MODELLED:</strong>" in section
    assert "No accuracy or perplexity: the weights are random" in section


def test_a_report_without_a_benchmark_says_that_it_did_not_run(tmp_path: Path) -> None:
    """GIVEN a run of before the stage, THEN the section is one sentence."""
    page = render(build_run(tmp_path / "run", Shape(layers=1, impact=False)))
    assert "The benchmark stage did not run." in page
    assert 'data-chart="benchmark' not in page


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    """GIVEN a precision and a reason with markup and quotes, THEN the page has no element of theirs."""
    import vl_convert

    run = build_run(tmp_path / "run", Shape(layers=1, impact=False, benchmark=True))
    assert run.benchmark is not None
    name = "'\"]</script><img src=x>"
    run.benchmark["skipped"] = [{"precision": name, "reason": "<b onclick=alert(1)>"}]
    run.benchmark["baseline"] = name
    for entry in (run.benchmark["cells"][0], run.benchmark["models"][0], run.benchmark["predictions"][0]):
        entry["precision"] = name
    page = re.sub(r"<script.*?</script>", "", render(run), flags=re.DOTALL)
    assert "&lt;IMG SRC=X&gt;" in page
    assert not re.search(r"<img|<b onclick", page, flags=re.IGNORECASE)
    chart = next(figure.chart for figure in benchmark_figures(benchmark_data(run)))
    svg = vl_convert.vegalite_to_svg({**theme.spec(chart), "width": 300}, vl_version="6.1")
    assert "&lt;IMG SRC=X&gt;" in svg


def test_numbers_at_ticks_stay_apart_in_a_column() -> None:
    """GIVEN ticks of six letters each in a third of a page, THEN those that are shown leave room between them."""
    import vl_convert

    item = Bar("fp16-autocast", "FP16 autocast", 15_320.0, 14_200.0, 19_700.0, "15,320", "15,320")
    spec = {**theme.spec(bars([item], "Throughput (sequences/s)", "one")), "width": 300}
    svg = vl_convert.vegalite_to_svg(spec, config=theme.config("light"), vl_version="6.1")
    ticks = re.findall(r'translate\(([\d.]+),[\d.]+\)"([^>]*)>(\d+,000)<', svg)
    shown = [float(at) for at, style, _ in ticks if 'opacity="0"' not in style]
    assert len(shown) >= 2
    assert all(right - left > 45 for left, right in itertools.pairwise(shown))
