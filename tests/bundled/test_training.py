"""The committed training is seeded and feeds texts of the training side only."""

from __future__ import annotations

import dataclasses
from itertools import islice
from typing import Any

import grammar
import models
import pytest
import reviews
import stories
import torch
import training
from train import BUNDLED


def short(name: str, texts: int) -> models.Recipe:
    return dataclasses.replace(models.RECIPES[name], texts=texts, batch_size=8)


def tokenizer_of(recipe: models.Recipe) -> Any:
    words = reviews.vocabulary() if recipe.task == "classification" else stories.vocabulary()
    return models.tokenizer_for(recipe, words)


def trained(recipe: models.Recipe) -> dict[str, torch.Tensor]:
    torch.manual_seed(recipe.seed)
    tokenizer = tokenizer_of(recipe)
    model = models.build(recipe, tokenizer)
    training.train(model, tokenizer, recipe)
    return dict(model.state_dict())


@pytest.mark.parametrize("name", BUNDLED)
def test_same_seed_same_weights(name: str) -> None:
    """GIVEN one recipe WHEN it is trained twice THEN every weight is the same; another seed gives others."""
    recipe = short(name, texts=24)
    first, second = trained(recipe), trained(recipe)
    other = trained(dataclasses.replace(recipe, seed=recipe.seed + 1))
    assert all(torch.equal(first[key], second[key]) for key in first)
    assert any(not torch.equal(first[key], other[key]) for key in first)


@pytest.mark.parametrize("name", BUNDLED)
def test_batches_hold_known_words_and_no_held_out_sentence(name: str) -> None:
    """Every whole sentence of the batches, the long ones too, lies on the training side of the split."""
    recipe = short(name, texts=0)
    tokenizer = tokenizer_of(recipe)
    make = training.review_batches if recipe.task == "classification" else training.story_batches
    batches = list(islice(make(tokenizer, recipe), 34))
    longest = max(batch["input_ids"].shape[1] for batch in batches)
    assert 150 < longest <= training.LONG
    for row in (row for batch in batches for row in batch["input_ids"]):
        assert tokenizer.unk_token_id not in row
        text = tokenizer.decode(row, skip_special_tokens=True).split()
        whole = grammar.sentences(grammar.spell(text).rpartition(".")[0])  # the last one may be cut
        assert {grammar.side_of(sentence) for sentence in whole} <= {"training"}


def test_story_labels_are_the_next_tokens() -> None:
    """A label is the token that follows its input, and padding has none."""
    recipe = short("tiny-gpt2", texts=100)
    tokenizer = tokenizer_of(recipe)
    for batch in islice(training.story_batches(tokenizer, recipe), 8):
        inputs, labels = batch["input_ids"], batch["labels"]
        padded = inputs == tokenizer.pad_token_id
        assert (labels[padded] == -100).all()
        assert torch.equal(labels[:, :-1][~padded[:, 1:]], inputs[:, 1:][~padded[:, 1:]])
