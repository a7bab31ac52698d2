"""Linears are grouped as deployments fuse them, and heads and routers stay as they are."""

from __future__ import annotations

import pytest
import transformers
from tiny_models import save_model
from torch import nn

from energyscope.adapter_registry import load_adapter
from energyscope.loading import load_model
from energyscope.planning.groups import groups_of


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return {
        family: load_model(str(save_model(folder / family, family)), device="cpu")
        for family in ("llama", "gpt2", "distilbert")
    }


@pytest.mark.parametrize(
    ("family", "first"),
    [
        ("llama", ["q_proj+k_proj+v_proj", "o_proj", "gate_proj+up_proj", "down_proj"]),
        ("gpt2", ["c_attn", "c_proj", "c_fc", "c_proj"]),
        ("distilbert", ["q_lin+k_lin+v_lin", "out_lin", "lin1", "lin2"]),
    ],
)
def test_groups_are_those_that_engines_fuse(models, family, first):
    """GIVEN two layers THEN four groups each: what attention projects, its output, and the MLP's two products."""
    loaded = models[family]
    groups = groups_of(loaded.model, loaded.adapter)
    assert [group.name.split(".")[-1] for group in groups] == first * 2
    kinds = ["attention.qkv", "attention.output", "mlp.up", "mlp.down"]
    assert [(group.kind, group.layer) for group in groups] == [(kind, layer) for layer in (0, 1) for kind in kinds]
    assert len({group.family for group in groups}) == 4
    paths = [path for group in groups for path in group.paths]
    linears = [
        path for path, module in loaded.model.named_modules() if type(module).__name__ in {"Linear", "Conv1D"}
    ]
    heads = {"lm_head", "pre_classifier", "classifier"}
    assert sorted(paths) == sorted(path for path in linears if path not in heads)
    sizes = {path: loaded.model.get_submodule(path).weight.numel() for path in paths}
    assert sum(group.parameters for group in groups) == sum(sizes.values())


def test_a_conv1d_has_the_shape_of_its_linear(models):
    """GIVEN GPT-2's Conv1D, whose weight is (in, out) THEN shapes are (out, in)."""
    loaded = models["gpt2"]
    assert groups_of(loaded.model, loaded.adapter)[0].shapes == ((48, 16),)


def test_what_is_kept_is_in_no_group(models):
    """GIVEN a layer to leave alone THEN only the other one's groups."""
    loaded = models["llama"]
    keep = [path for path, _ in loaded.model.named_modules() if ".0." in path]
    assert {group.layer for group in groups_of(loaded.model, loaded.adapter, keep)} == {1}


def test_linears_that_no_adapter_declares_are_groups_by_themselves(models):
    """GIVEN a linear beside the declared ones THEN a group of its own, without a layer."""
    loaded = models["distilbert"]
    loaded.model.adapter_layer = nn.Linear(8, 8)
    try:
        groups = groups_of(loaded.model, loaded.adapter)
    finally:
        del loaded.model.adapter_layer
    other = next(group for group in groups if group.name == "adapter_layer")
    assert (other.kind, other.layer, other.paths) == ("other", None, ("adapter_layer",))


def test_a_pooler_stays_as_it_is():
    """GIVEN BERT, whose pooler has a linear of its own THEN it is in no group, and neither is the classifier."""
    sizes = {"vocab_size": 32, "hidden_size": 16, "intermediate_size": 32, "num_attention_heads": 2}
    config = transformers.BertConfig(**sizes, num_hidden_layers=2)
    model = transformers.BertForSequenceClassification(config)
    paths = [path for group in groups_of(model, load_adapter("bert")) for path in group.paths]
    linears = [path for path, module in model.named_modules() if isinstance(module, nn.Linear)]
    assert set(linears) - set(paths) == {"bert.pooler.dense", "classifier"}
