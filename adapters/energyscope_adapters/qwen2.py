"""Qwen2 and Qwen2.5: Llama's layers, with biases on the query, key and value projections."""

from __future__ import annotations

from energyscope.adapters import Adapter, Checkpoint
from energyscope_adapters.llama import adapter as llama


def _qwen25(
    size: str, shape: tuple[int, int, int, int, int], *, vocabulary: int, positions: int, tied: bool
) -> Checkpoint:
    """Return a Qwen2.5 base checkpoint.

    ``shape`` is the hidden size, the intermediate size of the MLP, the number of layers, and of heads of queries
    and of keys and values.
    """
    hidden, intermediate, layers, heads, key_heads = shape
    configuration = {
        "vocab_size": vocabulary,
        "hidden_size": hidden,
        "intermediate_size": intermediate,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": key_heads,
        "max_position_embeddings": positions,
        "rms_norm_eps": 1e-6,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0},
        "dtype": "bfloat16",
        "tie_word_embeddings": tied,
        "bos_token_id": 151643,
        "eos_token_id": 151643,
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
        "qwen2.5-0.5b": _qwen25("0.5B", (896, 4864, 24, 14, 2), vocabulary=151936, positions=32768, tied=True),
        "qwen2.5-1.5b": _qwen25("1.5B", (1536, 8960, 28, 12, 2), vocabulary=151936, positions=131072, tied=True),
        "qwen2.5-3b": _qwen25("3B", (2048, 11008, 36, 16, 2), vocabulary=151936, positions=32768, tied=True),
        "qwen2.5-7b": _qwen25("7B", (3584, 18944, 28, 28, 4), vocabulary=152064, positions=131072, tied=False),
    },
)
