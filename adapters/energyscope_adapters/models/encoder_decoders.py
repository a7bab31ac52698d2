"""Encoders with a decoder that attends to them: T5, BART, and Whisper for speech."""

from __future__ import annotations

from energyscope.adapters import Checkpoint


def _t5(size: str, hidden: int, layers: int, heads: int) -> Checkpoint:
    """Return a T5: heads have a width of 64, the MLP is four times as wide, both halves have as many layers."""
    configuration = {
        "vocab_size": 32128,
        "d_model": hidden,
        "d_kv": 64,
        "d_ff": 4 * hidden,
        "num_layers": layers,
        "num_decoder_layers": layers,
        "num_heads": heads,
        "relative_attention_num_buckets": 32,
        "feed_forward_proj": "relu",
        "layer_norm_epsilon": 1e-6,
        "tie_word_embeddings": True,
        "pad_token_id": 0,
        "eos_token_id": 1,
        "decoder_start_token_id": 0,
    }
    return Checkpoint(
        f"google-t5/t5-{size}", configuration, model_type="t5", architecture="T5ForConditionalGeneration"
    )


def _bart(size: str, hidden: int, layers: int, heads: int) -> Checkpoint:
    """Return a BART with its head, which is tied to the embedding: the weights are published without one."""
    configuration = {
        "vocab_size": 50265,
        "d_model": hidden,
        "encoder_layers": layers,
        "decoder_layers": layers,
        "encoder_attention_heads": heads,
        "decoder_attention_heads": heads,
        "encoder_ffn_dim": 4 * hidden,
        "decoder_ffn_dim": 4 * hidden,
        "max_position_embeddings": 1024,
        "activation_function": "gelu",
        "scale_embedding": False,
        "pad_token_id": 1,
        "bos_token_id": 0,
        "eos_token_id": 2,
        "decoder_start_token_id": 2,
    }
    return Checkpoint(
        f"facebook/bart-{size}", configuration, model_type="bart", architecture="BartForConditionalGeneration"
    )


def _whisper(size: str, hidden: int, layers: int) -> Checkpoint:
    """Return a Whisper: heads have a width of 64, the MLP is four times as wide, 30 s are 1500 positions."""
    configuration = {
        "vocab_size": 51865,
        "num_mel_bins": 80,
        "d_model": hidden,
        "encoder_layers": layers,
        "decoder_layers": layers,
        "encoder_attention_heads": hidden // 64,
        "decoder_attention_heads": hidden // 64,
        "encoder_ffn_dim": 4 * hidden,
        "decoder_ffn_dim": 4 * hidden,
        "max_source_positions": 1500,
        "max_target_positions": 448,
        "activation_function": "gelu",
        "scale_embedding": False,
        "pad_token_id": 50257,
        "bos_token_id": 50257,
        "eos_token_id": 50257,
        "decoder_start_token_id": 50258,
    }
    return Checkpoint(
        f"openai/whisper-{size}",
        configuration,
        model_type="whisper",
        architecture="WhisperForConditionalGeneration",
    )


ENCODER_DECODERS = {
    "t5-small": _t5("small", 512, 6, 8),
    "t5-base": _t5("base", 768, 12, 12),
    "t5-large": _t5("large", 1024, 24, 16),
    "bart-base": _bart("base", 768, 6, 12),
    "bart-large": _bart("large", 1024, 12, 16),
    "whisper-tiny": _whisper("tiny", 384, 4),
    "whisper-base": _whisper("base", 512, 6),
    "whisper-small": _whisper("small", 768, 12),
}
