"""How many tokens prompt lookup gets accepted: the model continues texts of the evaluation data with it.

Prompt lookup (n-gram speculation) proposes what came after the latest tokens where these stood before, and one
pass of the model verifies all of it. What that saves depends on the text, so it is counted on real text.
"""

from __future__ import annotations

from typing import Any

import torch

from energyscope.changes.acceptance import Acceptance
from energyscope.errors import ModelError
from energyscope.kv_cache import carries_states
from energyscope.loading import LoadedModel
from energyscope.reasons import Reason, reason, words
from energyscope.workloads import Evaluation, position_limit
from energyscope.workloads.decoding import can_generate, fresh_cache_length, generation_options
from energyscope.workloads.timed import benchmark_inputs

TEXTS, NEW_TOKENS = 16, 32
FEWEST_TOKENS = 16
MOST_GAP = 0.5  # nats between the two likeliest tokens that rounding may exchange: logits of BF16 lie 0.125 apart
PASSES = 1.5  # of an ordinary generation's time, for its prompt and for Python around the steps


def why_no_lookup(loaded: LoadedModel, evaluation: Evaluation | None) -> Reason | None:
    """Return why what prompt lookup saves cannot be known here; None if it can."""
    if loaded.weights == "random":
        return reason("lookup-random-weights")
    if not can_generate(loaded):
        return reason("lookup-beside-an-encoder")
    if carries_states(loaded.model):
        return reason("lookup-carries-states")
    return reason("lookup-without-text") if evaluation is None else None


def expected_seconds(step_s: float, *, first: bool) -> float:
    """Return about how long counting takes (s); the ``first`` time also without prompt lookup."""
    return PASSES * TEXTS * NEW_TOKENS * step_s * (2 if first else 1)


class PromptLookup:
    """Generates continuations with and without prompt lookup, greedily, one text at a time."""

    def __init__(self, loaded: LoadedModel, evaluation: Evaluation | None) -> None:
        self.loaded = loaded
        self.evaluation = evaluation
        self._plain: list[torch.Tensor] = []

    @property
    def begun(self) -> bool:
        """Whether the texts without prompt lookup are there already."""
        return bool(self._plain)

    def accepted(self, proposed: int, context: int) -> Acceptance:
        """Count what is accepted of ``proposed`` tokens a step, after prompts of at most ``context`` tokens.

        Raises:
            ModelError: there is too little text, or the texts differ by more than rounding explains.

        """
        prompts = self._prompts(context)
        self._plain = self._plain or [self._generate(ids)[0] for ids in prompts]
        pairs = [self._generate(ids, prompt_lookup_num_tokens=proposed) for ids in prompts]
        gaps = [
            self._gap(ids, plain, fast)
            for ids, plain, (fast, _) in zip(prompts, self._plain, pairs, strict=True)
            if not torch.equal(plain, fast)
        ]
        if gaps and max(gaps) > MOST_GAP:
            raise ModelError(words(reason("lookup-other-text", texts=len(gaps), of=len(prompts), gap=max(gaps))))
        calls = [counts[1:] for _, counts in pairs]  # without the prompt's pass
        return Acceptance(
            tokens=[sum(made for made, _ in steps) for steps in calls],
            steps=[len(steps) for steps in calls],
            proposed=[sum(rows > 1 for _, rows in steps) for steps in calls],
            prompt_tokens=prompts[0].shape[1],
            same=len(prompts) - len(gaps),
            largest_gap=max(gaps, default=None),
        )

    def _prompts(self, context: int) -> list[torch.Tensor]:
        """Return the prompts, each (1, S): stretches of the data, none of it twice, which would repeat itself.

        Raises:
            ModelError: the data has too few tokens, or the model too few positions.

        """
        assert self.evaluation is not None  # noqa: S101 - see `why_no_lookup`
        masks = self.evaluation.counted or [batch["attention_mask"] for batch in self.evaluation.batches]
        available = sum(int(mask.sum()) for mask in masks)
        length = min(context, position_limit(self.loaded) - NEW_TOKENS, available // TEXTS)
        if length < FEWEST_TOKENS:
            raise ModelError(words(reason("lookup-little-text", tokens=available, needed=TEXTS * FEWEST_TOKENS)))
        batches = benchmark_inputs(
            self.loaded, batch_size=1, sequence_length=length, evaluation=self.evaluation, count=TEXTS
        )
        return [batch.inputs["input_ids"] for batch in batches]

    def _generate(self, ids: torch.Tensor, **options: Any) -> tuple[torch.Tensor, list[tuple[int, int]]]:
        """Return the new tokens after a prompt, and of each pass of the model the tokens made and the rows."""
        model: Any = self.loaded.model
        made, rows = _Streamer(), list[int]()
        handle = model.register_forward_pre_hook(
            lambda _model, _args, inputs: rows.append(inputs["input_ids"].shape[1]), with_kwargs=True
        )
        try:
            with fresh_cache_length(model):
                text = model.generate(
                    input_ids=ids,
                    attention_mask=torch.ones_like(ids),
                    max_new_tokens=NEW_TOKENS,
                    streamer=made,
                    **generation_options("dynamic", NEW_TOKENS),
                    **options,
                )
        finally:
            handle.remove()
        return text[0, ids.shape[1] :], list(zip(made.sizes[1:], rows, strict=True))

    @torch.no_grad()
    def _gap(self, ids: torch.Tensor, plain: torch.Tensor, fast: torch.Tensor) -> float:
        """Return how far apart (nats) two texts' tokens are to the model where they begin to differ."""
        first = int((plain != fast).nonzero()[0])
        logits = self.loaded.model(input_ids=torch.cat([ids[0], plain[:first]])[None]).logits[0, -1].float()
        return abs(float(logits[plain[first]] - logits[fast[first]]))


class _Streamer:
    """A streamer for ``generate`` that keeps how many tokens came at once; the first are the prompt's."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def put(self, tokens: torch.Tensor) -> None:
        self.sizes.append(tokens.numel())

    def end(self) -> None:
        pass
