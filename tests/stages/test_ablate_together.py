"""Removal of heads, of layers, of several components at once, and early stopping."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import pytest
import tiny_models
import torch
from energyscope_adapters import distilbert, gpt2, llama
from torch import Tensor, nn

from energyscope.adapters import Adapter, Part
from energyscope.components import component_tree
from energyscope.impact.adaptive import EarlyStopping
from energyscope.impact.outputs import Effect
from energyscope.impact.plan import heads, joint_kinds, layer_pairs
from energyscope.impact.removal import Removal, zero
from energyscope.reasons import reason
from energyscope.runs.schema import ImpactRow
from energyscope.stages.ablate import ablate
from energyscope.workloads import Evaluation

ADAPTERS = {"gpt2": gpt2.adapter, "llama": llama.adapter, "distilbert": distilbert.adapter}


def model_of(name: str, **changes: Any) -> nn.Module:
    torch.manual_seed(0)
    return tiny_models.model_class(name)(tiny_models.config(name, initializer_range=0.3, **changes)).eval()


def data(batches: int = 2, size: int = 4, length: int = 7) -> Evaluation:
    generator = torch.Generator().manual_seed(3)
    ids = [torch.randint(1, 20, (size, length), generator=generator) for _ in range(batches)]
    made = tuple({"input_ids": tokens, "attention_mask": torch.ones_like(tokens)} for tokens in ids)
    return Evaluation("made", "next-token", made, None, batches * size)


def kl(rows: list[ImpactRow], component: str, method: str) -> float | None:
    (row,) = [row for row in rows if (row.component, row.method, row.metric) == (component, method, "kl")]
    return row.value


def divergence(original: Tensor, changed: Tensor) -> float:
    """Mean KL over examples, from logits (B, S, V), by its definition."""
    p, q = (logits[:, :-1].double().log_softmax(-1) for logits in (original, changed))
    return float((p.exp() * (p - q)).sum(-1).mean(1).mean())


def test_a_skipped_layer_is_left_out() -> None:
    """GIVEN one of two layers skipped THEN the impact is that of the model without it."""
    model, given = model_of("gpt2"), data(1)
    tree = component_tree(model, gpt2.adapter, "coarse")
    rows = ablate(model, tree, given, methods=("skip",)).rows
    batch = given.batches[0]["input_ids"]
    with torch.no_grad():
        original = model(batch).logits
        layers = model.transformer.h
        model.transformer.h = nn.ModuleList([layers[1]])
        shortened = model(batch, use_cache=False).logits
        model.transformer.h = layers
    assert kl(rows, "transformer.h.0", "skip") == pytest.approx(divergence(original, shortened), rel=1e-4)


def test_resampling_takes_the_next_examples_output() -> None:
    """GIVEN the embedding's output of the next example THEN predictions are those of the next example's tokens."""
    model, given = model_of("llama"), data(1)
    rows = ablate(model, component_tree(model, llama.adapter, "coarse"), given, methods=("resample",)).rows
    batch = given.batches[0]["input_ids"]
    with torch.no_grad():
        original, other = model(batch).logits, model(batch.roll(1, 0)).logits
    assert kl(rows, "model.embed_tokens", "resample") == pytest.approx(divergence(original, other), rel=1e-4)


def test_alike_examples_cannot_be_resampled() -> None:
    """GIVEN examples that are all the same, or a single one, THEN resampling proves nothing and says why."""
    model = model_of("llama")
    tree = component_tree(model, llama.adapter, "coarse")
    same = {"input_ids": torch.full((3, 5), 7), "attention_mask": torch.ones(3, 5, dtype=torch.long)}
    alone = {"input_ids": torch.full((1, 5), 7), "attention_mask": torch.ones(1, 5, dtype=torch.long)}
    for batch, code in ((same, "output-same-for-all"), (alone, "one-example-batch")):
        rows = ablate(model, tree, Evaluation("made", "next-token", (batch,), None, 3), methods=("resample",)).rows
        assert not any(row.valid for row in rows)
        assert {row.reasons for row in rows} == {code}


def test_all_of_a_kind_is_removed_together() -> None:
    """GIVEN the MLPs of all layers THEN their joint impact is that of zeroing every one of them at once."""
    model, given = model_of("gpt2"), data(1)
    tree = component_tree(model, gpt2.adapter, "medium")
    rows = ablate(model, tree, given, methods=("zero",), more=joint_kinds(tree, ("zero",))).rows
    batch = given.batches[0]["input_ids"]
    with torch.no_grad(), ExitStack() as stack:
        original = model(batch).logits
        for layer in model.transformer.h:
            stack.enter_context(Removal(layer.mlp, zero).applied(torch.ones_like(batch), Effect()))
        changed = model(batch).logits
    joint = kl(rows, "transformer.h.{layer}.mlp", "zero")
    assert joint == pytest.approx(divergence(original, changed), rel=1e-4)
    assert joint != pytest.approx(kl(rows, "transformer.h.0.mlp", "zero"), rel=0.01)


def test_layers_are_skipped_in_pairs() -> None:
    """GIVEN two layers skipped together THEN only what is around them is left, and the row names both."""
    model, given = model_of("gpt2"), data(1)
    tree = component_tree(model, gpt2.adapter, "coarse")
    rows = ablate(model, tree, given, methods=("skip",), more=layer_pairs(tree)).rows
    (row,) = [row for row in rows if row.component == "transformer.h.0+transformer.h.1" and row.metric == "kl"]
    batch = given.batches[0]["input_ids"]
    with torch.no_grad():
        original = model(batch).logits
        layers, model.transformer.h = model.transformer.h, nn.ModuleList()
        bare = model(batch, use_cache=False).logits
        model.transformer.h = layers
    assert row.value == pytest.approx(divergence(original, bare), rel=1e-4)
    assert row.layer is None


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_heads_are_removed_one_by_one(name: str) -> None:
    """A head's removal changes its part of the core alone; one group of all heads is the whole core."""
    changes = {"num_attention_heads": 4, "num_key_value_heads": 1} if name == "llama" else {}
    model, given = model_of(name, **changes), data()
    tree = component_tree(model, ADAPTERS[name], "fine")
    more = heads(model, ADAPTERS[name], ("zero",), per="each") + heads(model, ADAPTERS[name], ("zero",), per="kv")
    rows = ablate(model, tree, given, methods=("zero",), more=more).rows
    core = next(part for part in tree if part.kind == "attention.core")
    divergences = {row.component: row.value for row in rows if row.metric == "kl"}
    own = {name: value for name, value in divergences.items() if f"{core.parent}.head." in name}
    assert len(own) == model.config.num_attention_heads
    assert len(set(own.values())) == len(own)
    assert min(own.values()) > 0
    if name == "llama":
        group = kl(rows, f"{core.parent}.kv_group.0", "zero")
        assert group == pytest.approx(kl(rows, core.name, "zero"), rel=1e-9)


