"""The benchmark stage: on bundled models on the CPU, and on fake GPUs."""

from __future__ import annotations

import math

import pytest
import torch

import energyscope
from energyscope.errors import DeviceError, ModelError, UsageError
from energyscope.loading import load_model
from energyscope.loading.options import LoadSettings
from energyscope.metering.group import MeterGroup
from energyscope.metering.modelled import ModelledMeter
from energyscope.reasons import read, reason
from energyscope.runs import schema
from energyscope.runs.store import load_run, read_journal
from energyscope.settings.benchmark import BenchmarkSettings
from energyscope.stages import candidates, trials
from energyscope.stages import run as stage
from energyscope.stages.benchmark import benchmark, chosen_precisions, recover
from energyscope.stages.measured_devices import MeasuredDevices

CPU = torch.device("cpu")
SHORT = {"num_iters": 8, "warmup_steps": 2, "trials": 2, "trial_seconds": 0.2}


def settings(*precisions, **options):
    """A short benchmark."""
    return BenchmarkSettings(precisions=precisions, **{**SHORT, **options})


def quick(model, *precisions, root, **options):
    """A run of nothing but a short benchmark."""
    more = {
        name: options.pop(name)
        for name in ("num_iters", "batch_sizes", "sequence_lengths", "trials")
        if name in options
    }
    return energyscope.run(
        model, stages=("benchmark",), benchmark=settings(*precisions, **more), root=root, name="one",
        **{"max_examples": 6, "sequence_length": 16, **options},
    )  # fmt: skip


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """tiny-gpt2 in three precisions, at two batch sizes and two lengths."""
    return quick(
        "tiny-gpt2", "fp32", "bf16", "int8", root=tmp_path_factory.mktemp("runs"),
        batch_sizes=(1, 4), sequence_lengths=(16, 32), max_examples=24,
    )  # fmt: skip


def test_the_table_has_a_row_for_each_trial_of_each_cell(swept):
    """3 precisions x 2 batch sizes x 2 lengths x 2 trials, in the schema's columns."""
    assert tuple(swept.trials.columns) == schema.BENCHMARK_COLUMNS
    assert len(swept.trials) == 24
    key = ["precision", "batch_size", "sequence_length", "trial"]
    assert not swept.trials.duplicated(key).any()
    assert len(swept.benchmark["cells"]) == 12
    assert len(swept.benchmark["trials"]) == 24


def test_trials_are_in_shuffled_blocks(swept):
    """Every block has each cell once, and the blocks are in different orders."""
    cells = list(
        zip(swept.trials["precision"], swept.trials["batch_size"], swept.trials["sequence_length"], strict=True)
    )
    assert swept.trials["trial"].is_monotonic_increasing
    assert set(cells[:12]) == set(cells[12:])
    assert cells[:12] != cells[12:]


def test_columns_fit_together(swept):
    """Energy is power times latency, throughput and tokens are those of the batch and the length."""
    rows = swept.trials
    assert (rows["energy_per_inference_j"] * 1e3 / rows["energy_per_inference_mj"]).to_numpy() == pytest.approx(
        1.0
    )
    assert (rows["tokens_per_s"] / rows["throughput"]).to_numpy() == pytest.approx(
        rows["sequence_length"].to_numpy()
    )
    assert (rows["inferences_per_joule"] * rows["energy_per_inference_j"]).to_numpy() == pytest.approx(1.0)
    assert (rows["min_latency"] <= rows["p50_latency"]).all()
    assert (rows["p95_latency"].isna() == (rows["iterations"] < 20)).all()
    assert (rows["p99_latency"].isna() == (rows["iterations"] < 100)).all()
    assert (rows["total_energy_j"] / rows["energy_per_inference_j"]).to_numpy() == pytest.approx(
        rows["iterations"].to_numpy()
    )
    assert rows["static_energy_per_inference_mj"].isna().all()  # modelled: there is no idle power


