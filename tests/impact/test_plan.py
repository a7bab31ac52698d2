from __future__ import annotations

import pytest
import tiny_models
import torch
from energyscope_adapters import distilbert, gpt2, llama

from energyscope.components import component_tree
from energyscope.impact.plan import ALL_PAIRS, further_interventions, heads, joint_kinds, layer_pairs, singles

METHODS = ("zero", "mean", "skip", "int8")


def tree_of(name: str, granularity: str = "medium", **changes: int):
    adapter = {"gpt2": gpt2.adapter, "llama": llama.adapter, "distilbert": distilbert.adapter}[name]
    with torch.device("meta"):
        model = tiny_models.model_class(name)(tiny_models.config(name, **changes))
    return model, component_tree(model, adapter, granularity), adapter


def test_only_layers_are_skipped() -> None:
    """Every component but the root is changed by every method; to be skipped, it must be a layer."""
    _, tree, _ = tree_of("gpt2")
    planned = singles(tree, METHODS)
    assert {change.component for change in planned if change.method == "skip"} == {
        "transformer.h.0",
        "transformer.h.1",
    }
    others = [change.component for change in planned if change.method == "int8"]
    assert others == [part.name for part in tree if part is not tree.root]


def test_a_kind_is_removed_in_all_layers_at_once() -> None:
    """Joint removals have the kind's open name and all of its components; quantization is not joined."""
    _, tree, _ = tree_of("llama")
    planned = joint_kinds(tree, METHODS)
    assert {change.method for change in planned} == {"zero", "mean"}
    (mlp,) = [
        change for change in planned if change.component == "model.layers.{layer}.mlp" and change.method == "zero"
    ]
    assert [target.part.name for target in mlp.targets] == ["model.layers.0.mlp", "model.layers.1.mlp"]
    assert not [change for change in planned if change.kind == "layer"]  # nothing would be left


@pytest.mark.parametrize(("layers", "pairs"), [(5, 10), (ALL_PAIRS + 1, ALL_PAIRS)])
def test_layers_are_skipped_in_pairs(layers: int, pairs: int) -> None:
    """All pairs of a few layers; of many, the neighbours only."""
    _, tree, _ = tree_of("gpt2", n_layer=layers)
    planned = layer_pairs(tree)
    assert len(planned) == pairs
    assert all(len(change.targets) == 2 and change.method == "skip" for change in planned)
    assert len({change.component for change in planned}) == pairs


def test_heads_are_ranges_of_the_cores_features() -> None:
    """GIVEN 4 heads on 2 pairs of keys and values THEN a head is a quarter of the output, a group a half."""
    model, _, adapter = tree_of("llama", num_attention_heads=4, num_key_value_heads=2)
    each = heads(model, adapter, ("zero",), per="each")
    assert [change.component for change in each[:4]] == [
        f"model.layers.0.self_attn.head.{head}" for head in range(4)
    ]
    assert [change.targets[0].features for change in each[:4]] == [(0, 4), (4, 8), (8, 12), (12, 16)]
    groups = heads(model, adapter, ("zero",), per="kv")
    assert [change.targets[0].features for change in groups] == [(0, 8), (8, 16)] * 2
    assert {change.kind for change in groups} == {"attention.kv_group"}


def test_users_words_choose_what_is_added() -> None:
    """``off`` adds nothing; ``all`` adds kinds and pairs."""
    model, tree, adapter = tree_of("distilbert")

    def planned(joint: str, per_head: str) -> int:
        return len(further_interventions(model, tree, adapter, METHODS, joint=joint, per_head=per_head))

    assert planned("off", "off") == 0
    assert planned("all", "off") == planned("kinds", "off") + planned("pairs", "off")
    assert planned("off", "each") == 2 * 2 * 2  # layers, heads, methods that remove
