"""Decoders with an MLP in each layer: OPT, GPT-NeoX, Mistral, Qwen3, Gemma 3, Phi-3 and Phi-4, SmolLM2.

A ``shape`` is the hidden size, the intermediate size of the MLP, and the number of layers, of heads of queries,
and of heads of keys and values.
"""

from __future__ import annotations

from typing import Any

from energyscope.adapters import Checkpoint


def _plain(shape: tuple[int, int, int, int, int], **more: Any) -> dict[str, Any]:
    """Return what most decoders share, grouped queries and weights in BF16, and ``more``."""
    hidden, intermediate, layers, heads, key_heads = shape
    return {
        "hidden_size": hidden,
        "intermediate_size": intermediate,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": key_heads,
        "dtype": "bfloat16",
        **more,
    }


def _rotary(theta: float) -> dict[str, Any]:
    return {"rope_type": "default", "rope_theta": theta}


def _opt(size: str, hidden: int, layers: int, heads: int) -> Checkpoint:
    configuration = {
        "vocab_size": 50272,
        "hidden_size": hidden,
        "ffn_dim": 4 * hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "word_embed_proj_dim": hidden,
        "max_position_embeddings": 2048,
        "do_layer_norm_before": True,
        "activation_function": "relu",
        "tie_word_embeddings": True,
        "dtype": "float16",
        "pad_token_id": 1,
        "bos_token_id": 2,
        "eos_token_id": 2,
    }
    return Checkpoint(f"facebook/opt-{size}", configuration, model_type="opt", architecture="OPTForCausalLM")


def _gpt_neox(name: str, shape: tuple[int, int, int], *, vocabulary: int, activation: str = "gelu") -> Checkpoint:
    """Return a GPT-NeoX, or a Pythia; ``shape`` is its hidden size, its layers and its heads."""
    hidden, layers, heads = shape
    configuration = {
        "vocab_size": vocabulary,
        "hidden_size": hidden,
        "intermediate_size": 4 * hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "max_position_embeddings": 2048,
        "hidden_act": activation,
        "layer_norm_eps": 1e-5,
        "use_parallel_residual": True,
        "rope_parameters": _rotary(10000.0) | {"partial_rotary_factor": 0.25},
        "tie_word_embeddings": False,
        "dtype": "float16",
        "bos_token_id": 0,
        "eos_token_id": 0,
    }
    return Checkpoint(
        f"EleutherAI/{name}", configuration, model_type="gpt_neox", architecture="GPTNeoXForCausalLM"
    )


def _mistral() -> Checkpoint:
    configuration = _plain(
        (4096, 14336, 32, 32, 8),
        vocab_size=32768,
        head_dim=128,
        max_position_embeddings=32768,
        sliding_window=None,
        rope_parameters=_rotary(1000000.0),
        rms_norm_eps=1e-5,
        tie_word_embeddings=False,
    )
    return Checkpoint(
        "mistralai/Mistral-7B-v0.3", configuration, model_type="mistral", architecture="MistralForCausalLM"
    )


def _qwen3(size: str, shape: tuple[int, int, int, int, int], *, tied: bool) -> Checkpoint:
    configuration = _plain(
        shape,
        vocab_size=151936,
        head_dim=128,
        max_position_embeddings=40960,
        rope_parameters=_rotary(1000000.0),
        rms_norm_eps=1e-6,
        tie_word_embeddings=tied,
        bos_token_id=151643,
        eos_token_id=151645,
    )
    return Checkpoint(f"Qwen/Qwen3-{size}", configuration, model_type="qwen3", architecture="Qwen3ForCausalLM")


def _gemma3(shape: tuple[int, int, int, int, int], *, window: int, rope: dict[str, Any]) -> dict[str, Any]:
    """Return Gemma 3's language model: five layers attend to a window, the sixth to all tokens."""
    layers = range(1, shape[2] + 1)
    return _plain(
        shape,
        head_dim=256,
        query_pre_attn_scalar=256,
        sliding_window=window,
        layer_types=["sliding_attention" if layer % 6 else "full_attention" for layer in layers],
        rope_parameters={"full_attention": _rotary(1000000.0) | rope, "sliding_attention": _rotary(10000.0)},
        hidden_activation="gelu_pytorch_tanh",
        rms_norm_eps=1e-6,
        tie_word_embeddings=True,
    )


def _gemma3_1b() -> Checkpoint:
    text = _gemma3((1152, 6912, 26, 4, 1), window=512, rope={})
    return Checkpoint(
        "google/gemma-3-1b-pt",
        text | {"vocab_size": 262144, "max_position_embeddings": 32768},
        gated=True,
        model_type="gemma3_text",
        architecture="Gemma3ForCausalLM",
    )


