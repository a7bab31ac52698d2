"""The three architectures and their tokenizer, before training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

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

POSITIONS = 512  # the longest input; nothing in training is longer than 256
SPREAD = 0.08  # of the initial weights; the families' usual 0.02 suits widths of thousands, not of a hundred
LABELS = {0: "negative", 1: "positive"}
END = "<|endoftext|>"  # begins every story, and so ends the one before it


@dataclass(frozen=True)
class Recipe:
    """How one model is trained. ``texts`` is the number of training texts, each seen once."""

    name: str
    task: Literal["classification", "next-token"]
    seed: int
    texts: int
    batch_size: int
    learning_rate: float
    weight_decay: float = 0.01
    warmup: float = 0.05


RECIPES = {
    recipe.name: recipe
    for recipe in (
        Recipe("tiny-distilbert", "classification", 11, 200_000, 64, 7e-4),
        Recipe("tiny-gpt2", "next-token", 12, 70_000, 24, 2e-3),
        Recipe("tiny-llama", "next-token", 13, 70_000, 24, 2e-3),
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
        model_max_length=POSITIONS,
        padding_side="right",
        model_input_names=["input_ids", "attention_mask"],
        **names,
    )


def build(recipe: Recipe, tokenizer: Any) -> Any:
    """Build the untrained model of a recipe. Seed torch first."""
    builder = {"tiny-distilbert": _distilbert, "tiny-gpt2": _gpt2, "tiny-llama": _llama}[recipe.name]
    return builder(tokenizer)


def _distilbert(tokenizer: Any) -> Any:
    return DistilBertForSequenceClassification(
        DistilBertConfig(
            vocab_size=len(tokenizer),
            max_position_embeddings=POSITIONS,
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


def _gpt2(tokenizer: Any) -> Any:
    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=len(tokenizer),
            n_positions=POSITIONS,
            initializer_range=SPREAD,
            n_embd=96,
            n_layer=4,
            n_head=6,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            resid_pdrop=0.0,
            **_tokens(tokenizer),
        )
    )


def _llama(tokenizer: Any) -> Any:
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            max_position_embeddings=POSITIONS,
            initializer_range=SPREAD,
            hidden_size=96,
            intermediate_size=256,
            num_hidden_layers=5,
            num_attention_heads=6,
            num_key_value_heads=2,
            tie_word_embeddings=True,
            **_tokens(tokenizer),
        )
    )


def _tokens(tokenizer: Any) -> dict[str, int]:
    return {
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }
