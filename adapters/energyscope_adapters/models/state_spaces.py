"""Decoders whose layers mix tokens by a state space: Mamba-2, and Codestral Mamba.

The weights of Mamba-2's authors are not in the format of transformers; those named here are conversions.
"""

from __future__ import annotations

from energyscope.adapters import Checkpoint


def _mamba2(hub_id: str, hidden: int, layers: int, *, vocabulary: int, groups: int, tied: bool) -> Checkpoint:
    """Return a Mamba-2: mixers twice as wide as the model, in heads of 64, with as many B and C as ``groups``."""
    configuration = {
        "vocab_size": vocabulary,
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_heads": 2 * hidden // 64,
        "head_dim": 64,
        "n_groups": groups,
        "state_size": 128,
        "expand": 2,
        "conv_kernel": 4,
        "chunk_size": 256,
        "use_bias": False,
        "use_conv_bias": True,
        "layer_norm_epsilon": 1e-5,
        "residual_in_fp32": True,
        "tie_word_embeddings": tied,
    }
    return Checkpoint(hub_id, configuration, model_type="mamba2", architecture="Mamba2ForCausalLM")


STATE_SPACES = {
    "mamba2-130m": _mamba2("AntonV/mamba2-130m-hf", 768, 24, vocabulary=50288, groups=1, tied=True),
    "mamba2-1.3b": _mamba2("AntonV/mamba2-1.3b-hf", 2048, 48, vocabulary=50288, groups=1, tied=True),
    "mamba-codestral-7b": _mamba2(
        "mistralai/Mamba-Codestral-7B-v0.1", 4096, 64, vocabulary=32768, groups=8, tied=False
    ),
}
