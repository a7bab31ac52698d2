"""Qwen2 and Qwen2.5: Llama's layers, with biases on the query, key and value projections."""

from __future__ import annotations

from energyscope.adapters import Adapter, Checkpoint
from energyscope_adapters.llama import adapter as llama


def _qwen25(size: str, *, tied: bool, **shape: int) -> Checkpoint:
    """Return a Qwen2.5 base checkpoint."""
    configuration = {
        "rms_norm_eps": 1e-6,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0},
        "dtype": "bfloat16",
        "tie_word_embeddings": tied,
        "bos_token_id": 151643,
        "eos_token_id": 151643,
        **shape,
    }
    return Checkpoint(f"Qwen/Qwen2.5-{size}", configuration)


adapter = Adapter(
    name="qwen2",
    model_types=("qwen2",),
    task="next-token",
    layers="model.layers",
    dataset="wikitext2",
    phase="both",
    parts=llama.parts,
    checkpoints={
        "qwen2.5-0.5b": _qwen25(
            "0.5B",
            vocab_size=151936,
            hidden_size=896,
            intermediate_size=4864,
            num_hidden_layers=24,
            num_attention_heads=14,
            num_key_value_heads=2,
            max_position_embeddings=32768,
            tied=True,
        ),
        "qwen2.5-1.5b": _qwen25(
            "1.5B",
            vocab_size=151936,
            hidden_size=1536,
            intermediate_size=8960,
            num_hidden_layers=28,
            num_attention_heads=12,
            num_key_value_heads=2,
            max_position_embeddings=131072,
            tied=True,
        ),
        "qwen2.5-3b": _qwen25(
            "3B",
            vocab_size=151936,
            hidden_size=2048,
            intermediate_size=11008,
            num_hidden_layers=36,
            num_attention_heads=16,
            num_key_value_heads=2,
            max_position_embeddings=32768,
            tied=True,
        ),
        "qwen2.5-7b": _qwen25(
            "7B",
            vocab_size=152064,
            hidden_size=3584,
            intermediate_size=18944,
            num_hidden_layers=28,
            num_attention_heads=28,
            num_key_value_heads=4,
            max_position_embeddings=131072,
            tied=False,
        ),
    },
)