def test_every_precision_is_judged_against_the_baseline(swept):
    """Perplexity with its interval; BF16 and INT8 beside FP32: a KL above 0, and a paired difference."""
    judged = {entry["precision"]: entry for entry in swept.benchmark["predictions"]}
    assert swept.benchmark["baseline"] == "fp32"
    assert list(judged) == ["fp32", "bf16", "int8"]
    assert judged["fp32"]["kl"] is judged["fp32"]["difference"] is None
    for name in ("bf16", "int8"):
        assert judged[name]["kl"]["value"] > 0
        assert judged[name]["agreement"]["value"] > 0.5
        assert judged[name]["difference"]["value"] == pytest.approx(
            judged[name]["value"]["value"] - judged["fp32"]["value"]["value"], abs=1e-9
        )
    assert judged["bf16"]["kl"]["value"] < judged["int8"]["kl"]["value"]
    perplexity = swept.trials.groupby("precision")["perplexity"].first()
    assert perplexity["fp32"] == pytest.approx(judged["fp32"]["value"]["value"])
    assert swept.trials["accuracy"].isna().all()


def test_sizes_are_those_of_the_precision(swept):
    """BF16 has half of FP32's bytes; INT8 as many parameters as FP32, in fewer bytes than FP32."""
    sizes = swept.trials.drop_duplicates("precision").set_index("precision")
    assert sizes.loc["bf16", "model_size_mb"] == pytest.approx(sizes.loc["fp32", "model_size_mb"] / 2, rel=0.01)
    assert sizes["num_parameters"].nunique() == 1
    assert sizes.loc["int8", "model_size_mb"] < sizes.loc["fp32", "model_size_mb"]
    assert sizes["allocated_gb"].isna().all()  # the CPU does not tell


def test_a_classifier_has_an_accuracy_with_its_counts(tmp_path):
    """Accuracy is right answers over examples, with Wilson's interval around it."""
    run = quick("tiny-distilbert", "fp32", "fp16", root=tmp_path, max_examples=24)
    row = run.trials.iloc[0]
    assert row["num_samples_accuracy"] == 24
    assert row["accuracy"] == pytest.approx(row["num_correct"] / 24)
    value = run.benchmark["predictions"][0]["value"]
    assert value["low"] < value["value"] <= value["high"]
    assert run.trials["perplexity"].isna().all()


def test_random_weights_have_no_predictions_and_say_why(tmp_path):
    """What meaningless weights predict is not judged."""
    data = tmp_path / "book.txt"
    data.write_text("the dog sees the cat", encoding="utf-8")
    run = quick("tiny-gpt2", "fp32", root=tmp_path / "runs", weights="random", data=str(data))
    assert read(run.document["warnings"][0]).code == "data-not-read"
    assert run.benchmark["predictions"] == []
    assert run.benchmark["predictions_reason"] == "random-weights"
    assert run.trials["perplexity"].isna().all()


def test_trying_is_none_of_the_steps(tmp_path):
    """GIVEN a bar whose steps are trials, THEN loading and trying counts none, nor is it their pace."""
    steps = []
    quick("tiny-gpt2", "fp32", "bf16", root=tmp_path, max_examples=4, progress=lambda *step: steps.append(step))
    tried = [step for step in steps if step[1].endswith("loading and trying")]
    assert tried == [("benchmark", f"{name} of 2): loading and trying", 0, 1) for name in ("fp32 (1", "bf16 (2")]
    assert {step[3] for step in steps if "trial" in step[1]} == {4}


@pytest.fixture
def interrupted(monkeypatch):
    """Return a function that lets a loop raise an error: that of a number, or of None every one."""

    def interrupt(error, at=None):
        real, calls = trials.timed, []

        def timed(*arguments, **options):
            calls.append(1)
            if at in {None, len(calls)}:
                raise error
            return real(*arguments, **options)

        monkeypatch.setattr(trials, "timed", timed)

    return interrupt


