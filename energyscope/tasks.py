"""What each task predicts: how often, from which outputs of a model, and how it is judged.

| task | predictions | targets |
|---|---|---|
| next-token | at every token but the last | the next token |
| masked-token | at masked tokens | the tokens that were there |
| sequence-to-sequence | at every token of the decoder, which reads the right ones before it | its next token |
| classification, image-classification | one for each example | its class |
| embedding | one for each example: which of a batch's original embeddings is nearest | its own |
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

from energyscope.adapters import TOKEN_TASKS, Adapter, Task
from energyscope.errors import EnergyscopeError, ModelError
from energyscope.failures import ends_a_run, first_line, no_memory_left

if TYPE_CHECKING:
    from torch import Tensor

Batch = Mapping[str, "Tensor"]
HOOKS = ("inputs", "outcome", "distance")  # of an adapter
TEMPERATURE = 0.05  # of cosine distances, as sentence embeddings are trained (Gao et al. 2021, SimCSE)


@dataclass(frozen=True)
class TaskRules:
    """How a task's predictions are read and judged.

    ``per_token`` tasks have one at each token that counts, of the encoder or the decoder; ``shifted`` ones predict
    the token after it. ``cached`` models take ``use_cache``, which is off while predictions are compared.
    ``similarity`` compares embeddings and needs the originals beside the changed ones. ``inputs``, ``outcome`` and
    ``distance`` are the adapter's hooks (`energyscope.adapters.Adapter`).
    """

    per_token: bool = False
    shifted: bool = False
    cached: bool = False
    similarity: bool = False
    inputs: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None
    outcome: Callable[[Any], Any] | None = None
    distance: Callable[[Any, Any], Any] | None = None

    @property
    def metric(self) -> Literal["accuracy", "perplexity"]:
        """How good predictions are: of tokens the perplexity, else the accuracy."""
        return "perplexity" if self.per_token else "accuracy"

    def outputs(self, model: Any, batch: Batch) -> Tensor:
        """Run a model on a batch; return its logits (B, S, V) or (B, classes), or its embeddings (B, D)."""
        inputs = fed(model, batch, self)
        output = model(**inputs, use_cache=False) if self.cached else model(**inputs)
        if self.outcome is not None:
            result: Tensor = self.outcome(output)
            return result
        return mean_embedding(output, batch) if self.similarity else output.logits


RULES: Mapping[Task, TaskRules] = {
    task: TaskRules(
        per_token=task in TOKEN_TASKS,
        shifted=task == "next-token",
        cached=task in {"next-token", "sequence-to-sequence"},
        similarity=task == "embedding",
    )
    for task in get_args(Task)
}


def rules_of(adapter: Adapter) -> TaskRules:
    """Return the rules of an adapter's task, with its hooks; what these raise is a ModelError that names them."""
    hooks: dict[str, Any] = {name: getattr(adapter, name) for name in HOOKS}
    for name, hook in hooks.items():
        hooks[name] = hook and _named(hook, f"hook {name!r} of the adapter {adapter.name!r}")
    return replace(RULES[adapter.task], **hooks)


def _named(hook: Callable[..., Any], what: str) -> Callable[..., Any]:
    """Return a hook whose failure says what failed; out of memory stays what it is."""

    @functools.wraps(hook)
    def called(*arguments: Any) -> Any:
        try:
            return hook(*arguments)
        except EnergyscopeError:
            raise
        except Exception as error:
            if no_memory_left(error) or ends_a_run(error):
                raise
            said = f"{type(error).__name__}: {first_line(error)}"
            raise ModelError(
                f"the {what} fails ({said}): `energyscope check-adapter` tries it by itself"
            ) from error

    return called


def fed(model: Any, batch: Batch, rules: TaskRules) -> Mapping[str, Any]:
    """Return the keyword arguments of a model's forward: a batch in the model's own precision, or the hook's."""
    own = in_precision_of(model, batch)
    return own if rules.inputs is None else rules.inputs(own)


def in_precision_of(model: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return inputs whose images or sound are in the data type that a model computes in."""
    return {
        name: item.to(model.dtype) if hasattr(item, "is_floating_point") and item.is_floating_point() else item
        for name, item in inputs.items()
    }


def padding_masks(batch: Batch) -> tuple[Tensor, ...]:
    """Return which positions are no padding, bool (B, S): of what comes in and, if there is one, of a decoder's.

    Images and sound have none, and one position stands for all of theirs, (B, 1).
    """
    import torch

    decoder = batch.get("decoder_input_ids")
    main = batch.get("input_ids")
    mask = batch.get("attention_mask")
    if mask is None:
        rows = next(iter(batch.values()))
        mask = torch.ones(len(rows), 1, device=rows.device) if main is None else torch.ones_like(main)
    if decoder is None:
        return (mask.bool(),)
    return mask.bool(), batch.get("decoder_attention_mask", torch.ones_like(decoder)).bool()


def batch_rows(batch: Batch) -> int:
    """Return how many examples a batch has."""
    return len(next(iter(batch.values())))


def mean_embedding(output: Any, batch: Batch) -> Tensor:
    """Return the mean of the last hidden states over what is no padding, (B, D): the usual sentence embedding."""
    states: Tensor = output.last_hidden_state
    if states.dim() == 4:  # images as channels, rows and columns
        return states.flatten(2).mean(2)
    mask = padding_masks(batch)[-1].to(states.device)
    if mask.shape != states.shape[:2]:
        return states.flatten(1, -2).mean(1)
    weights = mask.unsqueeze(-1).to(states.dtype)
    return (states * weights).sum(1) / weights.sum(1)


def similarity_logits(embeddings: Tensor, originals: Tensor, rules: TaskRules) -> Tensor:
    """Return how near each embedding (B, D) is to each original (B, D), as logits (B, B)."""
    distances: Tensor = (rules.distance or cosine_distance)(embeddings.float(), originals.float())
    return -distances / TEMPERATURE


def cosine_distance(first: Tensor, second: Tensor) -> Tensor:
    """Return 1 - cosine of the angle between each of (N, D) and each of (M, D), (N, M)."""
    from torch.nn.functional import normalize

    return 1 - normalize(first, dim=-1) @ normalize(second, dim=-1).mT
