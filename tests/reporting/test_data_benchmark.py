from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from benchmark_builder import NO_ENERGY, PRECISIONS, Bench
from rich.console import Console
from run_builder import Shape, build_run

from energyscope.notes import NOT_ITS_KERNELS
from energyscope.reporting import text
from energyscope.reporting.data import report_data
from energyscope.reporting.data.benchmark import BenchmarkData, benchmark_data, precision_title
from energyscope.reporting.data.benchmark_tables import REMEDY, benchmark_page, cells_table
from energyscope.reporting.data.benchmark_words import said
from energyscope.reporting.terminal_benchmark import benchmark_summary, benchmark_table
from energyscope.reporting.terminal_show_stages import benchmark_sheet
from energyscope.runs.intervals import Interval
from energyscope.runs.store import Run


def _run(path: Path, bench: Bench | None = None, **shape: object) -> Run:
    return build_run(path / "run", Shape(layers=1, impact=False, benchmark=bench or Bench(), **shape))  # type: ignore[arg-type]


def _data(path: Path, bench: Bench | None = None, **shape: object) -> BenchmarkData:
    found = benchmark_data(_run(path, bench, **shape))
    assert found is not None
    return found


def test_a_run_without_a_benchmark_has_no_data(tmp_path: Path) -> None:
    """GIVEN a run that measured no precision, THEN there is nothing to show."""
    assert benchmark_data(build_run(tmp_path / "run", Shape(layers=1, impact=False))) is None


def test_cells_stand_by_shape_and_then_in_the_order_of_the_precisions(tmp_path: Path) -> None:
    """GIVEN precisions in no usual order and two sweeps, THEN the smallest shape is first, theirs is kept."""
    data = _data(tmp_path, Bench(precisions=("int8", "fp32", "fp16"), batch_sizes=(8, 1), lengths=(128, 64)))
    assert data.shapes == [(1, 64), (1, 128), (8, 64), (8, 128)]
    assert data.order == ["int8", "fp32", "fp16"]
    assert [cell.precision for cell in data.first] == ["int8", "fp32", "fp16"]


def test_static_and_dynamic_energy_add_up(tmp_path: Path) -> None:
    """The static part is what the dynamic one leaves; modelled, neither is known."""
    cell = _data(tmp_path).first[0]
    assert cell.energy_mj is not None
    assert cell.dynamic_energy_mj is not None
    assert cell.static_energy_mj == pytest.approx(cell.energy_mj.value - cell.dynamic_energy_mj.value)
    modelled = _data(tmp_path / "modelled", modelled=True).first[0]
    assert modelled.energy_mj is not None
    assert modelled.static_energy_mj is None


def test_limits_of_two_noisy_trials_do_not_reach_below_nothing(tmp_path: Path) -> None:
    """GIVEN Student limits below 0, THEN an energy's interval begins at 0; its value and upper limit stay."""
    run = _run(tmp_path)
    assert run.benchmark is not None
    wide = {"value": 20.0, "low": -35.0, "high": 75.0}
    run.benchmark["cells"][0] |= {"energy_mj": wide, "dynamic_energy_mj": wide}
    found = benchmark_data(run)
    assert found is not None
    cell = found.first[0]
    assert cell.energy_mj == Interval(20.0, 0.0, 75.0)
    assert cell.dynamic_energy_mj == Interval(20.0, -35.0, 75.0)  # what is above idle may be unresolved


def test_a_limit_that_cannot_be_is_not_told(tmp_path: Path) -> None:
    """GIVEN an energy whose lower limit would be negative, THEN sentence, table and terminal say the upper one."""
    run = _run(tmp_path)
    assert run.benchmark is not None
    run.benchmark["cells"][1] |= {
        "energy_mj": {"value": 20.0, "low": -35.0, "high": 75.0},
        "energy_ratio": {"value": 0.4, "low": -0.2, "high": 1.1},
        "dynamic_energy_mj": {"value": 20.0, "low": -35.0, "high": 75.0},
    }
    data = benchmark_data(run)
    assert data is not None
    assert "(0.400 [up to 1.1] of the baseline's)" in said(data)[1]
    rows = {row[0]: row[2] for row in cells_table(data, data.shapes[0]).rows}
    assert rows["Energy per inference"] == "20.0 mJ [up to 75]"
    assert rows["of it dynamic (without idle power)"] == "20.0 mJ [-35, 75]"
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(benchmark_table(run))
    assert "[up to 1.1]" in console.export_text()


