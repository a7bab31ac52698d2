from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from energyscope.adapters import Adapter, Part
from energyscope.components import ComponentTree, component_tree
from energyscope.correlation.association import associate
from energyscope.errors import DataError
from energyscope.impact.predicting import predictors
from energyscope.impact.predicting.activation_listener import int8_per_token
from energyscope.impact.predicting.gradients import batch_losses
from energyscope.impact.predicting.predictors import predict
from energyscope.impact.predicting.weight_gradients import simulated_errors
from energyscope.impact.predictions import Reference
from energyscope.impact.quantizing.matrices import owners
from energyscope.loading import LoadedModel, load_model
from energyscope.reasons import read
from energyscope.runs.schema import ImpactRow
from energyscope.workloads import Evaluation, load_evaluation

WORDS = 12
BUNDLED = ("tiny-gpt2", "tiny-llama", "tiny-distilbert")


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


class Branches(nn.Module):
    """A loss that is *linear* in every branch: the class 0 has log probability h, and h is a sum of branches.

    ``dead`` is multiplied by 0, ``unused`` is computed and thrown away, ``spare`` never called, ``silent`` puts
    out zeros, ``ids`` passes integers on; ``block`` adds to what it is given, as a layer does.
    """

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.ids = nn.Identity()
        self.embed = nn.Embedding(WORDS, 8)
        self.live, self.dead, self.silent, self.unused, self.spare = (
            nn.Linear(8, 8, bias=False) for _ in range(5)
        )
        self.block = Residual()
        self.register_buffer("to_h", torch.randn(8) / 20)
        nn.init.zeros_(self.silent.weight)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Any:
        x = self.embed(self.ids(input_ids)) * attention_mask.unsqueeze(-1)
        self.unused(x)
        x = x + self.live(x) + 0 * self.dead(x) + self.silent(x)
        h = (self.block(x) * attention_mask.unsqueeze(-1)).sum(1) @ self.to_h - 8
        return SimpleNamespace(logits=torch.stack([h, torch.log1p(-h.exp())], -1))


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.inner(x)


NAMES = ("ids", "embed", "live", "dead", "silent", "unused", "spare", "block.inner")
BRANCHES = Adapter(
    name="branches",
    model_types=("branches",),
    task="classification",
    layers="",
    parts=(*(Part("mlp", name, "coarse") for name in NAMES), Part("layer", "block", "coarse")),
)


def data(*, labelled: bool = True, batch: int = 4) -> Evaluation:
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(1, WORDS, (12, 5), generator=generator)
    mask = (torch.arange(5) < torch.randint(2, 6, (12, 1), generator=generator)).long()
    batches = tuple(
        {"input_ids": ids[i : i + batch], "attention_mask": mask[i : i + batch]} for i in range(0, 12, batch)
    )
    labels = tuple(torch.zeros(len(item["input_ids"]), dtype=torch.long) for item in batches)
    return Evaluation("test", "classification", batches, labels if labelled else None, 12)


def tree_of(model: nn.Module) -> ComponentTree:
    return component_tree(model, BRANCHES, "coarse")


def row_of(rows: list[ImpactRow], component: str, name: str) -> ImpactRow:
    (item,) = [item for item in rows if (item.component, item.metric) == (component, name)]
    return item


def losses(model: nn.Module, evaluation: Evaluation) -> Tensor:
    """Every example's loss: that of class 0."""
    with torch.no_grad():
        return torch.cat([-model(**batch).logits[:, 0] for batch in evaluation.batches])


def noise(module: nn.Module) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(3)
    own = module.named_parameters(recurse=False)
    return {name: torch.randn(p.shape, generator=generator) / 100 for name, p in own if p.dim() > 1}


@pytest.fixture(scope="module")
def rows() -> list[ImpactRow]:
    model = Branches()
    return predict(model, tree_of(model), data(), weight_errors={"noise": noise})


@pytest.mark.parametrize("name", ["live", "embed", "block"])
def test_removal_is_exact_where_the_loss_is_linear(rows: list[ImpactRow], name: str) -> None:
    """GIVEN a loss linear in an output THEN taylor_removal is the mean magnitude of the change by zeroing it."""
    model, evaluation = Branches(), data()
    before = losses(model, evaluation)
    module = model.get_submodule(name)
    module.register_forward_hook(lambda _m, _i, output: torch.zeros_like(output))
    change = losses(model, evaluation) - before
    assert row_of(rows, name, "taylor_removal").value == pytest.approx(float(change.abs().mean()), rel=1e-4)


