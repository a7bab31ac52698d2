"""Kernels for a GPU in Triton, which comes with PyTorch's builds for CUDA: rounding rows, and INT8 weights.

Each does what plain arithmetic in `torch_kernels` says. `torch.compile` would make such kernels too, but not while
FLOPs are counted, and anew for each mode, layout and device, up to a limit. Sizes of tiles are fixed by the shape:
trying several would not work in a CUDA graph, and would give other sums from run to run.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from energyscope.loading.torch_kernels import LARGEST

_MOST_WARPS = 16
_VALUES_A_WARP = 512


@triton.jit  # type: ignore[untyped-decorator]
def _round(rows, values, scales, width, LARGEST: tl.constexpr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, N803
    """Round one row: a program reads it once, finds its largest magnitude, and writes values and scale."""
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    inside = columns < width
    read = tl.load(rows + row * width + columns, mask=inside, other=0.0).to(tl.float32)
    scale = tl.maximum(tl.max(tl.abs(read), axis=0), 1e-12) / LARGEST
    rounded = read / scale
    if values.dtype.element_ty == tl.int8:
        scale += tl.sum(read * 0.0, axis=0)  # NaN if a value is not finite: a maximum skips NaN, and INT8 has none
        rounded = (rounded + 12582912.0) - 12582912.0  # at 1.5 x 2^23 sums are whole numbers, half to even
    tl.store(scales + row, scale)
    tl.store(values + row * width + columns, rounded.to(values.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["count"])  # type: ignore[untyped-decorator]
def _multiply_row(  # type: ignore[no-untyped-def]  # noqa: ANN202, PLR0913, PLR0917
    rows, row_scales, weight, scales, bias, products, count, width, outputs,  # noqa: ANN001, ARG001  as `_multiply`
    ROWS: tl.constexpr, OUTPUTS: tl.constexpr, INPUTS: tl.constexpr,  # noqa: ARG001, N803
):  # fmt: skip
    """Multiply one row: a program reads its rows of the weight as they lie, and adds up at the end."""
    kind = tl.int32 if rows.dtype.element_ty == tl.int8 else tl.float32
    out = tl.program_id(0) * OUTPUTS + tl.arange(0, OUTPUTS)
    inside = out < outputs
    weights = weight + out.to(tl.int64)[:, None] * width
    total = tl.zeros((OUTPUTS, INPUTS), dtype=kind)
    for start in range(0, width, INPUTS):
        column = start + tl.arange(0, INPUTS)
        block = tl.load(weights + column[None, :], mask=inside[:, None] & (column < width)[None, :], other=0)
        read = tl.load(rows + column, mask=column < width, other=0)
        total += block.to(kind) * read.to(kind)[None, :]
    values = tl.sum(total, axis=1).to(tl.float32) * tl.load(scales + out, mask=inside, other=0.0)
    if row_scales is not None:
        values *= tl.load(row_scales)
    if bias is not None:
        values += tl.load(bias + out, mask=inside, other=0.0).to(tl.float32)
    tl.store(products + out, values.to(products.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["count"])  # type: ignore[untyped-decorator]
def _multiply(  # type: ignore[no-untyped-def]  # noqa: ANN202, PLR0913, PLR0917
    rows, row_scales, weight, scales, bias, products, count, width, outputs,  # noqa: ANN001
    ROWS: tl.constexpr, OUTPUTS: tl.constexpr, INPUTS: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """Multiply a tile of rows and outputs. Tensor cores take the weight first, so that it is converted on its way.

    Programs that run side by side share eight blocks of rows and a few of outputs, which then come from the cache.
    """
    kind = tl.int32 if rows.dtype.element_ty == tl.int8 else tl.float32
    blocks, group = tl.cdiv(count, ROWS), 8 * tl.cdiv(outputs, OUTPUTS)
    first = tl.program_id(0) // group * 8
    among = tl.minimum(blocks - first, 8)
    row = (first + tl.program_id(0) % group % among) * ROWS + tl.arange(0, ROWS)
    out = tl.program_id(0) % group // among * OUTPUTS + tl.arange(0, OUTPUTS)
    is_row, is_out = row < count, out < outputs
    inputs = rows + row.to(tl.int64)[None, :] * width
    weights = weight + out.to(tl.int64)[:, None] * width
    total = tl.zeros((OUTPUTS, ROWS), dtype=kind)
    for start in range(0, width, INPUTS):
        column = start + tl.arange(0, INPUTS)
        inside = column < width
        read = tl.load(inputs + column[:, None], mask=inside[:, None] & is_row[None, :], other=0)
        block = tl.load(weights + column[None, :], mask=is_out[:, None] & inside[None, :], other=0)
        total = tl.dot(block.to(read.dtype), read, total, out_dtype=kind)
    values = total.to(tl.float32) * tl.load(scales + out, mask=is_out, other=0.0)[:, None]
    if row_scales is not None:
        values *= tl.load(row_scales + row, mask=is_row, other=0.0)[None, :]
    if bias is not None:
        values += tl.load(bias + out, mask=is_out, other=0.0).to(tl.float32)[:, None]
    places = products + row.to(tl.int64)[None, :] * outputs + out[:, None]
    tl.store(places, values.to(products.dtype.element_ty), mask=is_out[:, None] & is_row[None, :])


class _Tile(NamedTuple):
    """What one program computes, and with how many warps and stages of loads ahead."""

    rows: int
    outputs: int
    input_bytes: int  # of the inputs of a row that it takes at once
    warps: int
    stages: int


_ROW = _Tile(1, 4, 0, 4, 1)
_ROW_INPUTS = 2048
_TILES = (  # the largest first
    _Tile(128, 256, 128, 8, 3),
    _Tile(128, 128, 128, 8, 4),
    _Tile(64, 128, 128, 4, 4),
    _Tile(64, 64, 128, 4, 4),
    _Tile(32, 64, 256, 4, 4),
    _Tile(16, 64, 256, 4, 4),
    _Tile(16, 32, 512, 4, 4),
    _Tile(16, 16, 512, 2, 5),
)


@functools.cache
def _tile(count: int, outputs: int, size: int, gpu: int | None) -> _Tile:
    """Return the largest tile that is not mostly empty, fits, and nearly keeps all multiprocessors busy.

    ``size`` is that of a value of the rows, in bytes.
    """
    if count == 1:
        return _ROW
    processors, shared = _limits(gpu)
    most = max(16, triton.next_power_of_2(count))
    tiles = [tile for tile in _TILES if tile.rows <= most and _shared(tile, size) <= shared]
    busy = (tile for tile in tiles if _programs(tile, count, outputs) >= 0.9 * processors)
    return next(busy, tiles[-1] if tiles else _TILES[-1])


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _limits(gpu: int | None) -> tuple[int, int]:
    """Return a GPU's multiprocessors, and the bytes of shared memory that a program may have."""
    properties = triton.runtime.driver.active.utils.get_device_properties(gpu)
    return properties["multiprocessor_count"], properties["max_shared_mem"]


