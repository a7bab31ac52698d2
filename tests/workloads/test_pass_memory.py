"""What a forward pass holds in memory beside the weights."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from energyscope.workloads.pass_memory import pass_bytes

KIB = 1024


class Pass(nn.Module):
    """Of one row: 1 KiB in, and no more than 5 KiB held at once."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(256, 1024, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        wide = self.up(x)  # 4 KiB
        wide = wide.view(-1, 1024).mul_(2)  # the same memory
        narrow = wide[:, :256].contiguous()  # 1 KiB more
        del wide
        result: Tensor = narrow + 1  # 2 KiB are left
        return result


def test_what_is_held_at_once_is_counted_once():
    """GIVEN views, changes in place and freed tensors THEN the most that is held at once is told."""
    model = Pass()
    assert [pass_bytes(model, {"x": torch.zeros(rows, 256)}) for rows in (1, 8)] == [5 * KIB, 40 * KIB]
    assert pass_bytes(model, {"x": torch.zeros(8, 256)}) == 40 * KIB  # nothing is left of a pass before
