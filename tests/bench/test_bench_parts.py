"""The benchmark's own parts, on a CPU: fixed loads, the simple methods on stand-ins, tables, and the dry run."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import bench_tables
import bench_ways
import pytest
import torch
from bench_loads import FixedLoad, Spec
from bench_ways import NoValueError, SmiPower, Value

from energyscope.errors import UsageError
from energyscope.loading.options import BY_TORCH

FOLDER = Path(__file__).parent
CPU = torch.device("cpu")


def test_a_spec_is_read_and_written():
    """A component's name survives being read; what is no name is refused with the form to use."""
    assert str(Spec.parse("llama-3.2-1b:1:mlp")) == "llama-3.2-1b:1:mlp:cuda-graph"
    assert Spec.parse("distilbert:128:norm:eager").execution == "eager"
    with pytest.raises(UsageError, match="model:tokens:kind"):
        Spec.parse("mlp")


def test_a_fixed_load_makes_as_many_calls_as_asked():
    """Eager calls go round in turn, exactly as many as asked for."""
    made = []
    load = FixedLoad([lambda: made.append("a"), lambda: made.append("b")], CPU, "eager")
    assert load.run(5) == 5
    assert made == ["a", "b", "a", "b", "a"]


class InGraphs(FixedLoad):
    """A load whose graphs are played by the host."""

    made = 0

    def _captured(self, calls):
        def replay():
            time.sleep(calls * 1e-5)
            self.made += calls

        return SimpleNamespace(replay=replay)


@pytest.mark.parametrize("count", [7, 100, 10_000])
def test_graphs_make_as_many_calls_as_asked(count):
    """GIVEN calls of 10 us THEN no graph holds more than some hundred, and the calls made are those asked for."""
    load = InGraphs([lambda: None] * 6, CPU, "cuda-graph")
    before = load.made
    assert load.run(count) == count
    assert load.made - before == count
    assert max(load._known) <= 150


def test_the_counters_difference_is_divided_by_the_calls():
    """GIVEN a counter that rises by 3 mJ a call THEN that is the value."""
    made = []
    load = FixedLoad([lambda: made.append(1)], CPU, "eager")
    assert bench_ways.counter_difference(lambda: 3.0 * len(made), load, 100).energy_mj == pytest.approx(3)


def test_a_zeus_window_is_in_millijoules_a_call():
    """Zeus gives joules for each GPU: they are summed and divided by the calls."""
    monitor = SimpleNamespace(
        begin_window=lambda key: None, end_window=lambda key: SimpleNamespace(gpu_energy={0: 0.5})
    )
    load = FixedLoad([lambda: None], CPU, "eager")
    assert bench_ways.zeus_window(monitor, load, 100).energy_mj == pytest.approx(5)


@pytest.fixture
def smi(tmp_path, monkeypatch):
    """Return a function that puts a stand-in ``nvidia-smi`` on the path, which prints a line every 20 ms."""

    def make(line):
        script = tmp_path / "nvidia-smi"
        script.write_text(f"#!/bin/sh\nwhile true; do echo '{line}'; sleep 0.02; done\n")
        script.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    return make


def test_sampled_power_times_time_is_the_energy(smi):
    """GIVEN nvidia-smi that says 250 W THEN a call of 1 ms takes 250 mJ."""
    smi("250.00")
    load = FixedLoad([lambda: time.sleep(0.001)], CPU, "eager")
    with SmiPower("GPU-test").watching() as power:
        value = bench_ways.smi_window(power, load, 100)
    assert value.energy_mj == pytest.approx(250 * value.seconds * 1e3 / 100, rel=1e-6)
    assert 0.1 < value.seconds < 1


def test_a_board_without_power_gives_no_value(smi, monkeypatch):
    """WHEN nvidia-smi prints [N/A] THEN there is no value, with the reason, and not 0 W."""
    smi("[N/A]")
    monkeypatch.setattr(bench_ways, "FIRST_SAMPLE_S", 0.3)
    with pytest.raises(NoValueError, match="no power"), SmiPower("GPU-test").watching():
        pass