def test_heads_that_cannot_be_told_apart_say_so() -> None:
    """GIVEN an attention that does not call the function THEN its heads' rows are invalid with the reason."""
    model = model_of("gpt2")
    model.set_attn_implementation("eager")
    more = heads(model, gpt2.adapter, ("zero",), per="each")
    tree = component_tree(model, gpt2.adapter, "coarse")
    rows = ablate(model, tree, data(), methods=("zero",), more=more).rows
    head_rows = [row for row in rows if ".head." in row.component]
    assert head_rows
    assert all((row.value, row.reasons) == (None, "not-called") for row in head_rows)


def test_clear_components_are_looked_at_less() -> None:
    """GIVEN early stopping THEN some components end before all examples, at values that their full ones allow."""
    model = model_of("gpt2", n_layer=3)
    tree = component_tree(model, gpt2.adapter, "medium")
    given = data(batches=16, size=8)
    whole = ablate(model, tree, given, methods=("zero",)).rows
    early = ablate(model, tree, given, methods=("zero",), adaptive=True).rows
    assert {row.component for row in early} == {row.component for row in whole}
    fewer = [row for row in early if row.metric == "kl" and row.examples < given.examples]
    assert fewer
    for row in fewer:
        assert row.examples in {32, 64}
        full = kl(whole, row.component, "zero")
        assert full is not None
        assert row.value == pytest.approx(full, rel=0.5)
    for row in early:
        if row.examples == given.examples and row.metric == "kl":
            assert row.value == pytest.approx(kl(whole, row.component, "zero"), rel=1e-12)


class Seldom(nn.Module):
    """Wraps an MLP, which it calls always and uses only for texts of eight tokens."""

    def __init__(self, own: nn.Module) -> None:
        super().__init__()
        self.own = own

    def forward(self, x: Tensor) -> Tensor:
        return self.own(x) * float(x.shape[1] == 8)


