from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from energyscope_adapters import distilbert, gpt2, llama
from torch import Tensor, nn
from transformers import (
    DistilBertConfig,
    DistilBertForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
)

from energyscope.adapters import Adapter, Part
from energyscope.components import ComponentTree, component_tree
from energyscope.errors import DataError, ModelError, UsageError
from energyscope.impact.predictions import Reference
from energyscope.reasons import read
from energyscope.runs.schema import ImpactRow
from energyscope.stages.ablate import AblationResult
from energyscope.stages.ablate import ablate as ablate_by_all
from energyscope.workloads import Evaluation

WORDS = 40

ablate = functools.partial(ablate_by_all, methods=("zero", "mean"))


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def tiny_gpt2() -> GPT2LMHeadModel:
    torch.manual_seed(0)
    tokens = {"vocab_size": WORDS, "bos_token_id": 0, "eos_token_id": 0}
    return GPT2LMHeadModel(
        GPT2Config(n_layer=2, n_embd=32, n_head=2, n_positions=16, initializer_range=0.3, **tokens)
    )


def tiny_llama() -> LlamaForCausalLM:
    torch.manual_seed(0)
    shape = {"hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4, "num_key_value_heads": 2}
    return LlamaForCausalLM(LlamaConfig(vocab_size=WORDS, num_hidden_layers=2, initializer_range=0.3, **shape))


def tiny_distilbert() -> DistilBertForSequenceClassification:
    torch.manual_seed(0)
    shape = {"dim": 32, "hidden_dim": 64, "n_layers": 2, "n_heads": 2, "max_position_embeddings": 16}
    config = DistilBertConfig(vocab_size=WORDS, initializer_range=0.3, **shape)
    return DistilBertForSequenceClassification(config)


FAMILIES: dict[str, tuple[Callable[[], nn.Module], Adapter]] = {
    "gpt2": (tiny_gpt2, gpt2.adapter),
    "llama": (tiny_llama, llama.adapter),
    "distilbert": (tiny_distilbert, distilbert.adapter),
}


def sentences(count: int = 12, seed: int = 1) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(3, 11, (count,), generator=generator).tolist()
    return [torch.randint(1, WORDS, (length,), generator=generator) for length in lengths]


def evaluation(
    task: Any, texts: list[Tensor], *, batch: int = 4, width: int | None = None, filler: int = 0
) -> Evaluation:
    """Pad texts to the right, to the longest of their batch or to ``width``; labels alternate."""
    batches, labels = [], []
    for start in range(0, len(texts), batch):
        part = texts[start : start + batch]
        ids = torch.full((len(part), width or max(map(len, part))), filler)
        mask = torch.zeros_like(ids)
        for row, text in enumerate(part):
            ids[row, : len(text)] = text
            mask[row, : len(text)] = 1
        batches.append({"input_ids": ids, "attention_mask": mask})
        labels.append(torch.arange(start, start + len(part)) % 2)
    wanted = tuple(labels) if task == "classification" else None
    return Evaluation(source="test texts", task=task, batches=tuple(batches), labels=wanted, examples=len(texts))


def family(name: str) -> tuple[nn.Module, ComponentTree, Adapter]:
    build, adapter = FAMILIES[name]
    model = build().eval()
    return model, component_tree(model, adapter, "fine"), adapter


def value(result: AblationResult, component: str, metric: str, method: str = "zero") -> float | None:
    return row_of(result, component, metric, method).value


def row_of(result: AblationResult, component: str, metric: str, method: str = "zero") -> ImpactRow:
    (row,) = [row for row in result.rows if (row.component, row.method, row.metric) == (component, method, metric)]
    return row


def hooks(model: nn.Module) -> int:
    return sum(len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules())


class Branches(nn.Module):
    """Two branches over an embedding; the ``dead`` one is multiplied by zero, the ``silent`` one puts out zeros.

    ``spare`` is never called; ``poison`` divides by its output, so that removing it breaks the model.
    """

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed = nn.Embedding(WORDS, 8)
        self.live, self.dead, self.silent, self.spare = (nn.Linear(8, 8) for _ in range(4))
        self.poison = nn.Softplus()
        self.head = nn.Linear(8, WORDS)
        nn.init.zeros_(self.silent.weight)
        nn.init.zeros_(self.silent.bias)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, use_cache: bool = False) -> Any:
        x = self.embed(input_ids)
        x = self.live(x) + 0 * self.dead(x) + self.silent(x)
        return SimpleNamespace(logits=self.head(x / self.poison(x)))


