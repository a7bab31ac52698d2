"""How good a model is on held-out texts, with attention and without, and how good the baselines are."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from baselines import BagClassifier, NGramModel, majority_accuracy
from grammar import Choice, spell
from reviews import Review, reviews
from stories import stories, story_texts
from torch.nn import functional

EVALUATION_TEXTS = 500
CHOICES_PER_RULE = 150
BASELINE_TEXTS = 10_000
EVALUATION_SEED = 1
BASELINE_SEED = 2

# The model beats each baseline by at least this, and not without attention.
ACCURACY_MARGIN = 0.25  # in accuracy
PERPLEXITY_RATIO = 0.5  # of the bigram model's perplexity
CHOICE_MARGIN = 0.25  # in the accuracy of the choices that the words before determine
# The rules to which CHOICE_MARGIN applies; binding is reported beside them, as far as it was learned.
RULES = ("agreement", "contrast", "polarity", "recall", "reflexive")

ATTENTION = {
    "distilbert": "distilbert.transformer.layer.{}.attention",
    "gpt2": "transformer.h.{}.attn",
    "llama": "model.layers.{}.self_attn",
}
Item = Mapping[str, Any]


def held_out_reviews() -> list[dict[str, Any]]:
    """Return the evaluation data of the sentiment model, as in its evaluation.jsonl."""
    return [
        {"text": one.text, "label": one.label} for one in reviews(EVALUATION_TEXTS, EVALUATION_SEED, "held-out")
    ]


def held_out_stories() -> list[dict[str, Any]]:
    """Return the evaluation data of the next-token models, as in their evaluation.jsonl."""
    return [{"text": text} for text in story_texts(EVALUATION_TEXTS, EVALUATION_SEED, "held-out")]


def held_out_choices() -> list[dict[str, Any]]:
    """Return determined words of the held-out stories, as in choices.jsonl: the text before each of them,
    the right word, the wrong one that a shallow reader could take, and the rule that decides.
    """
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for words in stories(EVALUATION_TEXTS, EVALUATION_SEED, "held-out"):
        for index, word in enumerate(words):
            if isinstance(word, Choice) and len(found[word.kind]) < CHOICES_PER_RULE:
                choice = {"text": spell(words[:index]), "right": str(word), "wrong": word.wrong, "rule": word.kind}
                found[word.kind].append(choice)
    return [choice for rule in sorted(found) for choice in found[rule]]


@contextmanager
def without_attention(model: Any) -> Iterator[None]:
    """Make every attention block's output zero, so that no token sees another one."""

    def silence(_module: object, _args: object, output: Any) -> Any:
        if isinstance(output, tuple):
            return (torch.zeros_like(output[0]), *output[1:])
        return torch.zeros_like(output)

    layers = range(model.config.num_hidden_layers)
    path = ATTENTION[model.config.model_type]
    hooks = [model.get_submodule(path.format(layer)).register_forward_hook(silence) for layer in layers]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


@torch.inference_mode()
def accuracy(model: Any, tokenizer: Any, items: Sequence[Item]) -> float:
    """Return the share of texts whose label the model gives."""
    right = 0
    for batch in _batches(items):
        encoded = _encoded(model, tokenizer, batch)
        labels = torch.tensor([item["label"] for item in batch], device=model.device)
        right += int((model(**encoded).logits.argmax(-1) == labels).sum())
    return right / len(items)


@torch.inference_mode()
def perplexity(model: Any, tokenizer: Any, items: Sequence[Item]) -> float:
    """Return exp of the mean cross-entropy (nats) over all tokens but each text's first (the start token)."""
    total, count = 0.0, 0
    for batch in _batches(items):
        encoded = _encoded(model, tokenizer, batch)
        labels = encoded["input_ids"].masked_fill(encoded["attention_mask"] == 0, -100)[:, 1:]
        logits = model(**encoded).logits[:, :-1].float()
        total += functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum").item()
        count += int((labels != -100).sum())
    return math.exp(total / count)


@torch.inference_mode()
def choice_accuracy(model: Any, tokenizer: Any, choices: Sequence[Item]) -> dict[str, float]:
    """Return, for each rule, the share of choices in which the right word is likelier than the wrong one."""
    right: dict[str, list[bool]] = defaultdict(list)
    for batch in _batches(choices):
        encoded = _encoded(model, tokenizer, batch)
        last = encoded["attention_mask"].sum(-1) - 1
        logits = model(**encoded).logits[torch.arange(len(batch), device=model.device), last].cpu()
        for choice, scores in zip(batch, logits, strict=True):
            good, bad = tokenizer.convert_tokens_to_ids([choice["right"], choice["wrong"]])
            right[choice["rule"]].append(bool(scores[good] > scores[bad]))
    return _shares(right)


def classification_baselines(tokenizer: Any, items: Sequence[Item]) -> dict[str, float]:
    """Return the accuracies of what was fitted to freshly drawn training reviews."""
    drawn: list[Review] = reviews(BASELINE_TEXTS, BASELINE_SEED, "training")
    texts, held_out = (_ids(tokenizer, [str(item) for item in column]) for column in (
        (review.text for review in drawn), (item["text"] for item in items)
    ))  # fmt: skip
    labels, wanted = [review.label for review in drawn], [int(item["label"]) for item in items]
    return {
        "majority": majority_accuracy(labels, wanted),
        "bag_of_words": BagClassifier(1).fit(texts, labels).accuracy(held_out, wanted),
        "bigram": BagClassifier(2).fit(texts, labels).accuracy(held_out, wanted),
    }


def ngram_models(tokenizer: Any, orders: Sequence[int] = (1, 2, 3)) -> dict[int, NGramModel]:
    """Fit n-gram models to freshly drawn training stories."""
    texts = _ids(tokenizer, story_texts(BASELINE_TEXTS, BASELINE_SEED, "training"))
    return {order: NGramModel(order, len(tokenizer)).fit(texts) for order in orders}


def ngram_perplexity(model: NGramModel, tokenizer: Any, items: Sequence[Item]) -> float:
    return model.perplexity(_ids(tokenizer, [item["text"] for item in items]))


def ngram_choice_accuracy(model: NGramModel, tokenizer: Any, choices: Sequence[Item]) -> dict[str, float]:
    """Return the same as ``choice_accuracy`` for an n-gram model."""
    right: dict[str, list[bool]] = defaultdict(list)
    for choice in choices:
        good, bad = tokenizer.convert_tokens_to_ids([choice["right"], choice["wrong"]])
        right[choice["rule"]].append(model.prefers(tokenizer(choice["text"])["input_ids"], good, bad))
    return _shares(right)


def _shares(right: Mapping[str, Sequence[bool]]) -> dict[str, float]:
    return {rule: sum(hits) / len(hits) for rule, hits in sorted(right.items())}


def _batches(items: Sequence[Item], size: int = 50) -> Iterator[Sequence[Item]]:
    return (items[start : start + size] for start in range(0, len(items), size))


def _encoded(model: Any, tokenizer: Any, items: Sequence[Item]) -> Any:
    """Return the items' texts as padded rows (items x tokens), on the model's device."""
    return tokenizer([item["text"] for item in items], padding=True, return_tensors="pt").to(model.device)


def _ids(tokenizer: Any, texts: Sequence[str]) -> list[list[int]]:
    ids: list[list[int]] = tokenizer(list(texts))["input_ids"]
    return ids