def test_skipping_is_exact_where_the_loss_is_linear(rows: list[ImpactRow]) -> None:
    """GIVEN a residual layer THEN taylor_skip is the change when its input takes the place of its output."""
    model, evaluation = Branches(), data()
    before = losses(model, evaluation)
    model.block.register_forward_hook(lambda _m, inputs, _o: inputs[0])
    change = losses(model, evaluation) - before
    skipped = row_of(rows, "block", "taylor_skip")
    assert skipped.value == pytest.approx(float(change.abs().mean()), rel=1e-4)
    assert not [item for item in rows if item.metric == "taylor_skip" and item.component != "block"]


@pytest.mark.parametrize("name", ["live", "embed", "block"])
def test_weight_errors_are_exact_where_the_loss_is_linear(rows: list[ImpactRow], name: str) -> None:
    """GIVEN errors in a component's weights THEN taylor_noise is the mean magnitude of the change of the loss."""
    model, evaluation = Branches(), data()
    before = losses(model, evaluation)
    for module in model.get_submodule(name).modules():
        for parameter, error in noise(module).items():
            module.get_parameter(parameter).data += error
    change = losses(model, evaluation) - before
    predicted = row_of(rows, name, "taylor_noise")
    assert predicted.value == pytest.approx(float(change.abs().mean()), rel=1e-3)
    assert predicted.examples == 12


def test_a_dead_branch_has_exactly_none(rows: list[ImpactRow]) -> None:
    """GIVEN a branch that is multiplied by 0 THEN its gradients predict exactly 0, with an interval."""
    for name in ("taylor_removal", "taylor_noise", "fisher"):
        item = row_of(rows, "dead", name)
        assert (item.value, item.ci_low, item.ci_high, item.reasons) == (0.0, 0.0, 0.0, "")


@pytest.mark.parametrize(
    ("component", "name", "code"),
    [
        ("ids", "taylor_removal", "output-without-features"),
        ("ids", "sqnr_int8_db", "output-without-features"),
        ("ids", "fisher", "no-weight-matrix"),
        ("spare", "taylor_removal", "not-called"),
        ("spare", "fisher", "no-gradient"),
        ("spare", "sqnr_int8_db", "not-called"),
        ("unused", "taylor_removal", "no-gradient"),
        ("unused", "taylor_noise", "no-gradient"),
        ("silent", "sqnr_int8_db", "output-zero"),
        ("silent", "weight_outliers", "weights-all-equal"),
    ],
)
def test_what_is_unknown_has_a_reason(rows: list[ImpactRow], component: str, name: str, code: str) -> None:
    """GIVEN something that a predictor cannot be had of THEN it is None with the reason, never 0."""
    item = row_of(rows, component, name)
    assert (item.value, item.ci_low, item.ci_high) == (None, None, None)
    assert read(item.reasons).code == code


def test_batches_do_not_matter(rows: list[ImpactRow]) -> None:
    """GIVEN the same examples one by one THEN every predictor has the same value and interval."""
    model = Branches()
    single = predict(model, tree_of(model), data(batch=1), weight_errors={"noise": noise})
    for first, second in zip(rows, single, strict=True):
        assert (first.component, first.metric, first.reasons) == (second.component, second.metric, second.reasons)
        for field in ("value", "ci_low", "ci_high"):
            expected = getattr(second, field)
            assert getattr(first, field) == (None if expected is None else pytest.approx(expected, rel=1e-4))


def test_without_labels_the_loss_is_said() -> None:
    """GIVEN no labels THEN gradients are those of the most likely class, 1 here, and the reason says so."""
    model = Branches()
    rows = predict(model, tree_of(model), data(labelled=False))
    item = row_of(rows, "live", "taylor_removal")
    assert item.reasons == "loss-of-likeliest-class"
    assert item.value is not None
    assert 0 < item.value < 0.1  # of a class that is nearly certain
    assert row_of(rows, "live", "sqnr_int8_db").reasons == ""


def test_empty_data_are_refused() -> None:
    """GIVEN no batches THEN one line says what to do."""
    model = Branches()
    with pytest.raises(DataError, match="--data"):
        predict(model, tree_of(model), Evaluation("nothing", "classification", (), (), 0))


