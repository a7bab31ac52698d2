"""On a real GPU with GPM counters (Hopper and later): what it is busy with. Run with `pytest -m gpu tests/gpu`."""

from __future__ import annotations

import time

import pytest

torch = pytest.importorskip("torch")

from energyscope.metering.activity import activity_of, limited_by  # noqa: E402
from energyscope.metering.choice import open_meter  # noqa: E402
from energyscope.metering.group import MeterGroup  # noqa: E402
from energyscope.metering.waiting import read_windows  # noqa: E402
from energyscope.replay.replayer import Replayer  # noqa: E402
from energyscope.stages.facts import gpu_uuid  # noqa: E402

DEVICE = torch.device("cuda", 0)
HOPPER = torch.cuda.is_available() and torch.cuda.get_device_capability(DEVICE) >= (9, 0)
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not HOPPER, reason="GPM counters need Hopper or later")]

SECONDS = 1.0


@pytest.fixture(scope="module")
def meters():
    with MeterGroup([open_meter("nvml", gpu_uuid=gpu_uuid(DEVICE))]) as started:
        yield started


def activity(meters, round_, **options):
    """Return what the board is busy with while it replays a round."""
    calls = Replayer(DEVICE).run(round_, SECONDS, **options)
    (window,) = read_windows(meters, calls)
    return window.activity


@pytest.fixture(scope="module")
def matmul():
    matrix = torch.randn(8192, 8192, device=DEVICE, dtype=torch.bfloat16)
    return [lambda: matrix @ matrix]


def test_a_large_matmul_keeps_the_tensor_cores_busy(meters, matmul):
    """GIVEN a BF16 product of 8192 x 8192 THEN tensor cores are above 40 % of their peak, and limit it."""
    busy = activity(meters, matmul)
    assert busy.tensor > 0.4
    assert busy.dram < busy.tensor <= busy.sm + 0.05
    assert limited_by(busy) == "tensor cores"


def test_float32_without_tensor_cores_is_limited_by_the_others(meters):
    """GIVEN a product in float32 proper THEN the CUDA cores limit it, and it is not said to wait."""
    matrix = torch.randn(4096, 4096, device=DEVICE)
    assert not torch.backends.cuda.matmul.allow_tf32
    assert limited_by(activity(meters, [lambda: matrix @ matrix])) == "CUDA cores"


def test_a_stream_from_memory_is_limited_by_it(meters):
    """GIVEN a vector times weights beyond the L2 cache, as in decoding, THEN the memory limits, above 40 %."""
    vector = torch.randn(1, 8192, device=DEVICE, dtype=torch.bfloat16)
    weights = [torch.randn(8192, 16384, device=DEVICE, dtype=torch.bfloat16) for _ in range(3)]
    busy = activity(meters, [lambda weight=weight: vector @ weight for weight in weights])
    assert busy.dram > 0.4
    assert limited_by(busy) == "memory"


def test_a_host_that_launches_too_slowly_lets_the_board_wait(meters):
    """GIVEN kernels far shorter than a launch THEN the board waits."""
    little = torch.randn(64, device=DEVICE)
    assert limited_by(activity(meters, [lambda: little.add(1)])) == "waiting"


def test_an_idle_board_waits(meters):
    """GIVEN a second of sleep THEN nothing is busy."""
    torch.cuda.synchronize(DEVICE)
    time.sleep(0.5)
    begin = time.monotonic()
    time.sleep(SECONDS)
    end = time.monotonic()
    (meter,) = meters.meters
    assert len(meter.ticks(begin, end)) > 2
    idle = activity_of(meter.states(begin, end), begin, end)
    assert max(idle.sm, idle.tensor, idle.dram) < 0.05
    assert limited_by(idle) == "waiting"


def test_a_window_of_the_usual_length_has_a_pair_of_samples(meters, matmul):
    """GIVEN ten windows as short as the meter allows THEN each says what a long one says, to 10 %."""
    long = activity(meters, matmul).tensor
    for _ in range(10):
        calls = Replayer(DEVICE).run(matmul, meters.window_s)
        (window,) = read_windows(meters, calls)
        assert window.activity.tensor == pytest.approx(long, abs=0.1)


def test_the_memorys_power_is_a_part_of_the_whole_where_it_is_known(meters, matmul):
    """GIVEN a board that measures its memory's power THEN it is above 0 and below the board's."""
    calls = Replayer(DEVICE).run(matmul, SECONDS)
    (window,) = read_windows(meters, calls)
    unknown = any(note.code == "memory-power-unknown" for note in meters.describe()["notes"])
    assert (window.activity.memory_w is None) == unknown
    assert unknown or 0 < window.activity.memory_w < window.power_w
