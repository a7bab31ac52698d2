"""Llama: pre-norm decoder layers with grouped-query attention, rotary positions and a gated MLP."""

from __future__ import annotations

from energyscope.adapters import CACHE_UPDATE, SDPA, Adapter, Checkpoint, Part

LAYER = "model.layers.{layer}"


def _llama3(name: str, shape: tuple[int, int, int, int], *, rope_factor: float, tied: bool) -> Checkpoint:
    """Return a Llama 3 checkpoint; ``rope_factor`` is how far its rotary positions were stretched.

    ``shape`` is the hidden size, the intermediate size of the MLP, the number of layers and of query heads.
    """
    hidden, intermediate, layers, heads = shape
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
        "hidden_size": hidden,
        "intermediate_size": intermediate,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": 8,
        "head_dim": hidden // heads,
        "max_position_embeddings": 131072,
        "rms_norm_eps": 1e-5,
        "rope_parameters": rope,
        "dtype": "bfloat16",
        "tie_word_embeddings": tied,
        "bos_token_id": 128000,
        "eos_token_id": 128001,
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
        "llama-3.2-1b": _llama3("Llama-3.2-1B", (2048, 8192, 16, 32), rope_factor=32.0, tied=True),
        "llama-3.2-3b": _llama3("Llama-3.2-3B", (3072, 8192, 28, 24), rope_factor=32.0, tied=True),
        "llama-3.1-8b": _llama3("Llama-3.1-8B", (4096, 14336, 32, 32), rope_factor=8.0, tied=False),
        "llama-3.3-70b": _llama3("Llama-3.3-70B-Instruct", (8192, 28672, 80, 64), rope_factor=8.0, tied=False),
    },
)