BRANCHES = Adapter(
    name="branches",
    model_types=("branches",),
    task="next-token",
    layers="",
    parts=tuple(
        Part("mlp", name, "coarse") for name in ("embed", "live", "dead", "silent", "spare", "poison", "head")
    ),
)


@pytest.fixture(scope="module")
def branches() -> AblationResult:
    model = Branches()
    return ablate(model, component_tree(model, BRANCHES, "coarse"), evaluation("next-token", sentences()))


@pytest.mark.parametrize("name", FAMILIES)
def test_every_component_of_each_family_gets_its_rows(name: str) -> None:
    """GIVEN a model of each shipped family, THEN every component has a row for each method and metric."""
    model, tree, adapter = family(name)
    result = ablate(model, tree, evaluation(adapter.task, sentences()))
    quality = f"{adapter.metric}_difference"
    metrics = ("kl", "js", "loss_difference", quality, "top1_agreement", "logit_difference", "output_change")
    expected = [
        (part.name, method, metric) for part in list(tree)[1:] for method in ("zero", "mean") for metric in metrics
    ]
    assert [(row.component, row.method, row.metric) for row in result.rows] == expected
    assert all(row.examples == 12 for row in result.rows)
    for row in result.rows:
        assert row.valid == (row.value is not None)
        assert row.valid or row.reasons
    assert sum(row.valid for row in result.rows) > len(result.rows) / 2
    assert result.baseline["examples"] == 12
    assert adapter.metric in result.baseline
    assert result.notes == []
    assert hooks(model) == 0


def test_rows_equal_a_plain_computation() -> None:
    """GIVEN an MLP silenced by its last projection's weights, THEN ablation by hook finds the same numbers."""
    model, tree, _ = family("gpt2")
    texts = sentences()
    result = ablate(model, tree, evaluation("next-token", texts), methods=("zero",))
    changed = tiny_gpt2().eval()
    projection: Any = changed.transformer.h[1].mlp.c_proj
    nn.init.zeros_(projection.weight)
    nn.init.zeros_(projection.bias)
    divergences, nll, reference_nll, tokens = [], 0.0, 0.0, 0
    with torch.no_grad():
        for text in texts:  # one at a time: without padding
            log_p = model(text[None]).logits[0, :-1].double().log_softmax(-1)
            log_q = changed(text[None]).logits[0, :-1].double().log_softmax(-1)
            divergences.append(float((log_p.exp() * (log_p - log_q)).sum(-1).mean()))
            picked = text[1:, None]
            nll -= float(log_q.gather(1, picked).sum())
            reference_nll -= float(log_p.gather(1, picked).sum())
            tokens += len(text) - 1
    name = "transformer.h.1.mlp"
    assert value(result, name, "kl") == pytest.approx(sum(divergences) / len(texts), rel=1e-4)
    ratio = torch.tensor([nll / tokens, reference_nll / tokens]).exp()
    assert value(result, name, "perplexity_difference") == pytest.approx(float(ratio[0] - ratio[1]), rel=1e-3)
    assert result.baseline["perplexity"] == pytest.approx(float(ratio[1]), rel=1e-4)
    assert value(result, name, "output_change") == 1.0


@pytest.mark.parametrize("name", FAMILIES)
def test_padding_does_not_matter(name: str) -> None:
    """GIVEN the same texts padded further, with other tokens, in other batches, THEN the metrics stay."""
    model, tree, adapter = family(name)
    texts = sentences(6)
    tight = ablate(model, tree, evaluation(adapter.task, texts, batch=1))
    loose = ablate(model, tree, evaluation(adapter.task, texts, batch=6, width=16, filler=3))
    for row, padded in zip(tight.rows, loose.rows, strict=True):
        assert row.valid == padded.valid, (row, padded)
        if row.value is not None:
            assert padded.value == pytest.approx(row.value, rel=2e-3, abs=1e-5), (row, padded)