def test_the_sentences_say_how_fast_how_dear_and_how_good(tmp_path: Path) -> None:
    """GIVEN a faster FP16 and a slower INT8, THEN both are said as plainly, with intervals."""
    base, fp16, _, int8, choice = said(_data(tmp_path, Bench(metric="accuracy")))
    assert base.startswith("At batch 1, 128 tokens, FP32 takes 2.94 ms [")
    assert "accuracy is 90.6 % [88.7, 92.5] over 872 examples" in base
    assert fp16.startswith("FP16 is 3.11 [3.081, 3.131] times as fast as FP32 and takes 0.279 [")
    assert fp16.endswith("accuracy changes by +0.00 [-0.30, 0.30] percentage points: no difference shown.")
    assert int8.startswith("INT8 is slower than FP32, at 0.619 [")
    assert choice == "Of the precisions without a shown loss of accuracy, FP16 takes the least energy."


def test_more_energy_than_the_baseline_is_said_as_more(tmp_path: Path) -> None:
    """GIVEN an INT8 that is slower at the same watts, THEN it takes times as much, and joules are MODELLED."""
    sentences = said(_data(tmp_path, modelled=True))
    assert "(MODELLED) per inference" in sentences[0]
    assert "times as much MODELLED energy" in sentences[3]
    assert sentences[4] == "Of the precisions without a shown rise of perplexity, FP16 is the fastest."


def test_equal_speed_is_no_speed_up(tmp_path: Path) -> None:
    """GIVEN a ratio whose interval has 1 in it, THEN no difference is claimed, of speed or of energy."""
    data = _run(tmp_path)
    assert data.benchmark is not None
    data.benchmark["cells"][1] |= {
        "speedup": {"value": 1.01, "low": 0.98, "high": 1.04},
        "energy_ratio": {"value": 0.99, "low": 0.97, "high": 1.02},
    }
    found = benchmark_data(data)
    assert found is not None
    assert (
        "FP16 is not shown to be faster or slower than FP32 (1.01 [0.980, 1.040] times as fast)" in said(found)[1]
    )
    assert "its energy is not shown to differ (0.990 [0.970, 1.020] of the baseline's)" in said(found)[1]


def test_one_trial_has_no_interval_and_says_so(tmp_path: Path) -> None:
    """GIVEN a single trial, THEN its ratios are those of one trial, and no sentence states them as a fact."""
    base, fp16, *others = said(_data(tmp_path, Bench(trials=1)))
    assert "per inference, from one trial without an interval." in base
    assert re.match(
        r"From one trial, FP16 ran at 3\.\d+ times FP32's speed and took 0\.\d+ of FP32's energy", fp16
    )
    assert "(no interval: nothing is shown)" in fp16
    assert not any("faster" in one or "slower" in one or "as fast" in one for one in (fp16, *others))


def test_without_a_baseline_each_stands_alone(tmp_path: Path) -> None:
    """GIVEN no baseline, THEN every precision has its own sentence and nothing is compared."""
    sentences = said(_data(tmp_path, Bench(precisions=("fp16", "int8"), baseline=None)))
    assert [sentence.startswith("At batch") for sentence in sentences] == [True, False]
    assert not any("as fast" in sentence or "Of the" in sentence for sentence in sentences)


def test_a_missing_energy_has_its_reason_and_is_not_chosen(tmp_path: Path) -> None:
    """GIVEN the best precision without energy, THEN the reason is said, and another takes the least energy."""
    data = _data(tmp_path, Bench(no_energy=("fp16",)))
    sentences = said(data)
    assert f"its energy was not measured ({NO_ENERGY})" in sentences[1]
    assert "FP16" not in sentences[-1]
    assert benchmark_page(data).reasons == [f"FP16 is invalid: {NO_ENERGY}."]


