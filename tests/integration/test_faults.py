"""Whole runs in which something fails: what the user is told, what is kept, and that no wrong number is valid.

The model runs on the CPU. Where a GPU's sensor fails, it is the fake NVML library that does, and everything above
it is real: the binding, the sampler's process, the meter and the stages.
"""

from __future__ import annotations

import errno
import gzip
import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from energyscope.cli.errors import REMEDIES
from energyscope.diagnostics import sensor
from energyscope.metering import claims, process_meter, waiting
from energyscope.metering.nvml.meter import NvmlMeter
from energyscope.reasons import read, reason
from energyscope.runs import schema
from energyscope.runs.store import lacking_stages, load_run, read_document, read_journal
from energyscope.stages import phases, session, settling
from energyscope.stages import run as stage
from energyscope.stages.measured_devices import MeasuredDevices

pytestmark = pytest.mark.timeout(600)
POWER_W = 200
BOARD = f"gpu GPU-aaaa Fake H200\nat 0 power_w {POWER_W}\nat 0 read_s 0.0005\nat 0 period_s 0.02"
COUNTER = "nvmlDeviceGetTotalEnergyConsumption"
QUICK = ["--granularity", "coarse", "--layers", "kinds", "--passes", "2", "--target-interval", "0.9",
         "--sequence-length", "16", "--max-examples", "4"]  # fmt: skip
ON_GPU = [*QUICK, "--window", "0.15", "--component-budget", "0.2", "--stages", "profile"]
ON_CPU = [*QUICK, "--window", "0.04", "--component-budget", "0.1", "--stages", "profile,ablate,correlate,report"]


@pytest.fixture
def board(fake_nvml, monkeypatch):
    """Return a function that makes a fake GPU, which runs measure with little idling."""

    def make(script=BOARD):
        shorter = {
            waiting: {"SETTLE_S": 0.1, "IDLE_S": 0.2},
            phases: {"PREHEAT_S": 0.1},
            session: {"REWARM_S": 0.1},
            settling: {"SETTLING_REPLAYS": 1, "LEADS_S": (0.0,), "SETTLED_S": 0.3},
            sensor: {"IDLE_WATCH_S": 0.4},
            process_meter: {"FIRST_TICKS_S": 0.4},
        }
        for module, constants in shorter.items():
            for name, value in constants.items():
                monkeypatch.setattr(module, name, value)
        monkeypatch.setattr(
            stage, "find_devices", lambda settings: MeasuredDevices(torch.device("cpu"), ("GPU-aaaa",))
        )
        return fake_nvml(script)

    return make


