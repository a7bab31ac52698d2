"""Impact of components on tasks beyond the next token, on tiny real models with weights."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from task_models import TASKS, task_model
from torch import Tensor

from energyscope.adapters import Task
from energyscope.benchmarking.predictions import PredictionComparison
from energyscope.components import component_tree
from energyscope.errors import DataError, ModelError
from energyscope.impact.outputs import Effect
from energyscope.impact.predictions import Reference
from energyscope.impact.removal import Removal, zero
from energyscope.loading import LoadedModel
from energyscope.reasons import reason
from energyscope.runs.schema import ImpactRow
from energyscope.stages.ablate import ablate
from energyscope.tasks import cosine_distance
from energyscope.workloads import Evaluation
from energyscope.workloads.batches import on_device
from energyscope.workloads.evaluation import Example, Tokenized
from energyscope.workloads.inputs import synthetic_evaluation


def kl_rows(loaded: LoadedModel, evaluation: Evaluation) -> dict[tuple[str, str], ImpactRow]:
    tree = component_tree(loaded.model, loaded.adapter, "medium")
    result = ablate(loaded.model, tree, evaluation, methods=("zero", "mean", "resample", "int8"))
    return {(row.component, row.method): row for row in result.rows if row.metric == "kl"}


@pytest.mark.parametrize("task", TASKS)
def test_what_reaches_the_outputs_has_an_impact(task: Task) -> None:
    """GIVEN a model of each task, THEN components on the way to its outputs have an impact, others say why not."""
    loaded = task_model(task)
    rows = kl_rows(loaded, synthetic_evaluation(loaded, examples=4))
    aside = {"embedding": {"pooler": "model-output-unchanged"}, "sequence-to-sequence": {"shared": "not-called"}}
    for (component, method), row in rows.items():
        if (why := aside.get(task, {}).get(component)) and method != "int8":
            assert (row.value, row.reasons) == (None, reason(why))
        elif method == "zero":
            assert row.value is not None, (component, row.reasons)
            assert row.value > 0


def examples(count: int, seed: int = 0) -> list[Example]:
    """Pairs of very different lengths."""
    random = np.random.default_rng(seed)

    def tokens(length: int) -> list[int]:
        return random.integers(5, 20, length).tolist()

    return [Example(tokens(2 + 3 * at), target=tokens(11 - 2 * at), index=at) for at in range(count)]


def per_example(loaded: LoadedModel, group: list[Example], component: str) -> dict[int, tuple[float, float]]:
    """Return each example's KL and loss without a component, by its index."""
    tokenized = Tokenized("pairs", "sequence-to-sequence", group, (), 32)
    evaluation = on_device(tokenized, len(group), loaded)
    reference = Reference(loaded.model, evaluation)
    with Removal(loaded.model.get_submodule(component), zero).applied((torch.ones(1, 1),), Effect()):
        outcomes = reference.compare(0, reference.logits(0), reference.run(0))
    assert evaluation.order is not None
    return dict(zip(evaluation.order, zip(outcomes.kl, outcomes.nll, strict=True), strict=True))


@pytest.mark.parametrize("component", ["encoder.block.1", "decoder.block.0.layer.1"])
def test_padding_of_either_side_counts_nowhere(component: str) -> None:
    """GIVEN texts and answers of several lengths, THEN each one's impact is the same alone and in a batch."""
    loaded, group = task_model("sequence-to-sequence"), examples(4)
    together = per_example(loaded, group, component)
    for example in group:
        assert example.index is not None
        alone = per_example(loaded, [example], component)[example.index]
        assert together[example.index] == pytest.approx(alone, rel=1e-4, abs=1e-7)


def test_means_leave_padding_out_by_its_own_side() -> None:
    """GIVEN a padded decoder, THEN how far its output changed is the same whatever its padding holds."""
    loaded = task_model("sequence-to-sequence")

    def change(padding: int) -> float | None:
        tokenized = Tokenized("pairs", "sequence-to-sequence", examples(3), (), 32)
        evaluation = on_device(tokenized, 3, loaded)
        batch = dict(evaluation.batches[0])
        hidden = batch.get("decoder_attention_mask", torch.ones_like(batch["decoder_input_ids"])) == 0
        assert hidden.any()
        batch["decoder_input_ids"] = batch["decoder_input_ids"].masked_fill(hidden, padding)
        rows = kl_rows(loaded, replace(evaluation, batches=(batch,)))
        return rows["decoder.block.1", "mean"].value

    assert change(7) == pytest.approx(change(19), rel=1e-5)


def test_hooks_of_an_adapter_are_used() -> None:
    """GIVEN an adapter that renames inputs and takes another output, THEN the model is fed and read that way."""
    seen: list[set[str]] = []

    def inputs(batch: Any) -> Any:
        seen.append(set(batch))
        return {"input_ids": batch["input_ids"], "attention_mask": batch["attention_mask"]}

    def outcome(output: Any) -> Tensor:
        pooled: Tensor = output.pooler_output
        return pooled

    loaded = task_model("embedding", inputs=inputs, outcome=outcome)
    rows = kl_rows(loaded, synthetic_evaluation(loaded, examples=4))
    assert seen
    assert rows["pooler", "zero"].valid  # which the default, the mean of all states, does not reach


def test_an_adapter_says_how_far_embeddings_are_apart() -> None:
    """GIVEN a distance that is ten times the default, THEN nearness is ten times as sharp, and so KL is larger."""

    def sharper(first: Tensor, second: Tensor) -> Tensor:
        return 10 * cosine_distance(first, second)

    plain, sharp = (task_model("embedding", distance=distance) for distance in (None, sharper))
    first, second = (kl_rows(one, synthetic_evaluation(one, examples=4)) for one in (plain, sharp))
    assert second["encoder.layer.0", "zero"].value > first["encoder.layer.0", "zero"].value


def test_embeddings_show_no_number_that_could_not_be_another() -> None:
    """GIVEN embeddings, THEN an original's own accuracy (always 1) is no baseline, and no loss is made up."""
    loaded = task_model("embedding")
    tree = component_tree(loaded.model, loaded.adapter, "coarse")
    evaluation = synthetic_evaluation(loaded, examples=4)
    result = ablate(loaded.model, tree, evaluation, methods=("zero",), predictors=True)
    assert set(result.baseline) == {"examples"}
    assert reason("no-loss-of-embeddings") in result.notes
    assert not [row for row in result.rows if row.method == "predict"]


def test_an_embedding_alone_is_not_judged() -> None:
    """GIVEN one example, THEN nearest to itself says nothing, and one line says so."""
    loaded = task_model("embedding")
    with pytest.raises(DataError, match="judged beside others"):
        Reference(loaded.model, synthetic_evaluation(loaded, examples=1))


def test_precisions_of_embeddings_are_compared_with_the_first() -> None:
    """GIVEN a benchmark, THEN the first model has no score; where both do not fit, the second has none either."""
    loaded = task_model("embedding")
    evaluation = synthetic_evaluation(loaded, examples=4)
    first, second = (PredictionComparison(evaluation, beside=beside) for beside in (True, False))
    assert first.judge("fp32", loaded.model)["value"] is None
    assert first.judge("bf16", loaded.model)["value"]["value"] == 1.0
    second.judge("fp32", loaded.model)
    with pytest.raises(ModelError, match="both do not fit"):
        second.judge("bf16", loaded.model)