def test_precisions_whose_intervals_overlap_are_chosen_together(tmp_path: Path) -> None:
    """GIVEN two that differ by less than their intervals, THEN neither is called the one with least energy."""
    data = _data(tmp_path, Bench(precisions=("fp32", "fp16", "bf16"), metric="accuracy", spread=0.05))
    assert said(data)[-1].endswith("FP16 and BF16 take the least energy; their intervals overlap.")


def test_nothing_is_chosen_among_equals(tmp_path: Path) -> None:
    """GIVEN that all intervals overlap, THEN none is called the best."""
    data = _data(tmp_path, Bench(precisions=("fp16", "bf16"), baseline="fp16", metric="accuracy", spread=0.05))
    assert said(data)[-1].endswith(
        "without a shown loss of accuracy, none is shown to be more frugal than all others."
    )


def test_reasons_name_their_place(tmp_path: Path) -> None:
    """GIVEN several batch sizes, THEN a reason of one stands with it, and one of all with their number."""
    run = _run(tmp_path, Bench(batch_sizes=(1, 8), no_energy=("fp16",)))
    assert run.benchmark is not None
    run.benchmark["cells"][-1] |= {"quality": "C", "reasons": "throttled"}
    data = benchmark_data(run)
    assert data is not None
    assert benchmark_page(data).reasons == [
        f"FP16 is invalid at 2 of 2 shapes: {NO_ENERGY}.",
        "INT8 is C at batch 8, 128 tokens: throttled.",
    ]


def test_nothing_is_chosen_where_all_lose(tmp_path: Path) -> None:
    """GIVEN that all but the baseline are shown to lose accuracy, THEN that is said, and nobody is praised."""
    data = _data(tmp_path, Bench(precisions=("fp32", "nf4", "fp4"), metric="accuracy"))
    assert said(data)[-1] == "Every other precision shows a loss of accuracy."


def test_what_depends_on_the_shape_is_said(tmp_path: Path) -> None:
    """GIVEN an INT8 that is slower on little work and faster on much, THEN a sentence names both shapes."""
    data = _data(tmp_path, Bench(batch_sizes=(1, 32)))
    assert said(data)[-1].startswith("For INT8 it depends: 0.619 times as fast at batch 1, 128 tokens, 1.1")
    page = benchmark_page(data)
    assert page.speeds is not None
    assert [row[0] for row in page.speeds.rows] == ["batch 1, 128 tokens", "batch 32, 128 tokens"]
    assert len(page.tables) == 2


def test_random_weights_say_why_there_is_no_accuracy(tmp_path: Path) -> None:
    """GIVEN random weights, THEN the page says so with the reason, and no row is about predictions."""
    data = _data(tmp_path, Bench(metric=None))
    assert benchmark_page(data).unpredicted == (
        "RANDOM WEIGHTS: no accuracy or perplexity: the weights are random, so predictions mean nothing."
    )
    names = [row[0] for row in cells_table(data, data.shapes[0]).rows]
    assert not any("baseline (nats)" in name or "ccuracy" in name for name in names)


@pytest.mark.parametrize("modelled", [True, False])
def test_the_table_has_every_metric_of_every_precision(tmp_path: Path, modelled: bool) -> None:
    """A row for each metric, a column for each precision, with intervals; modelled joules are called so."""
    bench = Bench(metric="accuracy", precisions=tuple(PRECISIONS), no_energy=("nf4",))
    data = _data(tmp_path, bench, modelled=modelled)
    table = cells_table(data, data.shapes[0])
    assert table.columns[1:] == [precision_title(name) for name in PRECISIONS]
    assert all(len(row) == len(table.columns) for row in table.rows)
    rows = {row[0]: row[1:] for row in table.rows}
    energy = rows["Modelled energy per inference" if modelled else "Energy per inference"]
    assert energy[0].endswith("]")
    assert energy[list(PRECISIONS).index("nf4")] == "\u2013"
    assert rows["Speed-up"][0] == "1.00"
    joules = [name for name in rows if "joule" in name or ("nergy" in name and "Spread" not in name)]
    assert all("odelled" in name for name in joules) == modelled
    assert rows["Examples"][0] == "872 (790 correct)"