def _gemma3_4b() -> Checkpoint:
    """Return Gemma 3 4B with its image encoder (SigLIP), which text alone does not call."""
    text = _gemma3((2560, 10240, 34, 8, 4), window=1024, rope={"rope_type": "linear", "factor": 8.0})
    vision = {
        "hidden_size": 1152,
        "intermediate_size": 4304,
        "num_hidden_layers": 27,
        "num_attention_heads": 16,
        "image_size": 896,
        "patch_size": 14,
        "vision_use_head": False,
    }
    configuration = {
        "text_config": text | {"vocab_size": 262208, "max_position_embeddings": 131072},
        "vision_config": vision | {"model_type": "siglip_vision_model"},
        "mm_tokens_per_image": 256,
        "dtype": "bfloat16",
    }
    return Checkpoint(
        "google/gemma-3-4b-pt",
        configuration,
        gated=True,
        model_type="gemma3",
        architecture="Gemma3ForConditionalGeneration",
    )


def _phi(name: str, shape: tuple[int, int, int, int, int], **more: Any) -> Checkpoint:
    configuration = _plain(shape, rms_norm_eps=1e-5, tie_word_embeddings=False, **more)
    return Checkpoint(f"microsoft/{name}", configuration, model_type="phi3", architecture="Phi3ForCausalLM")


def _smollm2(size: str, shape: tuple[int, int, int, int, int], theta: float, **more: Any) -> Checkpoint:
    """Return a SmolLM2: Llama's layers, which the Llama adapter serves."""
    configuration = _plain(
        shape,
        vocab_size=49152,
        max_position_embeddings=8192,
        rope_parameters=_rotary(theta),
        rms_norm_eps=1e-5,
        tie_word_embeddings=True,
        **more,
    )
    return Checkpoint(
        f"HuggingFaceTB/SmolLM2-{size}", configuration, model_type="llama", architecture="LlamaForCausalLM"
    )


DECODERS = {
    "opt-125m": _opt("125m", 768, 12, 12),
    "opt-1.3b": _opt("1.3b", 2048, 24, 32),
    "opt-6.7b": _opt("6.7b", 4096, 32, 32),
    "pythia-160m": _gpt_neox("pythia-160m", (768, 12, 12), vocabulary=50304),
    "pythia-1.4b": _gpt_neox("pythia-1.4b", (2048, 24, 16), vocabulary=50304),
    "gpt-neox-20b": _gpt_neox("gpt-neox-20b", (6144, 44, 64), vocabulary=50432, activation="gelu_fast"),
    "mistral-7b": _mistral(),
    "qwen3-0.6b": _qwen3("0.6B", (1024, 3072, 28, 16, 8), tied=True),
    "qwen3-1.7b": _qwen3("1.7B", (2048, 6144, 28, 16, 8), tied=True),
    "qwen3-4b": _qwen3("4B", (2560, 9728, 36, 32, 8), tied=True),
    "qwen3-8b": _qwen3("8B", (4096, 12288, 36, 32, 8), tied=False),
    "gemma-3-1b": _gemma3_1b(),
    "gemma-3-4b": _gemma3_4b(),
    "phi-3-mini": _phi(
        "Phi-3-mini-4k-instruct",
        (3072, 8192, 32, 32, 32),
        rope_parameters=_rotary(10000.0),
        vocab_size=32064,
        max_position_embeddings=4096,
        original_max_position_embeddings=4096,
        sliding_window=2047,
        bos_token_id=1,
        eos_token_id=32000,
        pad_token_id=32000,
    ),
    "phi-4": _phi(
        "phi-4",
        (5120, 17920, 40, 40, 10),
        rope_parameters=_rotary(250000.0),
        vocab_size=100352,
        max_position_embeddings=16384,
        original_max_position_embeddings=16384,
        sliding_window=None,
        bos_token_id=100257,
        eos_token_id=100257,
        pad_token_id=100257,
    ),
    "smollm2-135m": _smollm2("135M", (576, 1536, 30, 9, 3), 100000.0, bos_token_id=0, eos_token_id=0),
    "smollm2-360m": _smollm2("360M", (960, 2560, 32, 15, 5), 100000.0, bos_token_id=0, eos_token_id=0),
    "smollm2-1.7b": _smollm2("1.7B", (2048, 8192, 24, 32, 32), 130000.0, bos_token_id=1, eos_token_id=2),
}
