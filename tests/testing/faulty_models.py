"""A tiny Llama with one fault, which an adapter's author could run into: for tests that a check can fail."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import torch
import transformers
from torch import nn

from energyscope.adapter_registry import load_adapter
from energyscope.adapters import Adapter, Part

SIZES = {
    "vocab_size": 64, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
    "num_key_value_heads": 1, "max_position_embeddings": 64,
}  # fmt: skip


class FaultyConfig(transformers.LlamaConfig):
    """A Llama's configuration; ``fault`` names what is wrong with the model."""

    model_type = "faulty"
    fault: str = ""


class Counting(nn.Module):
    """A block with a state: each call adds to its output how many there were."""

    def __init__(self, block: nn.Module) -> None:
        super().__init__()
        self.block = block
        self.register_buffer("count", torch.zeros(()))

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        self.count += 1
        return self.block(hidden) + self.count


class OwnCode(transformers.models.llama.modeling_llama.LlamaMLP):
    """An MLP with a matrix product of its own."""

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return super().forward(hidden) + hidden @ torch.eye(hidden.shape[-1])


class Scribbling(transformers.models.llama.modeling_llama.LlamaAttention):
    """An attention that writes to the KV cache besides updating it."""

    def forward(self, *args: Any, past_key_values: Any = None, **kwargs: Any) -> Any:
        result = super().forward(*args, past_key_values=past_key_values, **kwargs)
        if past_key_values is not None and past_key_values.layers[0].keys is not None:
            past_key_values.layers[0].keys.mul_(0.5)
        return result


class FaultyForCausalLM(transformers.LlamaForCausalLM):
    """A Llama with the fault that its configuration names."""

    config_class = FaultyConfig

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        layer, size = self.model.layers[0], config.hidden_size
        if config.fault == "counter":
            layer.mlp = Counting(layer.mlp)
        elif config.fault == "own code":
            layer.mlp = OwnCode(config)
        elif config.fault == "scribble":
            layer.self_attn = Scribbling(config, 0)
        elif config.fault == "overlap":
            self.tail = nn.Sequential(self.model.layers[1].mlp)
        elif config.fault == "elsewhere":
            layer.mlp.side = nn.Linear(size, size)
        elif config.fault in {"unused", "unheard"}:
            self.side = nn.Linear(size, size)
        self.post_init()

    @functools.wraps(transformers.LlamaForCausalLM.forward)  # its arguments are asked for
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        fault = self.config.fault
        if fault == "broken":
            raise ValueError("no such input")
        if fault == "hooks":
            self.lm_head.register_forward_hook(lambda *_: None)
        result = super().forward(*args, **kwargs)
        if fault == "unheard":
            self.side(torch.ones(1, 2, self.config.hidden_size))
        elif fault == "elsewhere":
            self.model.layers[0].mlp.side(torch.ones(1, 2, self.config.hidden_size))
        elif fault == "overlap":
            self.tail(torch.ones(1, 2, self.config.hidden_size))
        elif fault == "infinite":
            result.logits = result.logits * float("nan")
        return result


transformers.AutoConfig.register("faulty", FaultyConfig)
transformers.AutoModelForCausalLM.register(FaultyConfig, FaultyForCausalLM)


def adapter(*more: Part, without: str = "", **changes: Any) -> Adapter:
    """Return Llama's adapter for the faulty model, with more parts, and without those whose kind begins so."""
    llama = load_adapter("llama")
    parts = tuple(part for part in llama.parts if not (without and part.kind.startswith(without)))
    return replace(
        llama,
        **{"name": "faulty", "model_types": ("faulty",), "parts": (*parts, *more), "checkpoints": {}, **changes},
    )


def config(fault: str = "", **changes: Any) -> dict[str, Any]:
    return {**SIZES, "fault": fault, **changes}