def test_what_is_seldom_used_is_looked_at_to_the_end() -> None:
    """GIVEN a component without effect on the first batches THEN it is not given up before the last."""
    model, given = model_of("gpt2"), data(batches=16, size=8)
    model.transformer.h[1].mlp = Seldom(model.transformer.h[1].mlp)
    batches = list(given.batches)
    late = (EarlyStopping(16, adaptive=True, seed=0).first_batch() + 1) % 16
    ids = torch.randint(1, 20, (8, 8), generator=torch.Generator().manual_seed(4))
    batches[late] = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    given = Evaluation("made", "next-token", tuple(batches), None, 128)
    parts = (Part("layer", "transformer.h.{layer}", "coarse"), Part("mlp", "transformer.h.1.mlp.own", "coarse"))
    tree = component_tree(model, Adapter("made", ("gpt2",), "next-token", "transformer.h", parts), "coarse")
    rows = ablate(model, tree, given, methods=("zero",), adaptive=True).rows
    (row,) = [row for row in rows if (row.component, row.metric) == ("transformer.h.1.mlp.own", "kl")]
    assert (row.valid, row.examples) == (True, 128)
    assert (row.value or 0) > 0


class Aside(nn.Module):
    """Wraps a layer's MLP: it adds what the first layer's MLP has put out in the same pass."""

    def __init__(self, own: nn.Module, first: nn.Module) -> None:
        super().__init__()
        self.own = own
        self.left: list[Tensor] = []
        first.register_forward_hook(lambda _module, _args, output: self.left.append(output))

    def forward(self, x: Tensor) -> Tensor:
        return self.own(x) + self.left[-1]


def test_what_layers_leave_aside_is_not_missed() -> None:
    """GIVEN a layer that reads what an earlier one left aside THEN passes are whole ones, and it is said."""
    model, given = model_of("gpt2", n_layer=3), data(2)
    model.transformer.h[2].mlp = Aside(model.transformer.h[2].mlp, model.transformer.h[0].mlp)
    tree = component_tree(model, gpt2.adapter, "coarse")
    result = ablate(model, tree, given, methods=("zero",))
    assert result.notes == [reason("whole-passes", why="partial-pass-differs")]
    with torch.no_grad():
        divergences = []
        for batch in given.batches:
            original = model(**batch).logits
            with Removal(model.transformer.h[1], zero).applied(batch["attention_mask"], Effect()):
                divergences.append(divergence(original, model(**batch).logits))
    assert kl(result.rows, "transformer.h.1", "zero") == pytest.approx(sum(divergences) / 2, rel=1e-4)


class Fragile(nn.Module):
    """A linear layer whose user refuses zeros."""

    def __init__(self) -> None:
        super().__init__()
        self.own = nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        if not self.own(x).any():
            raise ValueError("zeros are not allowed here")
        return x


def test_a_change_that_the_model_refuses_ends_nothing() -> None:
    """GIVEN a model that fails with one change THEN its row says so and the others are measured."""
    model = model_of("gpt2")
    model.transformer.ln_f = nn.Sequential(model.transformer.ln_f, Fragile())
    adapter = Adapter(
        "fragile",
        ("x",),
        "next-token",
        "transformer.h",
        (
            Part("embedding", "transformer.wte", "coarse"),
            Part("layer", "transformer.h.{layer}", "coarse"),
            Part("other", "transformer.ln_f.1.own", "coarse"),
        ),
    )
    rows = ablate(model, component_tree(model, adapter, "coarse"), data(), methods=("zero",)).rows
    refused = [row for row in rows if row.component.endswith("own")]
    why = reason("change-fails", error="ValueError: zeros are not allowed here")
    assert all((row.value, row.reasons) == (None, why) for row in refused)
    assert kl(rows, "transformer.wte", "zero") is not None


def test_early_stopping_takes_texts_of_all_lengths() -> None:
    """GIVEN batches ordered by length THEN each share is spread over them, and all are done in the end."""
    shares = EarlyStopping(16, adaptive=True, seed=1).shares
    assert sorted(index for share in shares for index in share.batches) == list(range(16))
    assert [len(share.batches) for share in shares] == [4, 4, 8]
    for share in shares:
        assert max(share.batches) - min(share.batches) >= 12
    assert len(EarlyStopping(5, adaptive=True, seed=1).shares) == 1
