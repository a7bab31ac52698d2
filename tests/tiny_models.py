"""Tiny real models and tokenizers, made on the spot: the families' own classes at a few thousand parameters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

WORDS = "the a cat dog sees likes not good bad very . , and is was old new red blue house tree".split()  # noqa: SIM905
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
VOCABULARY = len(SPECIAL) + len(WORDS)


def config(family: str, **changes: Any) -> Any:
    """Return a tiny configuration of a family that energyscope ships."""
    import transformers

    sizes: dict[str, Any] = {
        "distilbert": {"dim": 16, "hidden_dim": 32, "n_layers": 2, "n_heads": 2, "max_position_embeddings": 32},
        "gpt2": {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 32, "bos_token_id": 3, "eos_token_id": 3},
        "llama": {
            "hidden_size": 16,
            "intermediate_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "num_key_value_heads": 1,
            "max_position_embeddings": 32,
        },
    }[family]
    return transformers.AutoConfig.for_model(family, **{"vocab_size": VOCABULARY, **sizes, **changes})


def model_class(family: str) -> Any:
    import transformers

    return {
        "distilbert": transformers.DistilBertForSequenceClassification,
        "gpt2": transformers.GPT2LMHeadModel,
        "llama": transformers.LlamaForCausalLM,
    }[family]


def save_model(folder: Path, family: str, *, tokenizer: bool = True, **changes: Any) -> Path:
    """Save a seeded tiny model, with a word tokenizer, in the Hugging Face layout."""
    import torch

    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        model_class(family)(config(family, **changes)).save_pretrained(folder)
    if tokenizer:
        save_tokenizer(folder, wrapped=family == "distilbert")
    return folder


def save_tokenizer(folder: Path, *, wrapped: bool) -> None:
    """Save a tokenizer of whole words; ``wrapped`` puts [CLS] and [SEP] around each text."""
    import tokenizers
    from tokenizers import models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    words = {word: index for index, word in enumerate([*SPECIAL, *WORDS])}
    inner = tokenizers.Tokenizer(models.WordLevel(words, unk_token=SPECIAL[1]))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    if wrapped:
        pairs = [("[CLS]", 2), ("[SEP]", 3)]
        inner.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=pairs)
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    PreTrainedTokenizerFast(tokenizer_object=inner, **names).save_pretrained(folder)