def test_speed_ups_follow_from_seconds_and_spread():
    """GIVEN a window in 0.5 s, five in 2 s, CLEAR in 40 s, Zeus 10 % in 1 s THEN the ratios follow."""
    rows = [
        bench_tables.row("c", bench_tables.OURS, [Value(0.99, 2.0), Value(1.01, 2.0)], 1.0),
        bench_tables.row("c", bench_tables.OURS_ONE, [Value(0.99, 0.5), Value(1.01, 0.5)], 1.0),
        bench_tables.row("c", bench_tables.CLEAR, [Value(0.9, 20.0), Value(1.1, 20.0)], 1.0),
        bench_tables.row("c", "Zeus 1 s", [Value(0.9, 1.0), Value(1.1, 1.0)], 1.0),
    ]
    gains = bench_tables.speed_ups(rows)[0]
    assert gains["clear_over_window"] == pytest.approx(80)
    assert gains["clear_over_interval"] == pytest.approx(20)
    assert gains["clear_equal_over_interval"] == pytest.approx(20 * 10 / 2**0.5)
    assert gains["zeus_over_interval"] == pytest.approx(5)


def test_an_interval_is_held_against_the_reference():
    """The row says how many of the values' own intervals hold the reference."""
    values = [Value(1.0, 1.0, 0.9, 1.1), Value(1.2, 1.0, 1.15, 1.25)]
    found = bench_tables.row("c", bench_tables.OURS, values, 1.0)
    assert found["with_reference"] == "1/2"
    assert found["distance"] == pytest.approx(0.1)
    assert found["largest_distance"] == pytest.approx(0.2)


@pytest.mark.slow
@pytest.mark.ci
def test_the_script_runs_without_a_gpu(tmp_path):
    """The dry run measures on the modelled meter, and says of every other method why it was not measured."""
    done = subprocess.run(
        [sys.executable, str(FOLDER / "methods.py"), "--quick", "--device", "cpu", "--out", str(tmp_path),
         "--components", "tiny-llama:16:mlp:eager"],
        capture_output=True, text=True, check=False, env={**os.environ, "HF_HUB_OFFLINE": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    document = json.loads((tmp_path / "methods.json").read_text())
    measured = {row["method"] for row in document["rows"] if row["reason"] is None}
    reasons = {row["method"]: row["reason"] for row in document["rows"] if row["reason"] is not None}
    assert measured == {"reference", bench_tables.OURS, bench_tables.OURS_ONE}
    assert set(reasons.values()) == {"it needs an NVIDIA GPU"}
    assert set(reasons) == {"clear", "sensitivity", "zeus", "nvidia-smi"}
    with (tmp_path / "methods.csv").open() as file:
        assert len(list(csv.DictReader(file))) == len(document["rows"])
    assert done.stdout == (tmp_path / "methods.md").read_text()


@pytest.mark.slow
@pytest.mark.ci
def test_the_polling_script_runs_without_a_gpu(tmp_path):
    """The dry run of the polling benchmark ends with a table of its one component."""
    done = subprocess.run(
        [sys.executable, str(FOLDER / "polling.py"), "--quick", "--device", "cpu", "--out", str(tmp_path)],
        capture_output=True, text=True, check=False, env={**os.environ, "HF_HUB_OFFLINE": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == (tmp_path / "polling.md").read_text()
    (row,) = json.loads((tmp_path / "polling.json").read_text())["rows"]
    assert row["component"] == "tiny-llama:16:mlp:eager"
    assert row["pairs"] == 2


def test_kernels_are_timed_in_every_precision():
    """GIVEN one small shape THEN the script prints a time above zero for BF16 and each precision."""
    script = [sys.executable, str(FOLDER / "linear_kernels.py"), "--device", "cpu"]
    command = [*script, "--shapes", "64x64", "--rows", "2"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    header, row = ([cell.strip() for cell in line.strip("| ").split("|")] for line in (printed[0], printed[2]))
    assert header[2:] == ["bf16", *BY_TORCH]
    assert len(row) == len(header)
    assert all(float(cell) > 0 for cell in row[2:])