@pytest.mark.parametrize("width", [80, 100])
def test_the_terminal_table_fits(tmp_path: Path, width: int) -> None:
    """GIVEN 80 columns, all precisions and a modelled meter, THEN no cell is cut and no number is missing."""
    bench = Bench(metric="accuracy", precisions=tuple(PRECISIONS), no_energy=("nf4",), batch_sizes=(1, 8, 32))
    run = _run(tmp_path, bench, modelled=True)
    console = Console(width=width, record=True)
    console.print(benchmark_table(run))
    written = console.export_text()
    assert "\u2026" not in written
    assert max(map(len, written.splitlines())) <= width
    assert "MODELLED energy" in written
    assert "LLM.int8()" in written
    assert "1 more shape in the report" in written


def _mended(run: Run, precision: str) -> BenchmarkData:
    """Give a precision the note of layers that do not run in bitsandbytes' kernels."""
    assert run.benchmark is not None
    model = next(entry for entry in run.benchmark["models"] if entry["precision"] == precision)
    model["notes"] = [f"12 of 16 layers restore their weights, but {NOT_ITS_KERNELS}"]
    found = benchmark_data(run)
    assert found is not None
    return found


def test_what_does_not_run_in_its_kernels_is_marked(tmp_path: Path) -> None:
    """GIVEN INT8 whose notes say that its kernels did not run, THEN its sentence, column and row say so alone."""
    run = _run(tmp_path)
    data = _mended(run, "int8")
    told = [one for one in said(data) if "its time and energy are not those of bitsandbytes' kernels" in one]
    assert [one.split()[0] for one in told] == ["INT8"]
    assert cells_table(data, data.shapes[0]).columns == ["", "FP32", "FP16", "BF16", "INT8 *"]
    console = Console(width=80, record=True)
    console.print(benchmark_summary(run))
    written = console.export_text()
    assert "INT8 *" in written
    assert "* Its time and energy are not those of bitsandbytes' kernels." in written


def test_the_iterations_that_were_taken_stand_beside_what_was_asked_for(tmp_path: Path) -> None:
    """GIVEN trials that had to go on for the meter, THEN the settings say how many inferences each really had."""
    run = _run(tmp_path)
    assert run.trials is not None
    assert "inferences for each precision" in benchmark_page(_again(run)).how
    run.trials.loc[0, "iterations"] = 1250
    assert (
        "5 trials of 1,000 inferences (1,000 to 1,250 each: a trial lasts at least as long as the meter needs)"
        in benchmark_page(_again(run)).how
    )


def _again(run: Run) -> BenchmarkData:
    found = benchmark_data(run)
    assert found is not None
    return found


def test_the_predictions_name_their_data(tmp_path: Path) -> None:
    """GIVEN predictions, THEN the page says on what they were judged; without any it says nothing."""
    page = benchmark_page(_data(tmp_path))
    assert page.judged.startswith("Judged on tiny-gpt2 held-out, ")
    assert page.judged.endswith(" examples, texts up to their own length. ")
    assert benchmark_page(_data(tmp_path / "random", Bench(metric=None))).judged == ""


def test_stated_watts_have_no_limits(tmp_path: Path) -> None:
    """GIVEN a modelled run, THEN its power is stated and not measured with an interval."""
    data = _data(tmp_path, modelled=True)
    rows = {row[0]: row[1:] for row in cells_table(data, data.shapes[0]).rows}
    assert set(rows["Stated power"]) == {"65.0 W (stated)"}


def test_invalid_cells_have_a_remedy(tmp_path: Path) -> None:
    """GIVEN an energy below grade C, THEN one sentence says what would help; without one it is not said."""
    run = _run(tmp_path)
    assert REMEDY not in benchmark_page(_again(run)).reasons
    assert run.benchmark is not None
    run.benchmark["cells"][-1] |= {"quality": "invalid", "reasons": "95 % half-width 12.0%"}
    assert benchmark_page(_again(run)).reasons[-1] == REMEDY


def test_a_benchmark_alone_is_described_by_its_shapes(tmp_path: Path) -> None:
    """GIVEN several batch sizes, THEN the subtitle counts precisions and shapes."""
    page = benchmark_page(_data(tmp_path, Bench(batch_sizes=(1, 8, 32), lengths=(64, 128))))
    assert page.subtitle == ["4 precisions", "6 shapes: batch 1, 8 and 32, 64 and 128 tokens"]
    one = benchmark_page(_data(tmp_path / "one", Bench(precisions=("fp32",), baseline=None)))
    assert one.subtitle == ["1 precision", "batch 1, 128 tokens"]


