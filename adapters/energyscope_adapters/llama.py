"""Llama: pre-norm decoder layers with grouped-query attention, rotary positions and a gated MLP."""

from __future__ import annotations

from energyscope.adapters import CACHE_UPDATE, SDPA, Adapter, Checkpoint, Part

LAYER = "model.layers.{layer}"


def _llama3(name: str, *, rope_factor: float, tied: bool, **shape: int) -> Checkpoint:
    """Return a Llama 3 checkpoint; ``rope_factor`` is how far its rotary positions were stretched."""
    rope = {
        "rope_type": "llama3",
        "rope_theta": 500000.0,
        "factor": rope_factor,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }
    configuration = {
        "vocab_size": 128256,
        "num_key_value_heads": 8,
        "head_dim": shape["hidden_size"] // shape["num_attention_heads"],
        "max_position_embeddings": 131072,
        "rms_norm_eps": 1e-5,
        "rope_parameters": rope,
        "dtype": "bfloat16",
        "tie_word_embeddings": tied,
        "bos_token_id": 128000,
        "eos_token_id": 128001,
        **shape,
    }
    return Checkpoint(f"meta-llama/{name}", configuration, gated=True)


adapter = Adapter(
    name="llama",
    model_types=("llama",),
    task="next-token",
    layers="model.layers",
    dataset="wikitext2",
    phase="both",
    parts=(
        Part("embedding", "model.embed_tokens", "coarse"),
        Part("rotary", "model.rotary_emb", "fine"),
        Part("layer", LAYER, "coarse"),
        Part("norm", f"{LAYER}.input_layernorm", "medium"),
        Part("attention", f"{LAYER}.self_attn", "medium"),
        Part("attention.query", f"{LAYER}.self_attn.q_proj", "fine"),
        Part("attention.key", f"{LAYER}.self_attn.k_proj", "fine"),
        Part("attention.value", f"{LAYER}.self_attn.v_proj", "fine"),
        Part("attention.cache", f"{LAYER}.self_attn", "fine", optional=True, function=CACHE_UPDATE),
        Part("attention.core", f"{LAYER}.self_attn", "fine", optional=True, function=SDPA),
        Part("attention.output", f"{LAYER}.self_attn.o_proj", "fine"),
        Part("norm", f"{LAYER}.post_attention_layernorm", "medium"),
        Part("mlp", f"{LAYER}.mlp", "medium"),
        Part("mlp.gate", f"{LAYER}.mlp.gate_proj", "fine"),
        Part("mlp.up", f"{LAYER}.mlp.up_proj", "fine"),
        Part("mlp.activation", f"{LAYER}.mlp.act_fn", "fine"),
        Part("mlp.down", f"{LAYER}.mlp.down_proj", "fine"),
        Part("norm", "model.norm", "coarse"),
        Part("lm_head", "lm_head", "coarse"),
    ),
    checkpoints={
        "llama-3.2-1b": _llama3(
            "Llama-3.2-1B",
            hidden_size=2048,
            intermediate_size=8192,
            num_hidden_layers=16,
            num_attention_heads=32,
            rope_factor=32.0,
            tied=True,
        ),
        "llama-3.2-3b": _llama3(
            "Llama-3.2-3B",
            hidden_size=3072,
            intermediate_size=8192,
            num_hidden_layers=28,
            num_attention_heads=24,
            rope_factor=32.0,
            tied=True,
        ),
        "llama-3.1-8b": _llama3(
            "Llama-3.1-8B",
            hidden_size=4096,
            intermediate_size=14336,
            num_hidden_layers=32,
            num_attention_heads=32,
            rope_factor=8.0,
            tied=False,
        ),
        "llama-3.3-70b": _llama3(
            "Llama-3.3-70B-Instruct",
            hidden_size=8192,
            intermediate_size=28672,
            num_hidden_layers=80,
            num_attention_heads=64,
            rope_factor=8.0,
            tied=False,
        ),
    },
)
