"""GPT-2: pre-norm decoder layers with one fused query/key/value projection and learned positions."""

from __future__ import annotations

from energyscope.adapters import CACHE_UPDATE, SDPA, Adapter, Checkpoint, Part

LAYER = "transformer.h.{layer}"


def _checkpoint(name: str, width: int, layers: int, heads: int) -> Checkpoint:
    shape = {"vocab_size": 50257, "n_positions": 1024, "n_embd": width, "n_layer": layers, "n_head": heads}
    return Checkpoint(f"openai-community/{name}", shape)


adapter = Adapter(
    name="gpt2",
    model_types=("gpt2",),
    task="next-token",
    layers="transformer.h",
    dataset="wikitext2",
    parts=(
        Part("embedding", "transformer.wte", "coarse"),
        Part("embedding", "transformer.wpe", "coarse"),
        Part("layer", LAYER, "coarse"),
        Part("norm", f"{LAYER}.ln_1", "medium"),
        Part("attention", f"{LAYER}.attn", "medium"),
        Part("attention.qkv", f"{LAYER}.attn.c_attn", "fine"),
        Part("attention.cache", f"{LAYER}.attn", "fine", optional=True, function=CACHE_UPDATE),
        Part("attention.core", f"{LAYER}.attn", "fine", optional=True, function=SDPA),
        Part("attention.output", f"{LAYER}.attn.c_proj", "fine"),
        Part("norm", f"{LAYER}.ln_2", "medium"),
        Part("mlp", f"{LAYER}.mlp", "medium"),
        Part("mlp.up", f"{LAYER}.mlp.c_fc", "fine"),
        Part("mlp.activation", f"{LAYER}.mlp.act", "fine"),
        Part("mlp.down", f"{LAYER}.mlp.c_proj", "fine"),
        Part("norm", "transformer.ln_f", "coarse"),
        Part("lm_head", "lm_head", "coarse"),
    ),
    checkpoints={
        "gpt2": _checkpoint("gpt2", 768, 12, 12),
        "gpt2-medium": _checkpoint("gpt2-medium", 1024, 24, 16),
        "gpt2-large": _checkpoint("gpt2-large", 1280, 36, 20),
        "gpt2-xl": _checkpoint("gpt2-xl", 1600, 48, 25),
    },
)
