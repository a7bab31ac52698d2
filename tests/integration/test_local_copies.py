"""A model folder and a local copy of its data set: what `run distilbert` does, without network."""

from __future__ import annotations

import shutil

import pytest
from dataset_fixtures import SST2, archive, hub_cache, repository

import energyscope
from energyscope import bundled
from energyscope.settings.benchmark import BenchmarkSettings

QUICK = BenchmarkSettings(("fp32", "bf16"), num_iters=3, warmup_steps=1, trials=2, trial_seconds=0.1)


@pytest.fixture
def offline(monkeypatch):
    """Make any use of the network an error."""

    def refuse(*arguments, **options):
        raise AssertionError("the network was used")

    monkeypatch.setattr("socket.socket.connect", refuse)


def model_folder(name, target):
    """Copy a bundled model to a folder of its own."""
    return shutil.copytree(bundled.directory(name), target / name)


def measure(model, data, tmp_path):
    return energyscope.run(
        str(model), data=str(data), stages=("benchmark", "ablate"), granularity="coarse", methods=("zero",),
        joint="off", predict=False, sequence_length=8, benchmark=QUICK, root=tmp_path / "runs", name="one",
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["repository", "cache"])
def test_a_classifier_is_judged_on_a_local_copy_of_sst2(layout, tmp_path, offline):
    """GIVEN the validation split as the hub keeps it THEN accuracy is over its four sentences."""
    folder = tmp_path / "sst2"
    if layout == "cache":
        folder = hub_cache(tmp_path, "stanfordnlp/sst2", lambda snapshot: repository(snapshot, SST2))
    else:
        repository(folder, SST2)
    run = measure(model_folder("tiny-distilbert", tmp_path), folder, tmp_path)
    assert set(run.trials["num_samples_accuracy"]) == {4}
    assert run.trials["accuracy"].isin([0.0, 0.25, 0.5, 0.75, 1.0]).all()
    assert (run.impact["examples"] == 4).all()
    assert "validation" in run.document["workload"]["evaluation"]["source"]


@pytest.mark.slow
def test_a_language_model_is_judged_on_a_local_copy_of_wikitext2(tmp_path, offline):
    """GIVEN the archive's test file THEN perplexity is of that text, at both precisions."""
    run = measure(model_folder("tiny-gpt2", tmp_path), archive(tmp_path / "wikitext"), tmp_path)
    assert run.trials["perplexity"].gt(1).all()
    bf16 = next(prediction for prediction in run.benchmark["predictions"] if prediction["precision"] == "bf16")
    assert bf16["kl"]["value"] > 0
    assert "test" in run.document["workload"]["evaluation"]["source"]