def test_sqnr_is_pooled_over_tokens_without_padding() -> None:
    """GIVEN outputs whose rounding is known THEN the decibels are those of the sums of squares, worked out."""
    rows = torch.tensor([[127.0, 0.25, 0.0], [0.0, 0.0, 0.0], [1.27, -0.014, 0.0]])
    expected = torch.tensor([[127.0, 0.0, 0.0], [0.0, 0.0, 0.0], [1.27, -0.01, 0.0]])
    torch.testing.assert_close(int8_per_token(rows), expected)
    model = Branches()
    model.embed.weight.data[:] = 0
    model.embed.weight.data[:, :3] = torch.tensor([1.27, -0.014, 0.0])
    model.embed.weight.data[0] = torch.nan  # padding
    evaluation = data()
    for batch in evaluation.batches:
        batch["input_ids"][batch["attention_mask"] == 0] = 0
    tree = tree_of(model)
    sqnr = row_of(predict(model, tree, evaluation), "embed", "sqnr_int8_db")
    assert sqnr.value == pytest.approx(10 * math.log10((1.27**2 + 0.014**2) / 0.004**2), abs=1e-3)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("name", BUNDLED)
def test_bundled_models_get_a_value_or_a_reason(name: str, precision: str) -> None:
    """GIVEN a bundled model THEN every component has every predictor or a reason, and the model is as it was."""
    loaded = load_model(name, device="cpu", precision=precision)
    evaluation = load_evaluation(loaded, max_examples=12, batch_size=6)
    tree = component_tree(loaded.model, loaded.adapter, "fine")
    before = Reference(loaded.model, evaluation).checksums
    errors = {"int8": simulated_errors("int8"), "nf4": simulated_errors("nf4")}
    rows = predict(loaded.model, tree, evaluation, weight_errors=errors)
    assert Reference(loaded.model, evaluation).checksums == before
    assert not any(p.requires_grad or p.grad is not None for p in loaded.model.parameters())
    layers = sum(part.kind == "layer" for part in tree)
    assert len(rows) == 7 * (len(tree) - 1) + layers
    assert all(item.value is not None or item.reasons for item in rows)
    assert all(item.value is None or math.isfinite(item.value) for item in rows)
    # gradients reach all of these models, and every output is a floating-point one
    assert all(item.value is not None for item in rows if item.metric in ("taylor_removal", "sqnr_int8_db"))
    nf4, int8 = (sum(item.value or 0 for item in rows if item.metric == f"taylor_{q}") for q in ("nf4", "int8"))
    assert nf4 > 2 * int8 > 0


@pytest.mark.parametrize("name", BUNDLED)
def test_parents_fisher_is_the_sum_of_its_parts(name: str) -> None:
    """GIVEN an MLP whose weights lie in its parts THEN its Fisher trace is their sum."""
    loaded = load_model(name, device="cpu")
    tree = component_tree(loaded.model, loaded.adapter, "fine")
    rows = predict(loaded.model, tree, load_evaluation(loaded, max_examples=6))
    for part in tree:
        if part.kind == "mlp":
            inside = [row_of(rows, child.name, "fisher").value or 0 for child in tree.children(part.name)]
            assert row_of(rows, part.name, "fisher").value == pytest.approx(sum(inside))


def test_quantized_weights_have_reasons_and_outputs_have_gradients() -> None:
    """GIVEN a model in INT8 THEN its linears' weights are None with the reason, their outputs have values."""
    pytest.importorskip("bitsandbytes")
    loaded: LoadedModel = load_model("tiny-llama", device="cpu", precision="int8")
    tree = component_tree(loaded.model, loaded.adapter, "medium")
    evaluation = load_evaluation(loaded, max_examples=4)
    rows = predict(loaded.model, tree, evaluation, weight_errors={"int8": simulated_errors("int8")})
    for name in ("taylor_int8", "fisher", "weight_outliers", "weight_kurtosis"):
        item = row_of(rows, "model.layers.1.mlp", name)
        assert item.value is None
        assert read(item.reasons).code == "weights-quantized"
    assert row_of(rows, "model.layers.1.mlp", "taylor_removal").value is not None
    assert row_of(rows, "model.embed_tokens", "taylor_int8").value is not None