DEVICE_ASSERT = RuntimeError("CUDA error: device-side assert")


def test_an_interrupted_benchmark_keeps_its_finished_trials(tmp_path, interrupted):
    """WHEN the third trial is interrupted THEN the two before it are in the table."""
    interrupted(KeyboardInterrupt(), at=3)
    with pytest.raises(KeyboardInterrupt):
        quick("tiny-gpt2", "fp32", "bf16", root=tmp_path)
    run = load_run("one", tmp_path)
    assert len(run.trials) == 2
    assert run.document["stages"]["benchmark"]["state"] == "interrupted"
    assert run.benchmark["cells"]


@pytest.fixture
def failing(monkeypatch):
    """Return a function that lets the tries of some cells raise an error."""

    def fail(error, is_failing):
        real = candidates.Candidates._try_cell

        def tried(self, variant, cell, watch):
            if is_failing(cell):
                raise error
            return real(self, variant, cell, watch)

        monkeypatch.setattr(candidates.Candidates, "_try_cell", tried)

    return fail


OUT_OF_MEMORY = torch.OutOfMemoryError("CUDA out of memory")


def test_a_batch_that_does_not_fit_is_halved_and_said(tmp_path, failing):
    """GIVEN memory for two sequences THEN a batch of 8 is measured as 2, once, and the note says so."""
    failing(OUT_OF_MEMORY, lambda cell: cell.batch_size > 2)
    run = quick("tiny-gpt2", "fp32", root=tmp_path, batch_sizes=(2, 8))
    assert set(run.trials["batch_size"]) == {2}
    assert len(run.trials) == 2
    assert run.benchmark["notes"] == [
        reason("smaller-batch-measured", precision="fp32", batch_size=8, tokens=16, measured=2)
    ]


def test_a_precision_that_fails_is_skipped_and_the_others_go_on(tmp_path, failing):
    """GIVEN kernels that BF16 lacks THEN FP32 is measured, and BF16's reason is kept."""
    error = NotImplementedError('"addmm" not implemented for this type')
    failing(error, lambda cell: cell.precision == "bf16")
    run = quick("tiny-gpt2", "fp32", "bf16", root=tmp_path)
    assert set(run.trials["precision"]) == {"fp32"}
    why = reason("measurement-failed", error='NotImplementedError: "addmm" not implemented for this type')
    assert run.benchmark["skipped"] == [{"precision": "bf16", "reason": why}]
    assert [model["precision"] for model in run.benchmark["models"]] == ["fp32"]


def test_the_baseline_is_one_and_the_same_for_speed_and_predictions(tmp_path, failing):
    """GIVEN an FP32 that does not fit THEN all is compared with BF16, though FP16 was named before it."""
    failing(OUT_OF_MEMORY, lambda cell: cell.precision == "fp32")
    run = quick("tiny-gpt2", "fp32", "fp16", "bf16", root=tmp_path)
    assert run.benchmark["baseline"] == "bf16"
    judged = {entry["precision"]: entry for entry in run.benchmark["predictions"]}
    assert judged["bf16"]["kl"] is None
    assert judged["fp16"]["against"] == "bf16"
    speeds = {cell["precision"]: cell["speedup"]["low"] for cell in run.benchmark["cells"]}
    assert speeds["bf16"] is None
    assert speeds["fp16"] is not None


def test_an_interruption_before_the_baselines_first_trial_leaves_no_other_in_its_place(swept):
    """GIVEN a journal whose only trial is not FP32's THEN FP32 is the baseline, and there is no speed-up."""
    entries = read_journal(swept.path)
    rows = [entry for entry in entries if "row" in entry and entry["row"]["precision"] != "fp32"][:1]
    _, document = recover([entry for entry in entries if "row" not in entry] + rows)
    assert document["baseline"] == "fp32"
    assert [cell["speedup"] for cell in document["cells"]] == [None]


