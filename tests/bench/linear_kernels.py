"""Time linears of one size in every precision, by rows: microseconds a call, in CUDA graphs on a GPU.

    python tests/bench/linear_kernels.py --shapes 8192x2048,14336x4096 --rows 1,32,512,2048

Each is called again and again with the same weight, which a GPU's cache holds if it is small; a plan's
prices are of weights that come from memory.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial

import torch
from torch import Tensor, nn

from energyscope.loading.options import BY_TORCH
from energyscope.loading.torch_kernels import torch_linear
from energyscope.replay.replayer import Replayer

WINDOW_S = 0.05
WINDOWS = 3


def linear(outputs: int, inputs: int, device: torch.device) -> nn.Linear:
    """Return a linear with random BF16 weights."""
    torch.manual_seed(0)
    module = nn.Linear(inputs, outputs, bias=False, device=device, dtype=torch.bfloat16)
    nn.init.normal_(module.weight, std=0.05)
    return module.requires_grad_(requires_grad=False)


def microseconds(layer: nn.Module, inputs: Tensor) -> float:
    """Return the time of one call, the best of a few windows."""
    replayer = Replayer(inputs.device, "eager" if inputs.device.type == "cpu" else "cuda-graph")
    return 1e6 * min(replayer.pace([partial(layer, inputs)], WINDOW_S) for _ in range(WINDOWS))


def write(*cells: str) -> None:
    """Write a row of the table as soon as it is known."""
    sys.stdout.write(f"| {' | '.join(cells)} |\n")
    sys.stdout.flush()


def main() -> None:
    """Print a row for each shape and number of rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", default="8192x2048,14336x4096", help="outputs x inputs")
    parser.add_argument("--rows", default="1,32,512,2048")
    parser.add_argument("--device", default="cuda:0", type=torch.device)
    given = parser.parse_args()
    write("outputs x inputs", "rows", "bf16", *BY_TORCH)
    write(*["---"] * (3 + len(BY_TORCH)))
    for shape in given.shapes.split(","):
        outputs, inputs = map(int, shape.split("x"))
        module = linear(outputs, inputs, given.device)
        layers = [module, *(torch_linear(module, precision) for precision in BY_TORCH)]
        for rows in map(int, given.rows.split(",")):
            values = torch.randn(rows, inputs, device=given.device, dtype=torch.bfloat16)
            write(shape, str(rows), *(f"{microseconds(layer, values):.1f}" for layer in layers))


if __name__ == "__main__":
    main()
