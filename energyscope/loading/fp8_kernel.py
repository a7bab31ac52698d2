"""Rows rounded to FP8 (e4m3) by one kernel on a GPU, in Triton, which comes with PyTorch's builds for CUDA.

It does what `torch_kernels.fp8_rows` says: a program for each row reads it once, finds its largest magnitude, and
writes values and scale. `torch.compile` would make such a kernel too, but not while FLOPs are counted, and anew
for each mode, layout and device, up to a limit.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

_MOST_WARPS = 16
_VALUES_A_WARP = 512


@triton.jit  # type: ignore[untyped-decorator]
def _round(rows, values, scales, width, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, N803
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    inside = columns < width
    read = tl.load(rows + row * width + columns, mask=inside, other=0.0).to(tl.float32)
    scale = tl.maximum(tl.max(tl.abs(read), axis=0), 1e-12) / 448.0
    tl.store(scales + row, scale)
    tl.store(values + row * width + columns, (read / scale).to(tl.float8e4nv), mask=inside)


def fp8_rows(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return contiguous rows (n, k) on a GPU in FP8, and the scale of each (n, 1) in float32."""
    count, width = rows.shape
    values = torch.empty_like(rows, dtype=torch.float8_e4m3fn)
    scales = torch.empty(count, 1, device=rows.device, dtype=torch.float32)
    block = triton.next_power_of_2(width)
    warps = min(_MOST_WARPS, max(1, block // _VALUES_A_WARP))
    with torch.cuda.device(rows.device):
        _round[(count,)](rows, values, scales, width, BLOCK=block, num_warps=warps)
    return values, scales
