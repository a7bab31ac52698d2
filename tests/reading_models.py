"""Tiny models that wait for the device in a pass, or copy constants to it."""

from __future__ import annotations

from transformers import AutoConfig, BartConfig, BartForConditionalGeneration, GptOssForCausalLM


def bart():
    """Return a model in FP16 whose encoder layers look for overflows."""
    config = BartConfig(vocab_size=64, d_model=16, encoder_layers=2, decoder_layers=1, encoder_attention_heads=2,
                        decoder_attention_heads=2, encoder_ffn_dim=32, decoder_ffn_dim=32)  # fmt: skip
    return BartForConditionalGeneration(config).half()


def gpt_oss(**changes):
    """Return a model whose attention is given a mask that is made of constants; its first layer has a window."""
    config = AutoConfig.for_model(
        "gpt_oss", vocab_size=64, hidden_size=32, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, head_dim=16, num_local_experts=4, num_experts_per_tok=2, **changes,
    )  # fmt: skip
    return GptOssForCausalLM(config)
