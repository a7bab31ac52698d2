"""The processes of torchrun do one run together, or are told in one line why they cannot."""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch.distributed as dist

from energyscope import bundled
from energyscope.errors import DeviceError, ModelError, UsageError
from energyscope.reasons import reason
from energyscope.settings.run import RunSettings
from energyscope.stages import ranks
from energyscope.stages.ranks import Dismissed, Ranks, require_torchrun, speaking_for_all

NAMES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")


@pytest.fixture
def started(monkeypatch):
    """Return a function that makes this process look like one of torchrun's."""
    monkeypatch.setattr(ranks, "LET_SPEAK_S", 0.0)
    before = [(number, signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM)]

    def start(*values):
        for name, value in zip(NAMES, values, strict=True):
            monkeypatch.setenv(name, str(value))

    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    yield start
    for number, handler in before:
        signal.signal(number, handler)


def test_torchrun_says_which_process_this_is(started):
    """GIVEN torchrun's environment THEN the process knows its number; without it, it is one alone."""
    assert ranks.ranks() == Ranks(0, 1, 0, 1)
    started(1, 2, 1, 2)
    assert ranks.ranks() == Ranks(1, 2, 1, 2)
    assert not ranks.ranks().leads


def test_a_split_without_torchrun_says_how_to_start_it(started):
    """The line is a command that can be copied."""
    with pytest.raises(UsageError, match="torchrun --nproc-per-node 2 -m energyscope run"):
        require_torchrun(True)
    assert require_torchrun(False).leads


def test_torchrun_without_a_split_is_refused_once(started):
    """Two runs of one name would write over each other: the first process says so, the other one says nothing."""
    started(0, 2, 0, 2)
    with pytest.raises(UsageError, match="add --tensor-parallel"):
        require_torchrun(False)
    started(1, 2, 1, 2)
    with pytest.raises(Dismissed) as ended:
        require_torchrun(False)
    assert ended.value.code == 2


def test_several_machines_are_refused(started):
    """Only this machine's meters can be read."""
    started(0, 4, 0, 2)
    with pytest.raises(UsageError, match="measures one machine"):
        require_torchrun(True)


def test_what_is_wrong_with_one_process_alone_is_said_by_it(started):
    """What all processes find wrong is said once; what is wrong with a device, with the process's number."""
    second = Ranks(1, 2, 1, 2)
    with pytest.raises(Dismissed), speaking_for_all(second):
        raise ModelError("no weights")
    with pytest.raises(DeviceError, match="process 1 of 2: cuda:1 is full"), speaking_for_all(second):
        raise DeviceError("cuda:1 is full")
    with pytest.raises(ModelError), speaking_for_all(Ranks(0, 2, 0, 2)):
        raise ModelError("no weights")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"execution": "cuda-graph"}, "use --execution eager"),
        ({"device_map": "auto"}, "--device-map auto does not go"),
        ({"gpu_id": ("1",)}, "--gpu-id 1 does not go"),
        ({"device": "cuda:1"}, "--device cuda:1 does not go"),
        ({"precision": "nf4"}, "not nf4"),
        ({"stages": ("benchmark",)}, "--stages profile,report"),
    ],
)
def test_what_a_split_model_cannot_do_is_refused(changes, message):
    """Each in a line, before anything is loaded."""
    with pytest.raises(UsageError, match=message):
        RunSettings.of("tiny-llama", tensor_parallel=True, **changes).check()


def test_other_stages_are_skipped_with_the_reason():
    """Of the stages that were asked for, those of a split model are left, and the others say why."""
    settings = RunSettings.of("tiny-llama", tensor_parallel=True)
    left = ranks.split_settings(settings)
    assert left.stages == ("profile", "report")
    assert ranks.skipped_because(left, "ablate", settings.stages) == reason("not-split")
    assert ranks.skipped_because(left, "ablate", ("profile",)) == reason("not-asked-for")
    whole = RunSettings.of("tiny-llama")
    assert ranks.split_settings(whole) == whole


def torchrun(folder: Path, root: Path, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    ours = ["-m", "energyscope", "run", str(folder), "--tensor-parallel", "--root", str(root), "--name", "split"]
    quick = ["--layers", "sample", "--window", "0.03", "--component-budget", "0.2", "--phase", "prefill"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    return subprocess.Popen(
        [*command, *ours, *quick, *options],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def ended(started: subprocess.Popen[str], seconds: float) -> str:
    """Return what was said up to the end; nothing is left running where the end does not come."""
    try:
        return started.communicate(timeout=seconds)[0]
    except subprocess.TimeoutExpired:
        started.kill()  # its processes end with it: they lose their connection
        raise


@pytest.fixture
def folder(tmp_path):
    return shutil.copytree(bundled.directory("tiny-llama"), tmp_path / "model")


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.skipif(not dist.is_gloo_available(), reason="the processes talk by gloo")
def test_two_processes_make_one_run(folder, tmp_path):
    """GIVEN torchrun with two processes THEN there is one run with closed books, and both end well."""
    started = torchrun(folder, tmp_path / "runs", "--stages", "profile,ablate", "--passes", "3")
    output = ended(started, 500)
    assert started.returncode == 0, output
    assert output.count("energyscope report") == 1
    (run,) = (tmp_path / "runs").iterdir()
    document = json.loads((run / "run.json").read_text())
    assert document["stages"]["profile"]["state"] == "done"
    assert document["stages"]["ablate"] == {"state": "skipped", "reason": "not-split", "seconds": None}
    assert reason("split-over-processes", processes=2) in document["warnings"]
    rows = list(csv.DictReader((run / "per_layer_energy.csv").open()))
    model = next(row for row in rows if row["component"] == "model")
    assert float(model["energy_mj"]) > 0
    assert model["unexplained_mj"]
    assert {"embedding", "layer", "attention", "mlp", "lm_head"} <= {row["kind"] for row in rows}
    assert all(row["energy_mj"] for row in rows if row["kind"] in {"attention", "mlp"})


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.skipif(not dist.is_gloo_available(), reason="the processes talk by gloo")
def test_stopping_ends_both_and_keeps_what_was_finished(folder, tmp_path):
    """GIVEN Ctrl-C in the middle of the profile THEN no process is left, and the finished windows are a table."""
    started = torchrun(folder, tmp_path / "runs", "--stages", "profile", "--passes", "500")
    journal = tmp_path / "runs" / "split" / "journal.jsonl"
    until = time.monotonic() + 300
    while time.monotonic() < until and started.poll() is None:
        if journal.exists() and journal.read_text().count('"window"') > 3:
            break
        time.sleep(0.2)
    started.send_signal(signal.SIGINT)
    output = ended(started, 200)  # torchrun kills what is left after 30 s: then nobody says what follows
    assert "stopped: what was finished is in" in output
    document = json.loads((journal.parent / "run.json").read_text())
    assert document["stages"]["profile"]["state"] == "interrupted"