def test_a_change_that_reaches_no_output_of_the_model_is_invalid(branches: AblationResult) -> None:
    """GIVEN a branch that is multiplied by zero, THEN its output changes, the model's does not, and no KL is 0."""
    assert value(branches, "dead", "output_change") == 1.0
    for row in branches.rows:
        if row.component == "dead":
            assert (row.valid, row.reasons) == (False, "model-output-unchanged")
            assert row.value is None or row.metric == "output_change"
    live = value(branches, "live", "kl", "mean")
    assert live is not None
    assert live > 0.01


@pytest.mark.parametrize(
    ("name", "method", "why"),
    [
        ("silent", "zero", "output-zero-already"),
        ("silent", "mean", "output-constant"),
        ("spare", "zero", "not-called"),
        ("spare", "mean", "not-called"),
    ],
)
def test_a_change_without_effect_is_invalid(branches: AblationResult, name: str, method: str, why: str) -> None:
    """GIVEN an output that is zero already, or a module that is never called, THEN there is no value to rank."""
    row = row_of(branches, name, "kl", method)
    assert (row.valid, row.value, row.reasons) == (False, None, why)
    assert name == "spare" or row_of(branches, name, "output_change", method).value == 0.0


def test_broken_outputs_are_invalid(branches: AblationResult) -> None:
    """GIVEN a component whose removal divides by zero, THEN its rows are invalid; its mean can still be put in."""
    row = row_of(branches, "poison", "kl")
    assert (row.valid, row.value) == (False, None)
    assert read(row.reasons).code == "changed-model-not-finite"
    assert row_of(branches, "poison", "kl", "mean").valid


def test_interrupt_leaves_no_hook_and_keeps_what_was_finished() -> None:
    """GIVEN Ctrl-C within a forward pass, THEN no hook is left and the finished rows were handed over."""
    model, tree, _ = family("gpt2")
    finished: list[Mapping[str, Any]] = []
    passes = 0

    def interrupt(*_: Any) -> None:
        nonlocal passes
        passes += 1
        if passes == 17:  # of 3 batches: 3 for the original, 2 for the proof, 4 to try, then 3 for each change
            raise KeyboardInterrupt

    handle = model.get_submodule("lm_head").register_forward_hook(interrupt)
    given = evaluation("next-token", sentences())
    with pytest.raises(KeyboardInterrupt):
        ablate(model, tree, given, journal=finished.append)
    handle.remove()
    assert hooks(model) == 0
    original, *finished = finished
    assert list(original) == ["stage", "original"]
    assert [(entry["rows"][0].component, entry["rows"][0].method) for entry in finished] == [
        ("transformer.wte", "zero"), ("transformer.wte", "mean"),
    ]  # fmt: skip
    assert all(len(entry["rows"]) == 7 for entry in finished)


def test_progress_counts_the_changes() -> None:
    """GIVEN two methods, THEN progress counts each component with each, never backwards, to the end."""
    model, tree, _ = family("gpt2")
    steps: list[tuple[str, str, int, int]] = []
    ablate(model, tree, evaluation("next-token", sentences(4)), progress=lambda *step: steps.append(step))
    total = 2 * (len(tree) - 1)
    assert steps[-1][2:] == (total, total)
    assert [done for _, _, done, _ in steps] == sorted(done for _, _, done, _ in steps)


def test_recomputed_reference_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN no memory to keep the original's outputs, THEN they are computed again and no number differs."""
    model, tree, _ = family("gpt2")
    data = evaluation("next-token", sentences())
    kept = ablate(model, tree, data, methods=("zero",))
    monkeypatch.setattr("energyscope.impact.predictions.HOST_BUDGET_BYTES", 0)
    assert ablate(model, tree, data, methods=("zero",)).rows == kept.rows


def test_model_that_stays_changed_is_an_error() -> None:
    """GIVEN a model whose weights change during the stage, THEN it ends in an error instead of a result."""
    model, tree, _ = family("gpt2")

    def spoil(*_: Any) -> None:
        with torch.no_grad():
            next(model.parameters()).add_(1e-3)

    with pytest.raises(ModelError, match="not what they were"):
        ablate(model, tree, evaluation("next-token", sentences()), methods=("zero",), journal=spoil)