@contextmanager
def after_windows(path, number, act):
    """Do something once a run has finished some windows, while it goes on."""
    over = threading.Event()

    def wait():
        while not over.wait(0.02):
            if path.is_dir() and sum("window" in entry for entry in read_journal(path)) >= number:
                act()
                return

    thread = threading.Thread(target=wait)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def kill_sampler():
    """Kill the process that this one started to read the sensor."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
            words = (process / "cmdline").read_bytes()
        except (OSError, ValueError):
            continue
        if parent == os.getpid() and b"nvml.sampler" in words:
            os.kill(int(process.name), signal.SIGKILL)


def windows_of(path):
    return [entry["window"] for entry in read_journal(path) if "window" in entry]


# --- the sensor -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("happens", "says"),
    [
        ("fail * 15", "the GPU fell off the bus: see the kernel's log, reset the GPU or reboot"),
        ("fail * 4", "this user or container may not ask: have an administrator permit it"),
        ("frozen 1", "the energy counter has not changed for"),
        (None, "was killed (SIGKILL)"),
    ],
    ids=["lost", "no permission", "frozen", "sampler killed"],
)
def test_a_sensor_that_is_lost_ends_a_run_that_can_go_on(happens, says, board, tmp_path, command, monkeypatch):
    """WHEN the sensor is lost in mid-run THEN one line says why and how to go on; finished windows are kept."""
    machine, path = board(), tmp_path / "runs/cut"
    if happens == "frozen 1":
        monkeypatch.setattr(NvmlMeter, "silent_s", 0.5)
    origin_s = float(machine.script.read_text().split()[1])

    def fail():
        if happens is None:
            kill_sampler()
        else:
            machine.append(f"at {time.monotonic() - origin_s} {happens}")

    with after_windows(path, 3, fail):
        done = command(
            "run", "tiny-gpt2", "--weights", "random", "--name", "cut", *ON_GPU, "--quiet", cwd=tmp_path
        )
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert says in done.stderr
    assert done.stderr.endswith(f"`energyscope run --resume {path.relative_to(tmp_path)}` goes on\n")
    assert read_document(path)["stages"]["profile"]["state"] == "failed"
    measured = [window for window in windows_of(path) if window["energy_mj"] is not None]
    assert len(measured) >= 3
    assert all(window["power_w"] == pytest.approx(POWER_W, rel=0.1) for window in measured)


def test_a_counter_that_wraps_resets_and_fails_now_and_then_gives_no_wrong_energy(board, tmp_path, command):
    """WHEN the counter wraps at 2^32, is reset and fails now and then THEN all energies are those of 200 W.

    Windows over a reset are void and taken again; nothing else is lost.
    """
    begin_mj = 2**32 - 4 * POWER_W * 1000  # wraps after 4 s
    failing = "\n".join(
        f"at {second} fail {COUNTER} 999\nat {second + 0.05} fail {COUNTER} 0" for second in range(1, 60)
    )
    machine = board(f"{BOARD}\nat 0 counter_mj {begin_mj}\nat 4 counter_mj 0\n{failing}")
    origin_s = float(machine.script.read_text().split()[1])

    def reset():
        now_s = time.monotonic() - origin_s
        machine.append("\n".join(f"at {now_s + 0.05 + 0.15 * number} counter_mj 7000" for number in range(4)))

    path = tmp_path / "runs/odd"
    with after_windows(path, 2, reset):
        done = command(
            "run", "tiny-gpt2", "--weights", "random", "--name", "odd", *ON_GPU, "--quiet", cwd=tmp_path
        )
    assert done.returncode == 0, done.stderr
    windows = windows_of(path)
    void = [window["reason"] for window in windows if window["energy_mj"] is None]
    assert reason("counter-reset") in void
    for window in windows:
        if window["energy_mj"] is not None:
            assert window["power_w"] == pytest.approx(POWER_W, rel=0.1)
            assert window["energy_mj"] == pytest.approx(POWER_W * window["time_us"] / 1e3, rel=0.001)
    energy = load_run(path).energy
    assert energy["energy_mj"].notna().all()


def test_a_second_run_on_a_gpu_names_the_first(board, tmp_path, command, caplog):
    """GIVEN a run that measures a GPU WHEN another begins THEN it says whose the GPU is, at once and on record."""
    board()
    code = ("import pathlib, sys; from energyscope.metering import claims; "
            f"claims.FOLDER = pathlib.Path({str(claims.FOLDER)!r})\n"
            "with claims.claimed(['GPU-aaaa'], 'first'): print('held', flush=True); sys.stdin.read()")  # fmt: skip
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as first:
        assert first.stdout.readline() == b"held\n"
        done = command(
            "run", "tiny-gpt2", "--weights", "random", "--name", "second", "--stages", "report", "--quiet",
            cwd=tmp_path,
        )  # fmt: skip
        first.communicate()
    assert done.returncode == 0, done.stderr
    says = f"first (process {first.pid}) measures on GPU-aaaa too"
    assert says in caplog.text
    (kept,) = [read(text) for text in read_document(tmp_path / "runs/second")["warnings"]]
    assert says in kept.words


# --- the disk -------------------------------------------------------------------------------------------------


class FullDisk:
    """A disk whose writes below a folder fail from the n-th on of a file; the system's calls are what fails."""

    def __init__(self, monkeypatch, folder):
        self.folder, self.patch = str(folder), monkeypatch
        self.real = {"open": io.open, "os.open": os.open, "replace": os.replace}
        self.name, self.left, self.number = None, 0, errno.ENOSPC
        monkeypatch.setattr(io, "open", self._open)
        monkeypatch.setattr(os, "open", self._os_open)
        monkeypatch.setattr(os, "replace", self._replace)

    def fill(self, name, number, *, left):
        self.name, self.number, self.left = name, number, left

    def _meets(self, path):
        if self.name is None or not os.path.abspath(str(path)).startswith(self.folder):  # noqa: PTH100 - of links
            return
        if self.left > 0 and self.name in Path(str(path)).name:
            self.left -= 1
        if self.left == 0:
            raise OSError(self.number, os.strerror(self.number), str(path))

    def _open(self, path, mode="r", *arguments, **options):
        if set(mode) & set("wax+"):
            self._meets(path)
        return self.real["open"](path, mode, *arguments, **options)

    def _os_open(self, path, flags, *arguments, **options):
        if flags & (os.O_WRONLY | os.O_RDWR):
            self._meets(path)
        return self.real["os.open"](path, flags, *arguments, **options)

    def _replace(self, source, target, **options):
        self._meets(target)
        return self.real["replace"](source, target, **options)


