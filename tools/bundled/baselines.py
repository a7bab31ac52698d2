"""What can be had without structure: majority, bag of words, pairs of neighbours, n-grams.

They get the same words as the models (the tokenizer's ids) and training texts of the same grammar.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

import torch
from torch import nn
from torch.nn import functional

Ids = Sequence[int]


def majority_accuracy(training: Sequence[int], held_out: Sequence[int]) -> float:
    """Return the accuracy of always answering the commonest training label."""
    commonest = Counter(training).most_common(1)[0][0]
    return sum(label == commonest for label in held_out) / len(held_out)


class BagClassifier:
    """Logistic regression on the n-grams (up to ``order``) that a text contains, wherever they stand."""

    def __init__(self, order: int, minimum: int = 3) -> None:
        self.order = order
        self.minimum = minimum
        self.index: dict[tuple[int, ...], int] = {}
        self.weights = nn.EmbeddingBag(1, 1, mode="sum")
        self.bias = torch.zeros(1, requires_grad=True)

    def fit(self, texts: Sequence[Ids], labels: Sequence[int], epochs: int = 8, seed: int = 0) -> BagClassifier:
        """Fit by Adam with a decreasing step; n-grams seen fewer than ``minimum`` times are left out."""
        counts = Counter(gram for text in texts for gram in set(self._grams(text)))
        kept = sorted(gram for gram, count in counts.items() if count >= self.minimum)
        self.index = {gram: index for index, gram in enumerate(kept)}
        self.weights = nn.EmbeddingBag(len(kept), 1, mode="sum")
        nn.init.zeros_(self.weights.weight)
        bags, target = [self._bag(text) for text in texts], torch.tensor(labels, dtype=torch.float32)
        parameters = [*self.weights.parameters(), self.bias]
        steps = epochs * -(-len(texts) // 128)
        optimizer = torch.optim.Adam(parameters, 0.03)
        schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.01, total_iters=steps)
        generator = torch.Generator().manual_seed(seed)
        for _ in range(epochs):
            for chosen in torch.split(torch.randperm(len(texts), generator=generator), 128):
                scores = self._scores([bags[i] for i in chosen.tolist()])
                loss = functional.binary_cross_entropy_with_logits(scores, target[chosen])
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                schedule.step()
        return self

    def accuracy(self, texts: Sequence[Ids], labels: Sequence[int]) -> float:
        """Return the share of texts whose label is right."""
        with torch.no_grad():
            favourable = self._scores([self._bag(text) for text in texts]) > 0
        return (favourable.long() == torch.tensor(labels)).float().mean().item()

    def _grams(self, text: Ids) -> Iterable[tuple[int, ...]]:
        return (tuple(text[i : i + n]) for n in range(1, self.order + 1) for i in range(len(text) - n + 1))

    def _bag(self, text: Ids) -> list[int]:
        return sorted({self.index[gram] for gram in self._grams(text) if gram in self.index})

    def _scores(self, bags: Sequence[Sequence[int]]) -> torch.Tensor:
        lengths = torch.tensor([0, *(len(bag) for bag in bags)])
        flat = torch.tensor([feature for bag in bags for feature in bag], dtype=torch.long)
        scores: torch.Tensor = self.weights(flat, lengths.cumsum(0)[:-1]).squeeze(-1) + self.bias
        return scores


class NGramModel:
    """Next-token probabilities from the last ``order - 1`` tokens, with Witten-Bell smoothing.

    ``P(w|h) = (c(hw) + T(h) P(w|h')) / (c(h) + T(h))`` where ``T(h)`` counts the different tokens seen after
    ``h`` and ``h'`` is ``h`` without its first token (Witten and Bell 1991); below the unigram lies the
    uniform distribution. The first token of a text is given, not predicted.
    """

    def __init__(self, order: int, vocabulary: int) -> None:
        self.order = order
        self.vocabulary = vocabulary
        self.after: dict[tuple[int, ...], Counter[int]] = defaultdict(Counter)

    def fit(self, texts: Iterable[Ids]) -> NGramModel:
        for text in texts:
            for end in range(1, len(text)):
                for length in range(min(self.order - 1, end) + 1):
                    self.after[tuple(text[end - length : end])][text[end]] += 1
        self.totals = {history: counts.total() for history, counts in self.after.items()}
        return self

    def probability(self, history: Ids, token: int) -> float:
        """Return the probability of a token after a history of any length."""
        estimate = 1.0 / self.vocabulary
        for length in range(min(self.order - 1, len(history)) + 1):
            key = tuple(history[len(history) - length :])
            total = self.totals.get(key)
            if total is None:
                break
            counts = self.after[key]
            estimate = (counts[token] + len(counts) * estimate) / (total + len(counts))
        return estimate

    def perplexity(self, texts: Iterable[Ids]) -> float:
        """Return exp of the mean negative log-probability (nats) of every token but each text's first."""
        total, count = 0.0, 0
        for text in texts:
            for end in range(1, len(text)):
                total -= math.log(self.probability(text[max(0, end - self.order + 1) : end], text[end]))
                count += 1
        return math.exp(total / count)

    def prefers(self, history: Ids, right: int, wrong: int) -> bool:
        """Return whether the right token is likelier than the wrong one."""
        return self.probability(history, right) > self.probability(history, wrong)
