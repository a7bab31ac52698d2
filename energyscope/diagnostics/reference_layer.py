"""The reference workload, by whose joules boards are compared: one transformer layer that never changes.

Matrix products, attention and parts that wait for memory are all in it. It is plain torch, so that no version of
transformers changes it, and has few tokens: with 2 x 128 an H200 ran it at its power limit. Whatever is changed
here makes another workload: give it another name.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

SEED = 0


@dataclass(frozen=True)
class ReferenceShape:
    """The layer's sizes, and its batch of ``sequences`` x ``tokens``; ``name`` ends with a version."""

    name: str
    hidden: int
    heads: int
    inner: int
    sequences: int
    tokens: int
    dtype: torch.dtype


ON_GPU = ReferenceShape("transformer-layer-1", 2048, 32, 8192, sequences=1, tokens=64, dtype=torch.bfloat16)
ON_CPU = ReferenceShape("small-transformer-layer-1", 512, 8, 2048, sequences=1, tokens=128, dtype=torch.float32)


class ReferenceLayer(nn.Module):
    """A decoder's layer: causal attention, then a gated MLP, each behind a norm and beside a residual."""

    def __init__(self, shape: ReferenceShape) -> None:
        super().__init__()
        hidden, inner = shape.hidden, shape.inner
        self.heads = shape.heads
        self.attention_norm, self.mlp_norm = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.qkv = nn.Linear(hidden, 3 * hidden, bias=False)
        self.output = nn.Linear(hidden, hidden, bias=False)
        self.gate, self.up = (nn.Linear(hidden, inner, bias=False) for _ in range(2))
        self.down = nn.Linear(inner, hidden, bias=False)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """Return the states after the layer, of the shape that they had: (sequences, tokens, hidden)."""
        heads = self.qkv(self.attention_norm(states)).unflatten(-1, (3, self.heads, -1))
        query, key, value = heads.permute(2, 0, 3, 1, 4)  # each (sequences, heads, tokens, hidden / heads)
        attended = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        states = states + self.output(attended.transpose(1, 2).flatten(-2))
        normed = self.mlp_norm(states)
        added: torch.Tensor = self.down(functional.silu(self.gate(normed)) * self.up(normed))
        return states + added


def reference_shape(device: torch.device) -> ReferenceShape:
    """Return the reference workload of a type of device."""
    return ON_GPU if device.type == "cuda" else ON_CPU


def reference_layer(shape: ReferenceShape, device: torch.device) -> tuple[ReferenceLayer, torch.Tensor]:
    """Return the layer and its input on a device, with the same random values everywhere: drawn on the host."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        layer, states = ReferenceLayer(shape), torch.randn(shape.sequences, shape.tokens, shape.hidden)
    return layer.eval().requires_grad_(False).to(device, shape.dtype), states.to(device, shape.dtype)
