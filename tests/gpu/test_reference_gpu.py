"""The reference workload on a real board. Run with `pytest -m gpu tests/gpu/test_reference_gpu.py -s`."""

import time

import pytest

from energyscope import user_files
from energyscope.comparison.basis import TOTAL
from energyscope.comparison.boards import board_factor
from energyscope.stages.doctor import examine

pytestmark = pytest.mark.gpu
LONGEST_S = 120.0
CLOSE = 0.01


@pytest.mark.timeout(300)
def test_one_board_measured_twice_is_one_board(monkeypatch, tmp_path):
    """GIVEN one board measured twice, each in under two minutes, THEN the factor is 1, or nearly."""
    monkeypatch.setattr(user_files.typer, "get_app_dir", lambda name: str(tmp_path))
    references = []
    for board in ("once", "again"):
        begin = time.monotonic()
        found = examine("cuda:0", reference=True)["reference"]
        print(found, f"{time.monotonic() - begin:.0f} s")  # noqa: T201 - for whoever runs it by hand
        assert time.monotonic() - begin < LONGEST_S
        assert found["energy_mj"], found.get("reason")
        assert found["at_power_limit"] is False
        references.append({"device": {"reference": {**found, "board": board}}})
    factor = board_factor(*references, TOTAL).factor
    print(factor)  # noqa: T201
    assert not factor.excludes(1.0) or abs(factor.value - 1) < CLOSE
    assert examine("cuda:0")["reference"] == {**found, "outdated": []}
