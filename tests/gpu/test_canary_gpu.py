"""A real GPU's two speeds: graphs are timed in one of them, whatever ran before. Half a minute."""

from __future__ import annotations

from functools import partial

import pytest

torch = pytest.importorskip("torch")

from energyscope.replay.canary import Canary  # noqa: E402
from energyscope.replay.replayer import Replayer  # noqa: E402

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]
ROWS, INNER, OUTER = 128, 3072, 768  # a product that an H200 splits over its inner dimension


@pytest.fixture
def split_k():
    rows = torch.randn(ROWS, INNER, device="cuda", dtype=torch.bfloat16)
    weight = torch.randn(INNER, OUTER, device="cuda", dtype=torch.bfloat16)
    bias = torch.randn(OUTER, device="cuda", dtype=torch.bfloat16)
    return partial(torch.addmm, bias, rows, weight)


def test_the_canary_repeats_itself_once_settled(split_k):
    """GIVEN products in between, which make some devices fast THEN a settled canary always says the same."""
    canary, seen = Canary(torch.device("cuda")), []
    for number in range(20):
        for _ in range(10 * (number % 3)):
            split_k()
        canary.settle()
        seen.append(canary.seconds())
    assert max(seen) < 1.05 * min(seen)


def test_windows_after_different_work_are_at_one_speed(split_k):
    """GIVEN rounds whose warm-ups leave different states THEN all their windows have the same canary."""
    replayer = Replayer(torch.device("cuda"), "cuda-graph")
    value = torch.zeros(1024, device="cuda")
    seen = []
    for round_ in ([split_k], [partial(value.add_, 1.0)], [split_k, partial(value.add_, 1.0)]) * 3:
        seen += replayer.run(round_, 0.1).canary_s
    assert len(seen) == 18
    assert max(seen) < 1.05 * min(seen)