def test_rows_carry_predictors() -> None:
    """GIVEN predictors THEN rows have the method "predict", the predictor as metric, and are valid if known."""
    model = Branches()
    tree = tree_of(model)
    rows = predict(model, tree, data())
    assert {row.method for row in rows} == {"predict"}
    assert {"taylor_removal", "fisher", "sqnr_int8_db"} <= {row.metric for row in rows}
    assert all(row.valid == (row.value is not None) for row in rows)
    assert {row.kind for row in rows if row.component == "block"} == {"layer"}


def test_intervals_hold_the_value_on_all_the_data() -> None:
    """GIVEN quarters of the data THEN their intervals hold the value on all of it in most cases."""
    loaded = load_model("tiny-gpt2", device="cpu")
    tree = component_tree(loaded.model, loaded.adapter, "medium")
    evaluation = load_evaluation(loaded, max_examples=128, batch_size=32)
    whole = predict(loaded.model, tree, evaluation)
    hits = []
    for quarter in range(4):
        # every fourth example, as a sample of all lengths
        batches = tuple({k: v[quarter::4] for k, v in batch.items()} for batch in evaluation.batches)
        part = predict(loaded.model, tree, Evaluation("quarter", "next-token", batches, None, 32))
        for first, second in zip(part, whole, strict=True):
            if first.ci_low is not None and first.ci_high is not None and second.value is not None:
                hits.append(first.ci_low <= second.value <= first.ci_high)
    assert np.mean(hits) > 0.85


def mean_losses(loaded: LoadedModel, evaluation: Evaluation) -> Tensor:
    with torch.no_grad():
        return torch.cat([batch_losses(loaded.model, evaluation, at) for at in range(len(evaluation.batches))])


@pytest.mark.parametrize("name", BUNDLED)
def test_weight_errors_order_components_as_quantization_does(name: str) -> None:
    """GIVEN INT8 weights, one component at a time, THEN taylor_int8 ranks them as the loss really changes."""
    loaded, errors = load_model(name, device="cpu"), simulated_errors("int8")
    tree = component_tree(loaded.model, loaded.adapter, "medium")
    evaluation = load_evaluation(loaded, max_examples=16)
    rows = predict(loaded.model, tree, evaluation, weight_errors={"int8": errors})
    predicted = {item.component: item.value for item in rows if item.metric == "taylor_int8" and item.value}
    before, measured = mean_losses(loaded, evaluation), {}
    for component in predicted:
        # this module's use only: a tied head and embedding are two components
        own = [(owner, owner.weight, errors(owner)["weight"]) for owner in owners(tree[component].module)]
        for owner, weight, error in own:
            owner.weight = nn.Parameter(weight + error, requires_grad=False)
        measured[component] = float((mean_losses(loaded, evaluation) - before).abs().mean())
        for owner, weight, _ in own:
            owner.weight = weight
    both = sorted(set(predicted) & set(measured))
    x, y = (np.array([values[name] for name in both]) for values in (predicted, measured))
    agreement = associate(x, y, "spearman")
    assert agreement.n >= 15
    assert agreement.value is not None
    assert agreement.value > 0.9


class Mixed(nn.Module):
    """A linear layer, and a matrix used directly."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.linear = nn.Linear(8, 8, bias=False)
        self.own = nn.Parameter(torch.randn(8, 8))

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x) + x @ self.own


def test_weights_that_take_single_examples_limit_their_component_to_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN a linear and another matrix THEN the component's values are those of the chosen examples alone."""
    model, evaluation = Branches(), data(batch=12)
    model.live = Mixed()  # type: ignore[assignment]
    chosen = [0, 6, 11]  # three of twelve, evenly spaced
    (batch,), (labels,) = evaluation.batches, evaluation.labels or ()
    part = ({key: values[chosen] for key, values in batch.items()},)
    alone = Evaluation("chosen", "classification", part, (labels[chosen],), 3)
    tree = tree_of(model)
    monkeypatch.setattr(predictors, "MAX_EXAMPLES", 3)
    some = predict(model, tree, evaluation, weight_errors={"noise": noise})
    few = predict(model, tree, alone, weight_errors={"noise": noise})
    for name in ("fisher", "taylor_noise"):
        first, second = row_of(some, "live", name), row_of(few, "live", name)
        assert first.examples == 3
        assert first.value == pytest.approx(second.value, rel=1e-4)
        assert row_of(some, "dead", name).examples == 12