def journal_lines(path):
    """Return the journal's lines as they are: what was measured anew since does not count in `read_journal`."""
    packed = path / schema.FINISHED_JOURNAL_FILE
    text = gzip.decompress(packed.read_bytes()) if packed.exists() else (path / schema.JOURNAL_FILE).read_bytes()
    return text.splitlines()


WRITES = [  # in the order of a run: the file, which of its writes fails, and with what
    (schema.JOURNAL_FILE, 4, errno.ENOSPC),
    (schema.RUN_FILE, 2, errno.EDQUOT),
    (schema.ENERGY_FILE, 1, errno.EFBIG),
    (schema.JOURNAL_FILE, 3, errno.ENOSPC),
    (schema.IMPACT_FILE, 1, errno.EROFS),
    (schema.EXAMPLES_FILE, 1, errno.EIO),
    (schema.MERGED_FILE, 1, errno.EACCES),
    (schema.CORRELATION_FILE, 1, errno.ENOSPC),
    (schema.REPORT_FILE, 1, errno.ENOSPC),
    (schema.FINISHED_JOURNAL_FILE, 1, errno.ENOSPC),
]


def test_a_disk_that_is_full_at_any_write_loses_nothing(tmp_path, command, monkeypatch):
    """WHEN each write of a run fails in turn THEN one line says what to do, and resuming goes on behind it."""
    disk = FullDisk(monkeypatch, tmp_path)
    words = ["tiny-gpt2", "--name", "cut", *ON_CPU]
    path, kept = tmp_path / "runs/cut", []
    for name, left, number in WRITES:
        disk.fill(name, number, left=left)
        done = command("run", *words, "--quiet", cwd=tmp_path)
        disk.fill(None, number, left=0)
        assert (done.returncode, done.stderr.count("\n")) == (1, 1), (name, done.stderr)
        remedy = "free some room there" if name == schema.REPORT_FILE else REMEDIES[number]
        assert f"{os.strerror(number)}: {remedy}" in done.stderr
        lines = journal_lines(path)
        assert lines[: len(kept)] == kept, name
        kept, words = lines, ["--resume", "cut"]
        assert not list(path.glob(".*")), "a temporary file was left"
        assert read_document(path)["name"] == "cut"
    done = command("run", *words, "--quiet", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert lacking_stages(path) == []
    names = {name for name, _, _ in WRITES} - {schema.FINISHED_JOURNAL_FILE}  # it was not compressed, and is whole
    assert {file.name for file in path.iterdir()} == names
    assert load_run(path).energy["energy_mj"].notna().all()


# --- the model ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (ValueError("planted"), "the model fails in GPT2MLP.forward of test_faults.py (ValueError: planted)"),
        (
            RuntimeError("CUDA error: an illegal memory access was encountered\nCompile with TORCH_USE_CUDA_DSA"),
            "the GPU failed (CUDA error: an illegal memory access was encountered): look for the cause",
        ),
        (torch.OutOfMemoryError("CUDA out of memory."), "out of memory while ablating: free memory on the device"),
    ],
    ids=["raises", "CUDA error", "out of memory"],
)
def test_a_model_that_fails_in_a_later_stage_keeps_its_energies(error, says, tmp_path, command, monkeypatch):
    """WHEN a component raises in the ablations THEN one line says what and where, and the profile is kept."""
    from transformers.models.gpt2.modeling_gpt2 import GPT2MLP

    path, forward = tmp_path / "runs/cut", GPT2MLP.forward
    faulty = [True]

    def failing(self, *arguments, **options):
        if faulty[0] and (path / schema.ENERGY_FILE).exists():
            raise error
        return forward(self, *arguments, **options)

    failing.__name__ = failing.__qualname__ = "forward"
    failing.__code__ = failing.__code__.replace(co_name="forward")
    monkeypatch.setattr(GPT2MLP, "forward", failing)
    done = command("run", "tiny-gpt2", "--name", "cut", *ON_CPU, "--quiet", cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert says in done.stderr
    before = (path / schema.ENERGY_FILE).read_bytes()
    faulty[0] = False
    done = command("run", "--resume", "cut", "--quiet", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (path / schema.ENERGY_FILE).read_bytes() == before
    assert lacking_stages(path) == []


def test_a_component_that_returns_nan_gives_no_impact_and_a_note(tmp_path, command, monkeypatch):
    """WHEN a component returns NaN THEN no impact is shown, the line says so, and the energies carry a note."""
    from transformers.models.gpt2.modeling_gpt2 import GPT2MLP

    forward = GPT2MLP.forward
    monkeypatch.setattr(GPT2MLP, "forward", lambda self, hidden: forward(self, hidden) * float("nan"))
    options = [*ON_CPU, "--granularity", "medium"]
    done = command("run", "tiny-gpt2", "--name", "nan", *options, "--quiet", cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "outputs are not finite for 4 of 4 examples: impact cannot be measured" in done.stderr
    run = load_run(tmp_path / "runs/nan")
    assert run.impact is None
    assert run.energy is not None
    assert reason("outputs-are-nan", component="transformer.h.0.mlp") in run.document["warnings"]
    assert command("report", "nan", cwd=tmp_path).returncode == 0
    assert "outputs hold NaN from" in (run.path / schema.REPORT_FILE).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "content", "code", "says"),
    [
        ("cut.jsonl", b'{"text": "a story"}\n{"text": "ano', 1, "line 2, is not JSON"),
        ("binary.txt", b"\xff\xfe\x00", 1, "cannot be read as UTF-8"),
        ("other.csv", b"sentence\na story\n", 2, "--text-column"),
        ("cut.safetensors", b"\x10\0\0\0\0\0\0\0{", 1, "cannot be read"),
    ],
)
def test_data_that_cannot_be_read_begin_no_run(name, content, code, says, tmp_path, command):
    """GIVEN a broken data file THEN one line says where, and no run is begun."""
    (tmp_path / name).write_bytes(content)
    done = command("run", "tiny-gpt2", "--data", name, "--quiet", cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (code, 1)
    assert says in done.stderr
    assert list(tmp_path.glob("runs/*")) == []


# --- the journal ----------------------------------------------------------------------------------------------


@pytest.fixture
def unfinished(tmp_path, command):
    """A run that was killed after its ablations: a plain journal, and no table."""
    done = command("run", "tiny-gpt2", "--name", "cut", *ON_CPU, "--quiet", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    path = tmp_path / "runs/cut"
    entries = read_journal(path)
    for file in path.iterdir():
        if file.name != schema.RUN_FILE:
            file.unlink()
    (path / schema.JOURNAL_FILE).write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    document = read_document(path)
    for name in ("profile", "ablate", "correlate", "report"):
        document["stages"][name]["state"] = "running"
    (path / schema.RUN_FILE).write_text(json.dumps(document))
    return path


def test_a_journal_that_ends_anywhere_is_reported(unfinished, tmp_path, command):
    """GIVEN a run whose journal was cut anywhere THEN `report` draws what is whole, and never shows a bug."""
    content = (unfinished / schema.JOURNAL_FILE).read_bytes()
    document = (unfinished / schema.RUN_FILE).read_bytes()
    energies = []
    for end in (0, 1, *range(7, len(content), len(content) // 7), len(content)):
        for file in unfinished.iterdir():
            file.unlink()
        (unfinished / schema.RUN_FILE).write_bytes(document)
        (unfinished / schema.JOURNAL_FILE).write_bytes(content[:end])
        done = command("report", "cut", "--quiet", cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, ""), (end, done.stderr)
        energy = load_run(unfinished).energy
        energies.append(0 if energy is None else int(energy["energy_mj"].notna().sum()))
    assert energies[0] == 0
    assert energies[-1] == len(energy)
    assert energies == sorted(energies)


def test_a_journal_that_is_no_text_is_one_line(unfinished, tmp_path, command):
    """GIVEN a journal of other bytes THEN `report` names it and what to do; `show`, which needs none, works."""
    (unfinished / schema.JOURNAL_FILE).write_bytes(b"\x7fELF\0\xff\n" * 9)
    done = command("report", "cut", cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "journal.jsonl cannot be read" in done.stderr
    assert "restore it, or measure again" in done.stderr
    done = command("show", "cut", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