def _shared(tile: _Tile, size: int) -> int:
    """Return the bytes of shared memory that the loads ahead take."""
    return tile.stages * (tile.input_bytes // size) * (tile.outputs + tile.rows * size)


def _programs(tile: _Tile, count: int, outputs: int) -> int:
    return int(triton.cdiv(count, tile.rows) * triton.cdiv(outputs, tile.outputs))


def round_rows(rows: Tensor, kind: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return contiguous rows (n, k) on a GPU in FP8 or INT8, and the scale of each (n, 1) in float32."""
    count, width = rows.shape
    values = torch.empty_like(rows, dtype=kind)
    scales = torch.empty(count, 1, device=rows.device, dtype=torch.float32)
    block = triton.next_power_of_2(width)
    warps = min(_MOST_WARPS, max(1, block // _VALUES_A_WARP))
    with torch.cuda.device(rows.device):
        _round[(count,)](rows, values, scales, width, LARGEST=LARGEST[kind], BLOCK=block, num_warps=warps)
    return values, scales


def int8_product(
    rows: Tensor,
    row_scales: Tensor | None,
    weight: Tensor,
    scales: Tensor,
    bias: Tensor | None,
    dtype: torch.dtype,
) -> Tensor:
    """Return the products (n, out) of rows (n, in) with an INT8 weight (out, in), scaled, with the bias.

    Rows are INT8 with their scales (n), and sums in INT32; or unquantized, and weights are converted to their type
    tile by tile, with sums in float32 (of float32 rows, tensor cores round both to TF32). All tensors are
    contiguous, on a GPU.
    """
    (count, width), outputs = rows.shape, len(weight)
    products = torch.empty(count, outputs, device=rows.device, dtype=dtype)
    tile = _tile(count, outputs, rows.element_size(), rows.device.index)
    inputs = tile.input_bytes // rows.element_size() or min(_ROW_INPUTS, triton.next_power_of_2(width))
    kernel = _multiply_row if count == 1 else _multiply
    with torch.cuda.device(rows.device):
        kernel[(_programs(tile, count, outputs),)](
            rows, row_scales, weight, scales, bias, products, count, width, outputs,
            ROWS=tile.rows, OUTPUTS=tile.outputs, INPUTS=inputs, num_warps=tile.warps, num_stages=tile.stages,
        )  # fmt: skip
    return products