def test_a_trial_that_fails_costs_one_row(tmp_path, interrupted):
    """WHEN the second loop raises THEN the other rows are there, and the note says what happened."""
    interrupted(DEVICE_ASSERT, at=2)
    run = quick("tiny-gpt2", "fp32", "bf16", root=tmp_path)
    assert len(run.trials) == 3
    note = read(run.benchmark["notes"][0])
    assert note.code == "trial-failed"
    assert read(note.values["why"]).values["error"] == "RuntimeError: CUDA error: device-side assert"


def test_a_benchmark_without_a_single_trial_is_a_failure(tmp_path, interrupted):
    """WHEN every loop raises THEN the stage has failed, with what happened, and is not called done."""
    interrupted(DEVICE_ASSERT)
    with pytest.raises(ModelError, match=r"no trial of the benchmark could be measured .*device-side assert"):
        quick("tiny-gpt2", "fp32", root=tmp_path)
    assert load_run("one", tmp_path).document["stages"]["benchmark"]["state"] == "failed"


def test_a_batch_beyond_the_hosts_memory_is_never_tried(tmp_path, monkeypatch):
    """GIVEN 50 MB that are free and a batch with larger outputs THEN a smaller one is measured, and said."""
    monkeypatch.setattr("energyscope.benchmarking.memory.free_bytes", lambda device: 50_000_000)
    run = quick("tiny-gpt2", "fp32", root=tmp_path, trials=1, batch_sizes=(4096,), num_iters=1)
    assert run.trials["batch_size"].max() < 4096
    assert read(run.benchmark["notes"][0]).code == "smaller-batch-measured"


def test_nothing_at_all_is_an_error_with_its_reasons(failing):
    """WHEN no precision can be measured THEN one line says why of each."""
    failing(OUT_OF_MEMORY, lambda cell: True)
    loaded = load_model("tiny-gpt2")
    with pytest.raises(ModelError, match="fp32: not even a batch of one fits in memory"):
        benchmark(
            loaded,
            None,
            MeterGroup([ModelledMeter(65.0)]),
            settings("fp32", batch_sizes=(4,), sequence_lengths=(16,)),
            "tiny-gpt2",
            LoadSettings(),
            journal=lambda entry: None,
        )


def test_models_that_do_not_fit_together_are_loaded_one_at_a_time(tmp_path, monkeypatch):
    """GIVEN little memory THEN a block keeps a precision's cells together, and predictions lack the KL."""
    monkeypatch.setattr("energyscope.stages.benchmark.fit_together", lambda sizes, free: False)
    run = quick("tiny-gpt2", "fp32", "bf16", root=tmp_path, batch_sizes=(1, 2))
    for _, block in run.trials.groupby("trial"):
        order = block["precision"].tolist()
        assert order == sorted(order, key=order.index)
    bf16 = next(entry for entry in run.benchmark["predictions"] if entry["precision"] == "bf16")
    assert bf16["kl"] is None
    assert bf16["difference"]["value"] is not None


def test_asked_for_by_name_and_impossible_is_refused_but_auto_goes_on(monkeypatch):
    """GIVEN no INT8 THEN naming it is an error, and auto leaves it out with the reason."""
    monkeypatch.setattr(
        "energyscope.loading.variants.unsupported",
        lambda name, device: "bitsandbytes is not installed" if name == "int8" else None,
    )
    names, skipped = chosen_precisions(("auto",), CPU)
    assert "int8" not in names
    assert skipped == [{"precision": "int8", "reason": "bitsandbytes is not installed"}]
    with pytest.raises(DeviceError, match="int8 cannot be measured here: bitsandbytes is not installed"):
        chosen_precisions(("fp32", "int8"), CPU)


