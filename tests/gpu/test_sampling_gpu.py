"""The interval at which a real board samples its power."""

import pytest

from energyscope import user_files
from energyscope.settings.run import RunSettings
from energyscope.stages.measured_devices import find_devices, open_meters
from energyscope.stages.sampling_interval import sampling_interval

pytestmark = pytest.mark.gpu
SEARCHES = 4


@pytest.mark.timeout(200)
def test_the_interval_found_again_is_the_same(monkeypatch, tmp_path):
    """GIVEN a board that is searched four times THEN the intervals that are found agree to 0.1 %."""
    monkeypatch.setattr(user_files.typer, "get_app_dir", lambda name: str(tmp_path))
    settings = RunSettings("gpt2", weights="random", device="cuda:0")
    where = find_devices(settings)
    with open_meters(settings, where.gpus) as meter:
        found = [sampling_interval(meter, where.device, again=True) for _ in range(SEARCHES)]
    assert all(found)
    assert found == pytest.approx([found[0]] * SEARCHES, rel=0.001)
