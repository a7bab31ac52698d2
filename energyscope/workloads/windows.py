"""Running text as windows that overlap, so that each token is predicted once, from enough context."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Example:
    """Token ids; the class ``label`` where there is one; tokens before ``counted_from`` are context only.

    ``index`` is its place in the source, from 0: of its line or row, or of its window in running text. It says
    nothing of the content, and two examples are equal without it.
    """

    tokens: Sequence[int]
    label: int | None = None
    counted_from: int = 0
    index: int | None = field(default=None, compare=False)

    @property
    def predictions(self) -> int:
        """How many tokens of the example are predicted: the first one has nothing before it."""
        return len(self.tokens) - max(1, self.counted_from)


def strided(tokens: Sequence[int], length: int, stride: int) -> list[Example]:
    """Cut a text into windows of ``length`` tokens, ``stride`` apart; the last may be shorter.

    The first window counts in full, each other only the tokens beyond the one before it: every token but the first
    is predicted once, from at least ``length - stride`` tokens where that many come before it. This is how
    perplexities of a model with a fixed context are commonly reported. With ``stride == length`` the windows
    do not overlap, and the first token of each is predicted by none.
    """
    examples: list[Example] = []
    covered = 0
    for start in range(0, len(tokens), stride):
        end = min(start + length, len(tokens))
        context = max(0, covered - start)
        examples.append(Example(tokens[start:end], counted_from=context, index=len(examples)))
        covered = end
        if end == len(tokens):
            break
    return [example for example in examples if example.predictions > 0]