def test_auto_tries_this_tools_int8_kernels_on_a_gpu(monkeypatch):
    """GIVEN a GPU THEN auto has W8A8 and W8A16 where their kernels run, and the reason of one that does not."""
    monkeypatch.setattr(
        "energyscope.loading.variants.unsupported",
        lambda name, device: "no kernel for w8a16" if name == "w8a16" else None,
    )
    names, skipped = chosen_precisions(("auto",), torch.device("cuda", 0))
    assert names == ["fp32", "fp16", "bf16", "fp16-autocast", "int8", "w8a8", "nf4"]
    assert skipped == [{"precision": "w8a16", "reason": "no kernel for w8a16"}]
    assert not {"w8a8", "w8a16"} & set(chosen_precisions(("auto",), CPU)[0])


def test_an_unknown_precision_is_refused_before_anything_is_loaded(tmp_path):
    """A typing error costs no loading, and leaves no run behind."""
    with pytest.raises(UsageError, match="fp31"):
        quick("tiny-gpt2", "fp31", root=tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"trials": 0}, "--trials must be 1 or more, not 0"),
        ({"num_iters": 0}, "--num-iters must be 1 or more"),
        ({"warmup_steps": -1}, "--warmup-steps must be 0 or more"),
        ({"batch_sizes": (1, 0)}, "--batch-size must be 1 or more, not 0"),
        ({"trial_seconds": math.nan}, "--trial-seconds must be above 0"),
        ({"power_sample_interval_s": 0.0}, "--power-sample-interval must be above 0"),
        ({"precisions": ()}, "names nothing"),
    ],
)
def test_settings_that_cannot_be_are_refused(options, message):
    """Each with the option's name and what to give."""
    with pytest.raises(UsageError, match=message):
        BenchmarkSettings(**options).check()


@pytest.mark.slow
@pytest.mark.alone
def test_power_is_sampled_by_another_process_and_idle_power_counts(fake_nvml, tmp_path, monkeypatch):
    """GIVEN a fake board of 200 W THEN power, energy and static energy are its own, and the trace is kept."""
    monkeypatch.setattr(trials, "PREHEAT_S", 0.1)
    monkeypatch.setattr(stage, "find_devices", lambda asked: MeasuredDevices(CPU, ("GPU-aaaa",)))
    fake_nvml("gpu GPU-aaaa Fake H200\nat 0 power_w 200\nat 0 read_s 0.0005\nat 0 period_s 0.02")
    run = quick("tiny-gpt2", "fp32", root=tmp_path, trials=3)
    rows = run.trials
    assert rows["mean_power_w"].to_numpy() == pytest.approx(200.0, rel=0.25)
    assert (rows["num_power_samples"] >= 2).all()
    # energy is that of the passes between ticks: a host that stalls makes others of them, in one trial or another
    assert (rows["energy_per_inference_j"] / rows["mean_latency"]).median() == pytest.approx(200, rel=0.5)
    between_ticks = rows["energy_per_inference_mj"] / rows["static_energy_per_inference_mj"]
    assert (between_ticks * rows["idle_w"]).to_numpy() == pytest.approx(200, rel=0.25)
    assert rows["idle_w"].to_numpy() == pytest.approx(200.0, rel=0.2)
    assert rows["dynamic_energy_per_inference_mj"].abs().max() < 0.5 * rows["energy_per_inference_mj"].max()
    assert set(run.trace["phase"]) == {"benchmark"}
    assert run.benchmark["idle_w"] == pytest.approx(200.0, rel=0.2)


def test_tables_can_be_made_of_part_of_a_journal(swept):
    """GIVEN the first half of a journal THEN its rows are those of the table's beginning."""
    entries = read_journal(swept.path)
    rows, document = recover(entries[: len(entries) // 2])
    assert 0 < len(rows) < 24
    assert [row["precision"] for row in rows] == swept.trials["precision"].tolist()[: len(rows)]
    assert {cell["precision"] for cell in document["cells"]} == {row["precision"] for row in rows}
    assert recover([])[0] == []
