"""Settings are checked before anything is loaded, and their fingerprint follows what is measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from energyscope.errors import UsageError
from energyscope.settings.benchmark import BenchmarkSettings
from energyscope.settings.run import RunSettings


@pytest.mark.parametrize(
    ("change", "hint"),
    [
        ({"granularity": "fein"}, "did you mean 'fine'"),
        ({"layers": "some"}, "--layers"),
        ({"weights": "none"}, "--weights"),
        ({"phase": "decoding"}, "did you mean 'decode'"),
        ({"kv_cache": "paged"}, "--kv-cache"),
        ({"new_tokens": 1}, "--new-tokens"),
        ({"context_lengths": (128, 0)}, "--context-length"),
        ({"sampling": "triggered", "phase": "decode"}, "--phase decode is for replay"),
        ({"execution": "cuda-grape"}, "did you mean 'cuda-graph'"),
        ({"meter": "nvlm"}, "did you mean 'nvml'"),
        ({"stages": ("profile", "planning")}, "--stages"),
        ({"methods": ("zeros",)}, "did you mean 'zero'"),
        ({"passes": 0}, "1 or more"),
        ({"batch_size": 0}, "1 or more"),
        ({"sequence_length": -1}, "1 or more"),
        ({"max_examples": 1}, "2 or more"),
        ({"window_s": 0.0}, "above 0"),
        ({"watts": float("inf")}, "--watts"),
        ({"watts": -5.0}, "--watts"),
        ({"seed": -1}, "0 or more"),
        ({"methods": ()}, "--methods names nothing"),
        ({"stages": ()}, "--stages names nothing"),
        ({"meter": "recorded"}, "tests"),
        ({"meter": "watts"}, "known: amd, apple, auto, modelled, nvidia-smi, nvml, nvml-power, rapl"),
        ({"sampling": "trigered"}, "did you mean 'triggered'"),
        ({"sampling": "triggered", "execution": "cuda-graph"}, "--execution eager"),
        ({"sampling": "triggered", "execution": "both"}, "--execution eager"),
        ({"execution": "both", "stages": ("benchmark", "report")}, "--execution both is for the profile"),
        ({"execution": "both", "tensor_parallel": True}, "--execution both captures what one process does"),
        ({"sampling": "triggered", "meter": "nvml-power"}, "which nvml-power has not: use nvml"),
        ({"sampling": "triggered", "meter": "nvidia-smi"}, "use nvml"),
        ({"sampling": "triggered", "window_s": 0.5}, "--window is for replay"),
        ({"sampling": "triggered", "component_budget_s": 5.0}, "--component-budget is for replay"),
        ({"sampling": "triggered", "layers": "sample"}, "--layers is for replay"),
        ({"sampling": "triggered", "target_interval": 0.02}, "--target-interval is for replay"),
        ({"gpu_id": ("0",), "device": "cpu"}, "--gpu-id measures GPUs"),
        ({"gpu_id": ("0", "1"), "meter": "modelled"}, "one device"),
        ({"sample_interval_s": 0.0}, "--sample-interval"),
        ({"component_budget_s": 0.0}, "--component-budget"),
        ({"target_interval": 1.5}, "--target-interval"),
    ],
)
def test_impossible_settings_are_refused(change, hint):
    """Each wrong word or number is refused with what to give instead."""
    with pytest.raises(UsageError, match=hint):
        RunSettings("gpt2", **change).check()


@pytest.mark.parametrize(
    "change",
    [{}, {"sampling": "triggered"}, {"meter": "nvidia-smi"}, {"gpu_id": ("0", "1")}, {"execution": "cuda-graph"}],
)
def test_what_is_possible_passes(change):
    """The defaults pass their own check, and so does each option by itself."""
    RunSettings("gpt2", **change).check()


def test_places_that_can_be_used_pass(tmp_path):
    """A root that is still to be made, a free name and a file of data are left as they are."""
    data = tmp_path / "data.txt"
    data.write_text("text")
    RunSettings("gpt2", root=tmp_path / "a" / "b", name="new", data=str(data)).check_places()
    assert list(tmp_path.iterdir()) == [data]


@pytest.mark.parametrize(
    ("change", "hint"),
    [
        ({"data": "missing.jsonl"}, "there is no file missing.jsonl"),
        ({"data": "."}, "JSONL, CSV or text"),
        ({"root": Path("file")}, "--root file cannot be written .*Not a directory"),
        ({"root": Path("file/below")}, "--root file/below cannot be written"),
        ({"root": Path("/proc/runs")}, "--root /proc/runs cannot be written"),
        ({"name": "taken"}, "choose another --name"),
        ({"name": "a/b"}, "not a run name"),
    ],
)
def test_places_that_cannot_be_used_are_refused(change, hint, tmp_path, monkeypatch):
    """A missing file, a root that is none and a name that is taken are found before anything is loaded."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    (tmp_path / "runs" / "taken").mkdir(parents=True)
    (tmp_path / "runs" / "taken" / "run.json").write_text("{}")
    with pytest.raises(UsageError, match=hint):
        RunSettings("gpt2", **change).check_places()


def test_the_fingerprint_follows_what_is_measured():
    """Another batch size is another fingerprint; another name or place is not."""
    base = RunSettings("gpt2")
    assert base.fingerprint() == RunSettings("gpt2", name="other").fingerprint()
    assert base.fingerprint() != RunSettings("gpt2", batch_size=2).fingerprint()
    assert base.fingerprint() != RunSettings("gpt2", sampling="triggered").fingerprint()
    assert base.fingerprint(device="a") != base.fingerprint(device="b")


def test_python_takes_what_the_command_line_takes():
    """GIVEN options named as on the command line, and lists and paths as text THEN settings are the fields'."""
    given = RunSettings.of(
        "tiny-gpt2", stages="profile,report", context_length="64,128", window=0.05, root="here",
        gpu_id=["0"], benchmark_precision="fp32,int8", trials=2,
    )  # fmt: skip
    fields = RunSettings(
        "tiny-gpt2", stages=("profile", "report"), context_lengths=(64, 128), window_s=0.05, root=Path("here"),
        gpu_id=("0",), benchmark=BenchmarkSettings(precisions=("fp32", "int8"), trials=2),
    )  # fmt: skip
    assert given == fields


def test_what_should_be_a_number_is_refused_in_one_line():
    """GIVEN text for numbers THEN it is read, or refused with its option."""
    assert RunSettings.of("tiny-gpt2", window="0.05", passes="3").window_s == 0.05
    with pytest.raises(UsageError, match="--passes 'three' is no number"):
        RunSettings.of("tiny-gpt2", passes="three")


def test_an_unknown_option_of_the_api_is_one_line():
    """GIVEN a keyword that no setting has THEN the error names the nearest one."""
    with pytest.raises(UsageError, match=r"no option is called 'passe': did you mean 'passes'"):
        RunSettings.of("tiny-gpt2", passe=3)


def test_the_words_are_those_of_the_replay():
    """The settings name the executions and layers without importing torch; replay knows the same ones."""
    from energyscope.replay import replayer, targets
    from energyscope.settings import run as settings
    from energyscope.settings.fields import settings_of

    assert settings.EXECUTIONS == replayer.EXECUTIONS
    assert ("auto", *targets.LAYERS) == settings_of(RunSettings)["layers"].choices
