"""A sweep on a real GPU: cells share a started sensor, and foretell a length that was left out.

About a minute on an H200: coarse components and one window of each are enough for what is claimed here.
"""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from energyscope.runs.store import load_run  # noqa: E402
from energyscope.settings.run import RunSettings  # noqa: E402
from energyscope.stages.predict import PredictSettings, predict  # noqa: E402
from energyscope.stages.sweep import SweepSettings, sweep  # noqa: E402

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]
LENGTHS = (32, 128, 256, 512)
LEFT_OUT = 256


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    common = RunSettings(
        "llama-3.2-1b", root=tmp_path_factory.mktemp("runs"), weights="random", phase="prefill", passes=1,
        granularity="coarse", layers="kinds", execution="cuda-graph", component_budget_s=0.4,
    )  # fmt: skip
    return sweep(SweepSettings(common, lengths=LENGTHS, precisions=("bf16",), name="swept"))


def test_every_cell_is_measured_by_a_counter(made):
    """Longer passes take more joules, and each run has ticks of its own only."""
    runs = list(made.runs().values())
    assert [cell.state for cell in made.cells] == ["done"] * len(LENGTHS)
    energies = [run.energy.iloc[0]["energy_mj"] for run in runs]
    assert energies == sorted(energies)
    assert not any(run.modelled for run in runs)
    assert {run.document["sensor"]["meter"] for run in runs} == {"nvml"}
    ends = [run.document["trace_origin_s"] for run in runs]
    assert ends == sorted(ends)


def test_a_length_that_was_left_out_is_foretold(made):
    """GIVEN the other lengths THEN the whole model's energy at the left-out one is within 15 %."""
    cells = {cell.tokens: load_run(made.path / cell.name) for cell in made.cells}
    truth = cells.pop(LEFT_OUT).energy.iloc[0]["energy_mj"]
    found = predict(list(cells.values()), PredictSettings("llama-3.2-1b", sequence_length=LEFT_OUT))
    assert found["whole"]["energy_mj"]["value"] == pytest.approx(truth, rel=0.15)
