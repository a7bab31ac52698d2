"""The architectures, the recipes and the tokenizer, before training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from tokenizers import Tokenizer, normalizers, pre_tokenizers
from tokenizers import models as tokenizer_models
from tokenizers.processors import TemplateProcessing
from transformers import (
    DistilBertConfig,
    DistilBertForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)

POSITIONS = 512  # the tiny models' longest input; nothing in training is longer than 256
SPREAD = 0.08  # of the tiny models' initial weights; the usual 0.02 suits larger widths than a hundred
USUAL_SPREAD = 0.02
LABELS = {0: "negative", 1: "positive"}
END = "<|endoftext|>"  # begins every story, and so ends the one before it


@dataclass(frozen=True)
class Recipe:
    """How one model is trained and saved. ``texts`` is the number of training texts, each seen once.

    The first ``1 / plain`` of a next-token model's texts are plain stories. A ``mixed`` model multiplies its
    matrices in BF16 while it is trained; its weights are FP32 until it is saved as ``saved``. What is not
    ``bundled`` does not go into the package.
    """

    name: str
    task: Literal["classification", "next-token"]
    seed: int
    texts: int
    batch_size: int
    learning_rate: float
    weight_decay: float = 0.01
    warmup: float = 0.05
    positions: int = POSITIONS
    plain: int = 3
    mixed: bool = False
    saved: torch.dtype = torch.float32
    bundled: bool = True


RECIPES = {
    recipe.name: recipe
    for recipe in (
        Recipe("tiny-distilbert", "classification", 11, 200_000, 64, 7e-4),
        Recipe("tiny-gpt2", "next-token", 12, 70_000, 24, 2e-3),
        Recipe("tiny-llama", "next-token", 13, 70_000, 24, 2e-3),
        # Half of the texts plain: with a third (90,000 texts in batches of 48) this one does not learn to recall.
        # Of 70,000 texts it learned little of contrast, of 100,000 little of recall.
        Recipe(
            "gpt2-small", "next-token", 14, 92_000, 32, 5e-4, positions=1024, plain=2, mixed=True, bundled=False
        ),
        Recipe(
            "llama-1b-width",
            "next-token",
            15,
            90_000,
            48,
            3e-4,
            positions=2048,
            mixed=True,
            saved=torch.bfloat16,
            bundled=False,
        ),
    )
}


def tokenizer_for(recipe: Recipe, words: Sequence[str]) -> Any:
    """Build a tokenizer of whole lower-case words; unknown ones become one token."""
    if recipe.task == "classification":
        names = {f"{name.lower()}_token": f"[{name}]" for name in ("PAD", "UNK", "CLS", "SEP", "MASK")}
        template = "[CLS] $A [SEP]"
    else:
        names = {"bos_token": END, "eos_token": END, "pad_token": "<|pad|>", "unk_token": "<|unknown|>"}
        template = f"{END} $A"
    special = list(dict.fromkeys(names.values()))
    ids = {word: index for index, word in enumerate([*special, *words])}
    tokenizer = Tokenizer(tokenizer_models.WordLevel(ids, unk_token=names["unk_token"]))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = TemplateProcessing(
        single=template, special_tokens=[(token, ids[token]) for token in special if token in template]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_max_length=recipe.positions,
        padding_side="right",
        model_input_names=["input_ids", "attention_mask"],
        **names,
    )


def build(recipe: Recipe, tokenizer: Any) -> Any:
    """Build the untrained model of a recipe. Seed torch first."""
    builder = {
        "tiny-distilbert": _tiny_distilbert,
        "tiny-gpt2": _tiny_gpt2,
        "tiny-llama": _tiny_llama,
        "gpt2-small": _gpt2_small,
        "llama-1b-width": _llama_1b_width,
    }[recipe.name]
    return builder(tokenizer, recipe.positions)


def _tiny_distilbert(tokenizer: Any, positions: int) -> Any:
    return DistilBertForSequenceClassification(
        DistilBertConfig(
            vocab_size=len(tokenizer),
            max_position_embeddings=positions,
            initializer_range=SPREAD,
            dim=96,
            hidden_dim=384,
            n_layers=4,
            n_heads=6,
            dropout=0.0,
            attention_dropout=0.0,
            seq_classif_dropout=0.0,
            pad_token_id=tokenizer.pad_token_id,
            id2label=LABELS,
            label2id={label: index for index, label in LABELS.items()},
        )
    )


def _tiny_gpt2(tokenizer: Any, positions: int) -> Any:
    return _gpt2(
        tokenizer,
        vocab_size=len(tokenizer),
        n_positions=positions,
        initializer_range=SPREAD,
        n_embd=96,
        n_layer=4,
        n_head=6,
    )


def _gpt2_small(tokenizer: Any, positions: int) -> Any:
    """Build GPT-2 small. Of its vocabulary the tokenizer has the first 220 ids: the other rows of the embedding
    are never read, but with them the head costs what it costs in GPT-2.
    """
    return _gpt2(
        tokenizer,
        vocab_size=50_257,
        n_positions=positions,
        initializer_range=USUAL_SPREAD,
        n_embd=768,
        n_layer=12,
        n_head=12,
    )


def _gpt2(tokenizer: Any, **shape: float) -> Any:
    config = GPT2Config(embd_pdrop=0.0, attn_pdrop=0.0, resid_pdrop=0.0, **_tokens(tokenizer), **shape)
    return GPT2LMHeadModel(config)


def _tiny_llama(tokenizer: Any, positions: int) -> Any:
    return _llama(
        tokenizer,
        vocab_size=len(tokenizer),
        max_position_embeddings=positions,
        initializer_range=SPREAD,
        hidden_size=96,
        intermediate_size=256,
        num_hidden_layers=5,
        num_attention_heads=6,
        num_key_value_heads=2,
    )


def _llama_1b_width(tokenizer: Any, positions: int) -> Any:
    """Build a Llama with the layers of Llama-3.2-1B, but four of them instead of sixteen."""
    return _llama(
        tokenizer,
        # A multiple of 64, as in most large models: GPUs multiply BF16 matrices of other widths with slower
        # kernels, and the head would cost more than its size. The rows that are added are never read.
        vocab_size=-(-len(tokenizer) // 64) * 64,
        max_position_embeddings=positions,
        initializer_range=USUAL_SPREAD,
        hidden_size=2048,
        intermediate_size=8192,
        num_hidden_layers=4,
        num_attention_heads=32,
        num_key_value_heads=8,
        head_dim=64,
    )


def _llama(tokenizer: Any, **shape: float) -> Any:
    return LlamaForCausalLM(LlamaConfig(tie_word_embeddings=True, **_tokens(tokenizer), **shape))


def _tokens(tokenizer: Any) -> dict[str, int]:
    return {
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }
