"""Encoders that are trained on masked tokens: ALBERT, RoBERTa, DistilRoBERTa, ModernBERT."""

from __future__ import annotations

from energyscope.adapters import Checkpoint


def _albert(size: str, hidden: int, layers: int, heads: int) -> Checkpoint:
    configuration = {
        "vocab_size": 30000,
        "embedding_size": 128,
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_hidden_groups": 1,
        "inner_group_num": 1,
        "num_attention_heads": heads,
        "intermediate_size": 4 * hidden,
        "max_position_embeddings": 512,
        "type_vocab_size": 2,
        "hidden_act": "gelu_new",
        "layer_norm_eps": 1e-12,
        "pad_token_id": 0,
        "bos_token_id": 2,
        "eos_token_id": 3,
    }
    return Checkpoint(
        f"albert/albert-{size}-v2", configuration, model_type="albert", architecture="AlbertForMaskedLM"
    )


def _roberta(hub_id: str, hidden: int, layers: int) -> Checkpoint:
    """Return a RoBERTa: heads have a width of 64, the MLP is four times as wide, two positions are padding."""
    configuration = {
        "vocab_size": 50265,
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": hidden // 64,
        "intermediate_size": 4 * hidden,
        "max_position_embeddings": 514,
        "type_vocab_size": 1,
        "hidden_act": "gelu",
        "layer_norm_eps": 1e-5,
        "pad_token_id": 1,
        "bos_token_id": 0,
        "eos_token_id": 2,
    }
    return Checkpoint(hub_id, configuration, model_type="roberta", architecture="RobertaForMaskedLM")


def _modernbert(size: str, shape: tuple[int, int, int, int]) -> Checkpoint:
    """Return a ModernBERT; ``shape`` is its hidden size, the intermediate size, and the layers and heads.

    Every third layer attends to all tokens, the others to 64 on either side.
    """
    hidden, intermediate, layers, heads = shape
    configuration = {
        "vocab_size": 50368,
        "hidden_size": hidden,
        "intermediate_size": intermediate,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "max_position_embeddings": 8192,
        "hidden_activation": "gelu",
        "norm_eps": 1e-5,
        "local_attention": 128,
        "layer_types": ["sliding_attention" if layer % 3 else "full_attention" for layer in range(layers)],
        "rope_parameters": {
            "full_attention": {"rope_type": "default", "rope_theta": 160000.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
        },
        "tie_word_embeddings": True,
    }
    return Checkpoint(
        f"answerdotai/ModernBERT-{size}",
        configuration,
        model_type="modernbert",
        architecture="ModernBertForMaskedLM",
    )


ENCODERS = {
    "albert-base-v2": _albert("base", 768, 12, 12),
    "albert-large-v2": _albert("large", 1024, 24, 16),
    "roberta-base": _roberta("FacebookAI/roberta-base", 768, 12),
    "roberta-large": _roberta("FacebookAI/roberta-large", 1024, 24),
    "distilroberta-base": _roberta("distilbert/distilroberta-base", 768, 6),
    "modernbert-base": _modernbert("base", (768, 1152, 22, 12)),
    "modernbert-large": _modernbert("large", (1024, 2624, 28, 16)),
}