def test_the_terminal_says_what_was_skipped_or_never_ran(tmp_path: Path) -> None:
    """A skipped precision stands with its reason; a run without the stage has a sentence instead of a table."""
    console = Console(width=100, record=True)
    console.print(benchmark_summary(_run(tmp_path)))
    console.print(benchmark_summary(build_run(tmp_path / "none", Shape(layers=1, impact=False))))
    written = console.export_text()
    assert "Not measured: NF4 (bitsandbytes is not installed)." in written
    assert "The benchmark stage did not run." in written


def _twice(run: Run, *, energy: dict[str, float | None] | None = None) -> str:
    """Return what is said of the pass that both measured, the benchmark's energy exchanged for another."""
    assert run.benchmark is not None
    if energy is not None:
        run.benchmark["cells"][0]["energy_mj"] = energy
    return benchmark_page(_again(run)).twice


def _profiled(run: Run) -> float:
    assert run.energy is not None
    return float(run.energy["energy_mj"].iloc[0])


def test_a_pass_that_was_measured_twice_has_both_numbers_and_why_they_are_two(tmp_path: Path) -> None:
    """GIVEN energies whose difference may be none, THEN no difference is shown, with the difference's limits."""
    run = _run(tmp_path)
    value = _profiled(run)
    said = _twice(run, energy={"value": value * 1.01, "low": value, "high": value * 1.02})
    assert said.startswith(
        "The profile measured this pass as well (FP32, batch 1, 128 tokens, eager): its energy is "
    )
    assert f"{text.quantity(value, 'mJ')} [" in said
    assert f"{text.quantity(value * 1.01, 'mJ')} [" in said
    assert re.search(
        r"No difference is shown: benchmark - profile is \+[\d.]+ mJ \(\+1\.0 %\) \[-[\d.]+, [\d.]+\]\. ", said
    )
    assert ". What differs: the benchmark waits for the device after every" in said
    console = Console(record=True, width=80, file=io.StringIO())
    console.print(benchmark_summary(run))
    assert " ".join(said.split()) in " ".join(console.export_text().split())
    assert said in benchmark_sheet(report_data(run)).notes
    assert said.endswith("one interval is over 5 trials, the other over 6 windows.")


@pytest.mark.parametrize(("factor", "said"), [(1.25, "25.0\u00a0% ["), (0.8, "20.0\u00a0% [")])
def test_passes_that_do_not_agree_say_by_how_much(tmp_path: Path, factor: float, said: str) -> None:
    """GIVEN a difference that excludes none, THEN its size stands with its interval, beside both times."""
    run = _run(tmp_path)
    value = _profiled(run) * factor
    found = _twice(run, energy={"value": value, "low": value * 0.99, "high": value * 1.01})
    assert f"A difference is shown: the benchmark's is {said}" in found
    assert f"{'more' if factor > 1 else 'less'}, and a pass took 2.94 ms in it and " in found


def test_agreement_is_not_claimed_without_an_interval(tmp_path: Path) -> None:
    """GIVEN a single trial, THEN whether the two agree cannot be told."""
    found = _twice(_run(tmp_path), energy={"value": 20.0, "low": None, "high": None})
    assert "Whether they agree cannot be told: at least one has no interval." in found
    assert "one interval is over" not in found


def test_intervals_that_overlap_may_still_show_a_difference(tmp_path: Path) -> None:
    """GIVEN two intervals that overlap at their ends, THEN the interval of the difference decides."""
    run = _run(tmp_path)
    assert run.energy is not None
    run.energy.loc[0, ["energy_mj", "energy_ci_low_mj", "energy_ci_high_mj"]] = [100.0, 97.0, 103.0]
    found = _twice(run, energy={"value": 105.0, "low": 102.0, "high": 108.0})
    assert "A difference is shown: the benchmark's is 5.0\u00a0% [" in found


