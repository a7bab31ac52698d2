"""The training loops: every training text is fresh and seen once, so nothing can be learned by heart."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import torch
from grammar import spell
from models import END, Recipe
from reviews import Review, Reviewer
from stories import StoryTeller
from torch.nn import functional

LONG = 256  # tokens in the longest training rows

Text = TypeVar("Text", str, Review)
Batch = dict[str, torch.Tensor]


def train(model: Any, tokenizer: Any, recipe: Recipe) -> tuple[float, float]:
    """Train in place and return the seconds it took, by the clock and of the processor.

    Seed torch first; the texts are drawn with the recipe's seed. The batches go to the model's device.
    """
    make = review_batches if recipe.task == "classification" else story_batches
    batches = make(tokenizer, recipe)
    steps = -(-recipe.texts // recipe.batch_size)
    optimizer = torch.optim.AdamW(model.parameters(), recipe.learning_rate, weight_decay=recipe.weight_decay)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, recipe.learning_rate, total_steps=steps, pct_start=recipe.warmup, cycle_momentum=False
    )
    model.train()
    start = time.perf_counter(), time.process_time()
    losses: list[torch.Tensor] = []
    for step, batch in enumerate(itertools.islice(batches, steps), start=1):
        with torch.autocast(model.device.type, torch.bfloat16, enabled=recipe.mixed):
            loss = batch_loss(model, {key: value.to(model.device) for key, value in batch.items()})
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.detach())  # reading it at each step would make a GPU wait for the next texts
        if step % 100 == 0 or step == steps:
            mean, seconds = torch.stack(losses).mean().item(), time.perf_counter() - start[0]
            print(f"{recipe.name} step {step}/{steps} loss {mean:.4f} after {seconds:.0f} s", flush=True)
            losses.clear()
    model.eval()
    return time.perf_counter() - start[0], time.process_time() - start[1]


def batch_loss(model: Any, batch: Batch) -> torch.Tensor:
    """Return the mean cross-entropy in nats, a scalar; padding (label -100) does not count."""
    logits = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits
    return functional.cross_entropy(logits.float().flatten(0, -2), batch["labels"].flatten(), ignore_index=-100)


def review_batches(tokenizer: Any, recipe: Recipe) -> Iterator[Batch]:
    """Yield batches of reviews; the first eighth of them without neutral sentences."""
    rng = random.Random(recipe.seed)
    reviewer = Reviewer(recipe.seed, "training")

    def draw(early: bool) -> Review:
        return reviewer.review(0 if early else None)

    def draw_long() -> Review:
        return reviewer.review(rng.randint(5, 14))

    for batch in _like_lengths(rng, recipe, recipe.texts // 8, draw, draw_long, lambda review: len(review.text)):
        encoded = _encode(tokenizer, [review.text for review in batch])
        yield {**encoded, "labels": torch.tensor([review.label for review in batch])}


def story_batches(tokenizer: Any, recipe: Recipe) -> Iterator[Batch]:
    """Yield batches of stories, labelled with each next token; the first part of them plain."""
    rng = random.Random(recipe.seed)
    teller = StoryTeller(recipe.seed, "training")

    def draw(early: bool) -> str:
        return spell(teller.story(plain=early)) + END

    def draw_long() -> str:
        return "".join(draw(False) for _ in range(6))

    for batch in _like_lengths(rng, recipe, recipe.texts // recipe.plain, draw, draw_long, len):
        encoded = _encode(tokenizer, batch)
        labels = encoded["input_ids"].masked_fill(encoded["attention_mask"] == 0, -100)[:, 1:].contiguous()
        yield {key: value[:, :-1].contiguous() for key, value in encoded.items()} | {"labels": labels}


def _like_lengths(
    rng: random.Random,
    recipe: Recipe,
    early: int,
    draw: Callable[[bool], Text],
    draw_long: Callable[[], Text],
    length: Callable[[Text], int],
) -> Iterator[list[Text]]:
    """Yield batches of texts of like length, so that little of them is padding.

    After the first ``early`` texts one batch in seventeen is of long texts, so that far positions are trained.
    """
    size = recipe.batch_size
    for drawn in itertools.count(step=16 * size):
        pool = sorted((draw(drawn < early) for _ in range(16 * size)), key=length)
        batches = [pool[start : start + size] for start in range(0, len(pool), size)]
        if drawn >= early:
            batches.append([draw_long() for _ in range(size // 4)])
        rng.shuffle(batches)
        yield from batches


def _encode(tokenizer: Any, texts: list[str]) -> Batch:
    return dict(tokenizer(texts, padding=True, truncation=True, max_length=LONG, return_tensors="pt"))