def test_nondeterministic_model_is_noted() -> None:
    """GIVEN a model whose outputs differ from pass to pass by themselves, THEN the rows are kept with a note."""
    model = Branches()
    model.live.register_forward_hook(lambda _m, _a, output: output + 1e-6 * torch.rand_like(output))
    result = ablate(model, component_tree(model, BRANCHES, "coarse"), evaluation("next-token", sentences()))
    assert result.notes == ["outputs-vary"]


def test_baseline_accuracy_is_that_of_the_labels() -> None:
    """GIVEN labels that are the model's own answers but for three, THEN the baseline says so."""
    model, _, _ = family("distilbert")
    data = evaluation("classification", sentences())
    with torch.no_grad():
        answers = [model(**batch).logits.argmax(-1) for batch in data.batches]
    answers[0][:3] = 1 - answers[0][:3]
    labelled = Evaluation(data.source, data.task, data.batches, tuple(answers), data.examples)
    assert Reference(model, labelled).baseline() == {"examples": 12, "accuracy": pytest.approx(9 / 12)}


def test_classification_without_labels() -> None:
    """GIVEN no labels, THEN KL is measured and the accuracy difference is None with the reason."""
    model, tree, _ = family("distilbert")
    data = evaluation("classification", sentences())
    result = ablate(model, tree, Evaluation(data.source, data.task, data.batches, None, data.examples))
    row = row_of(result, "classifier", "accuracy_difference")
    assert (row.value, row.valid, row.reasons) == (None, False, "no-labels")
    assert row_of(result, "classifier", "kl").valid
    assert "accuracy" not in result.baseline


def test_unknown_method_is_refused() -> None:
    """GIVEN a method that does not exist, THEN one line says which there are."""
    model, tree, _ = family("gpt2")
    with pytest.raises(UsageError, match=r"'shuffle'.*zero, mean"):
        ablate(model, tree, evaluation("next-token", sentences()), methods=("shuffle",))


def test_labels_outside_the_classes_are_refused() -> None:
    """GIVEN a label 5 for a model of two classes, THEN one line says so."""
    model, tree, _ = family("distilbert")
    data = evaluation("classification", sentences(2))
    wrong = Evaluation(data.source, data.task, data.batches, (torch.tensor([0, 5]),), data.examples)
    with pytest.raises(DataError, match=r"label 5 .* 2 classes"):
        ablate(model, tree, wrong)


def test_data_without_predictions_are_refused() -> None:
    """GIVEN texts of one token, or none at all, THEN one line says that there is nothing to predict."""
    model, tree, _ = family("gpt2")
    with pytest.raises(DataError, match="nothing to predict"):
        ablate(model, tree, evaluation("next-token", [torch.tensor([3])]))
    with pytest.raises(DataError, match="no examples"):
        ablate(model, tree, evaluation("next-token", []))


def test_broken_model_is_refused() -> None:
    """GIVEN a model whose own outputs are NaN, THEN one line says that impact cannot be measured."""
    model, tree, _ = family("gpt2")
    with torch.no_grad():
        next(model.parameters()).fill_(torch.nan)
    with pytest.raises(ModelError, match="not finite"):
        ablate(model, tree, evaluation("next-token", sentences()))


@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_attention_core_is_worth_what_its_projection_makes_of_it(name: str) -> None:
    """WHEN the core is zeroed THEN the attention puts out its projection's bias; without one, it is as removed."""
    model, tree, adapter = family(name)
    result = ablate(model, tree, evaluation(adapter.task, sentences()), methods=("zero",))
    for core in (component for component in tree if component.kind == "attention.core"):
        row = row_of(result, core.name, "kl")
        assert row.valid
        assert value(result, core.name, "output_change") == 1.0
        # gpt2's projections have a bias of zero where nothing has been trained
        assert row.value == pytest.approx(value(result, str(core.parent), "kl"))
    assert hooks(model) == 0


def test_a_core_that_the_model_does_not_call_proves_nothing() -> None:
    """GIVEN an attention without scaled dot product attention THEN the core's rows are invalid and say why."""
    model, _, adapter = family("gpt2")
    model.set_attn_implementation("eager")  # type: ignore[operator]
    tree = component_tree(model, adapter, "fine")
    result = ablate(model, tree, evaluation(adapter.task, sentences()), methods=("zero",))
    row = row_of(result, "transformer.h.0.attn.core", "kl")
    assert (row.valid, row.value, row.reasons) == (False, None, "not-called")
