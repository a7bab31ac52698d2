"""The simulation of large sweeps: what it says where the answer is known."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "tools/scale_out.py"
FREE = ("--start-s=0", "--engine-s=0", "--lost=0", "--spread=0", "--read-s=0")


def simulated(*words: str) -> dict[str, float]:
    done = subprocess.run([sys.executable, SCRIPT, "--json", *words], capture_output=True, text=True, check=True)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def test_without_costs_it_takes_what_measuring_takes() -> None:
    """GIVEN nothing but measuring THEN eight GPUs take an eighth, all the time, and the energy is watts x time."""
    result = simulated("--cells=64", "--gpus=8", "--measure-s=90", "--busy-w=100", *FREE)
    assert result["ideal_hours"] == pytest.approx(0.2)
    assert result["hours"] == pytest.approx(0.2, rel=0.01)  # and the head's last result
    assert result["measuring_share"] == pytest.approx(1.0)
    assert result["gpu_kwh"] == pytest.approx(64 * 90 * 100 / 3.6e6)


def test_what_is_lost_is_measured_again() -> None:
    """GIVEN workers that are lost THEN every cell is measured all the same, later and with more energy."""
    none, some = (simulated("--cells=200", "--gpus=8", f"--lost={share}") for share in (0.0, 0.2))
    assert none["measured_again"] == 0 < some["measured_again"]
    assert some["measuring_kwh"] == pytest.approx(none["measuring_kwh"], rel=0.1)
    assert none["gpu_kwh"] < some["gpu_kwh"]
    assert none["hours"] < some["hours"]