@pytest.mark.parametrize("whose", ["profile", "benchmark"])
def test_agreement_is_not_claimed_below_grade_c(tmp_path: Path, whose: str) -> None:
    """GIVEN a narrow interval below grade C, THEN neither agreement nor a difference is said of it."""
    run = _run(tmp_path)
    assert run.energy is not None
    assert run.benchmark is not None
    value = _profiled(run)
    if whose == "profile":
        run.energy.loc[0, "quality"] = "invalid"
    else:
        run.benchmark["cells"][0]["quality"] = "invalid"
    for factor in (1.0, 1.5):
        at = value * factor
        found = _twice(run, energy={"value": at, "low": at * 0.99, "high": at * 1.01})
        assert f"(below grade C) in the {whose}" in found
        assert "Whether they agree cannot be told: below grade C. What differs:" in found
        assert "ifference is shown" not in found


@pytest.mark.parametrize("factor", [1.0, 1.5])
def test_nothing_is_concluded_from_modelled_passes(tmp_path: Path, factor: float) -> None:
    """GIVEN MODELLED energies, alike or not, THEN both numbers stand there without a verdict."""
    run = _run(tmp_path, modelled=True)
    value = _profiled(run) * factor
    found = _twice(run, energy={"value": value, "low": value * 0.99, "high": value * 1.01})
    assert f"in the profile and {text.quantity(value, 'mJ')} [" in found
    assert (
        "in the benchmark. Both are time multiplied by stated watts, so nothing is concluded from them." in found
    )
    assert "ifference is shown" not in found
    assert "agree" not in found


@pytest.mark.parametrize(
    ("column", "value"),
    [("precision", "fp64"), ("batch_size", 2), ("context_length", 64), ("execution", "cuda-graph"),
     ("phase", "decode")],
)  # fmt: skip
def test_passes_of_other_conditions_are_not_held_together(tmp_path: Path, column: str, value: object) -> None:
    """GIVEN a profile of another precision, shape, execution or phase, THEN nothing is said of it."""
    run = _run(tmp_path)
    assert run.energy is not None
    run.energy[column] = value
    assert _twice(run) == ""
    assert _twice(_run(tmp_path / "alone", profile=False)) == ""


@pytest.mark.parametrize(
    ("cache", "said"), [("dynamic", False), ("static", False), ("none", True), (None, True), (float("nan"), True)]
)
def test_a_prefill_that_fills_a_cache_is_another_pass(tmp_path: Path, cache: object, said: bool) -> None:
    """GIVEN a generation's prefill, which fills a KV cache, THEN it is not held against the benchmark's pass."""
    run = _run(tmp_path)
    assert run.energy is not None
    run.energy["kv_cache"] = [cache] * len(run.energy)
    assert bool(_twice(run)) is said


def test_in_graphs_both_replay_one_input(tmp_path: Path) -> None:
    """GIVEN CUDA graphs in both, THEN no difference of inputs is claimed; on a CPU, none of waiting."""
    run = _run(tmp_path, execution="cuda-graph")
    assert run.benchmark is not None
    run.benchmark["settings"]["execution"] = "cuda-graph"
    said = _twice(run)
    assert "(FP32, batch 1, 128 tokens, CUDA graph)" in said
    assert "batches" not in said
    assert "waits for the device" in said
    host = _run(tmp_path / "host", modelled=True)
    host.document["device"] = {"type": "cpu", "name": "a CPU"}
    found = _twice(host)
    assert "its MODELLED energy is" in found
    assert "waits for the device" not in found
    assert "the benchmark takes turns with up to eight batches" in found


def test_other_clocks_are_among_what_differs(tmp_path: Path) -> None:
    """GIVEN clocks more than 1 % apart, THEN both are named; equal ones are not."""
    run = _run(tmp_path)
    assert run.energy is not None
    run.energy["clock_mhz"] = 1980.0
    assert "MHz" not in _twice(run)
    run.energy["clock_mhz"] = 1755.0
    assert "at different times of the run, at 1,980 MHz and 1,755 MHz" in _twice(run)


def test_readings_around_single_components_are_not_held_against_the_benchmark(tmp_path: Path) -> None:
    """GIVEN triggered sampling, which stops the device to read, THEN the two passes are not called one."""
    run = _run(tmp_path)
    run.document["settings"]["sampling"] = "triggered"
    assert _twice(run) == ""
