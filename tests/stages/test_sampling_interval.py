"""The interval of a sensor's samples: searched once for a board and driver, and kept."""

from types import SimpleNamespace

import pytest
import torch

from energyscope import user_files
from energyscope.metering.group import MeterGroup
from energyscope.stages import sampling_interval as sampling
from energyscope.stages.sampling_interval import sampling_interval, search_s
from energyscope.testing import SimulatedGpu

CUDA = torch.device("cuda")


class Board:
    """Stands in for NVML's, with a driver."""

    driver = "580"

    def __init__(self, uuid):
        self.uuid = uuid

    def facts(self):
        return {"driver": Board.driver}


@pytest.fixture
def searches(monkeypatch, tmp_path):
    """Keep intervals in a folder of the test, and count the searches, each of which finds another interval."""
    found = []

    def find(meter, replayer, bursts):
        found.append(0.0008 + len(found) * 1e-5)
        return found[-1]

    monkeypatch.setattr(user_files.typer, "get_app_dir", lambda name: str(tmp_path / "settings"))
    monkeypatch.setattr(sampling, "Board", Board)
    monkeypatch.setattr(sampling, "find_sampling", find)
    monkeypatch.setattr(sampling, "bursts_on", lambda device: None)
    return found


def meters(device="GPU-a", name="nvml"):
    meter = SimpleNamespace(name=name, device=device, modelled=False)
    return MeterGroup([meter])


def test_a_board_is_searched_once(searches):
    """GIVEN a board that was searched THEN the next run knows its interval, unless it is asked to search again."""
    assert [sampling_interval(meters(), CUDA) for _ in range(2)] == [0.0008, 0.0008]
    assert sampling_interval(meters(), CUDA, again=True) == pytest.approx(0.00081)
    assert sampling_interval(meters(), CUDA) == pytest.approx(0.00081)
    assert len(searches) == 2


def test_the_search_is_announced_until_it_is_done(searches):
    """GIVEN a board not searched THEN its search takes some seconds; GIVEN a searched one, or no sensor, none."""
    assert search_s(meters(), CUDA) > 0
    sampling_interval(meters(), CUDA)
    assert search_s(meters(), CUDA) == 0
    assert search_s(meters("GPU-b", name="modelled"), CUDA) == search_s(meters("GPU-b"), torch.device("cpu")) == 0


def test_a_full_device_is_searched_later(searches, monkeypatch):
    """GIVEN a model that leaves no memory for the bursts THEN the interval is unknown, and searched later."""
    with monkeypatch.context() as full:
        full.setattr(sampling, "bursts_on", _no_memory)
        assert sampling_interval(meters(), CUDA) is None
    assert sampling_interval(meters(), CUDA) == 0.0008
    assert len(searches) == 1


def _no_memory(device):
    raise torch.OutOfMemoryError(f"no room on {device}")


def test_another_board_or_driver_is_searched(searches, monkeypatch):
    """Boards of one type differ, and a driver may change how a sensor is read."""
    sampling_interval(meters(), CUDA)
    sampling_interval(meters("GPU-b"), CUDA)
    monkeypatch.setattr(Board, "driver", "590")
    sampling_interval(meters(), CUDA)
    assert len(searches) == 3


def test_a_board_that_shows_none_is_not_searched_again(searches, monkeypatch):
    """GIVEN a board whose interval does not show THEN it is None, and remembered."""
    monkeypatch.setattr(sampling, "find_sampling", lambda *_: searches.append(None))
    assert [sampling_interval(meters(), CUDA) for _ in range(2)] == [None, None]
    assert len(searches) == 1


@pytest.mark.parametrize("damage", ["", "{", "[1]"])
def test_a_damaged_file_costs_a_search(searches, tmp_path, damage):
    """GIVEN a file that holds no intervals THEN the board is searched, and the file is right again."""
    path = tmp_path / "settings" / sampling.FILE
    path.parent.mkdir()
    path.write_text(damage)
    assert [sampling_interval(meters(), CUDA) for _ in range(2)] == [0.0008, 0.0008]
    assert len(searches) == 1


def test_a_file_that_cannot_be_written_is_no_error(searches, tmp_path):
    """GIVEN a file in the place of the folder THEN each run searches, and measures all the same."""
    (tmp_path / "settings").write_text("in the way")
    assert sampling_interval(meters(), CUDA) == 0.0008
    assert sampling_interval(meters(), CUDA) == pytest.approx(0.00081)
    assert len(searches) == 2


@pytest.mark.parametrize("group", [meters(name="nvidia-smi"), MeterGroup([SimulatedGpu()])])
def test_other_meters_are_not_searched(searches, group):
    """GIVEN a meter that is not NVML's counter, or a CPU THEN nothing is searched."""
    assert sampling_interval(group, CUDA) is None
    assert sampling_interval(meters(), torch.device("cpu")) is None
    assert searches == []
