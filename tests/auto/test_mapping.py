"""The adapter of a configuration: what is called, what is left out, and which parameters are covered."""

from __future__ import annotations

from dataclasses import replace

import pytest
from auto_models import FAMILIES, OTHER_TASKS, config, structure, tree

from energyscope.auto.mapping import structure_map
from energyscope.components import component_tree
from energyscope.errors import ModelError


@pytest.mark.parametrize("family", FAMILIES)
def test_an_adapter_is_valid_and_called_in_full(family: str) -> None:
    """GIVEN a configuration THEN its adapter has no problem, and one forward pass calls every part of it."""
    found = structure(family)
    assert replace(found.adapter, name=family).problems() == []  # the name auto is no package's
    assert (found.adapter.name, found.adapter.model_types) == ("auto", (family,))
    assert found.calls.failure is None
    assert found.not_called == {}
    assert found.in_no_part == {}
    assert found.share_named() == 1.0


@pytest.mark.parametrize("family", OTHER_TASKS)
def test_an_adapter_of_another_task_is_valid_and_called(family: str) -> None:
    """GIVEN a model that is no causal one THEN a pass on its inputs calls all but a table that others share."""
    found = structure(family)
    assert replace(found.adapter, name=family).problems() == []
    assert found.calls.failure is None
    assert set(found.not_called) <= {"shared", "model.shared"}
    assert found.in_no_part == {}


@pytest.mark.parametrize(
    ("family", "stacks"),
    [
        ("mistral", "model.layers"),
        ("bart", ("model.encoder.layers", "model.decoder.layers")),
        ("albert", "albert.encoder.albert_layer_groups.0.albert_layers"),
        ("swin", tuple(f"swin.encoder.layers.{stage}.blocks" for stage in range(2))),
        ("resnet", tuple(f"resnet.encoder.stages.{stage}.layers" for stage in range(4))),
    ],
)
def test_all_stacks_that_are_called_are_named(family: str, stacks: str | tuple[str, ...]) -> None:
    """GIVEN an encoder and a decoder, or stages THEN the adapter has a stack for each, in their order."""
    assert structure(family).adapter.layers == stacks


def test_layers_are_numbered_through_all_stacks() -> None:
    """GIVEN two encoder layers and two decoder layers THEN the decoder's are the third and the fourth."""
    layers = {item.name: item.layer for item in tree("bart") if item.kind == "layer"}
    assert layers == {
        f"model.{side}.layers.{i}": i + n for side, n in (("encoder", 0), ("decoder", 2)) for i in (0, 1)
    }


def test_a_layer_that_is_called_often_is_one_component() -> None:
    """GIVEN ALBERT, which calls one layer for all THEN there is one layer, and its weights count once."""
    assert [item.name for item in tree("albert") if item.kind == "layer"] == [
        "albert.encoder.albert_layer_groups.0.albert_layers.0"
    ]


def test_functions_that_nothing_calls_are_left_out() -> None:
    """GIVEN an encoder THEN no KV cache is updated; GIVEN attention as plain products, that is the only core."""
    kinds = {part.kind for part in structure_map(config("roberta")).adapter.parts}
    assert "attention.core" in kinds
    assert "attention.cache" not in kinds
    parts = structure_map(config("mistral", attn_implementation="eager")).adapter.parts
    functions = {part.kind: str(part.function).rpartition(".")[2] for part in parts if part.function}
    assert functions == {"attention.core": "eager_attention_forward", "attention.cache": "update"}


def test_parts_that_are_not_called_are_left_out_and_named() -> None:
    """GIVEN a decoder with cross attention but no encoder THEN that is named as not called, in all layers."""
    sizes = {"d_model": 16, "decoder_layers": 2, "decoder_attention_heads": 2, "decoder_ffn_dim": 32}
    found = structure_map(config("bart", architectures=["BartForCausalLM"], **sizes))
    cross = "model.decoder.layers.{layer}.encoder_attn"
    assert found.not_called[cross] == "2 of 2: no encoder's states are fed"
    assert cross in {finding.part.path for finding in found.found}
    assert cross not in {part.path for part in found.adapter.parts}
    component_tree(found.model, found.adapter, "fine")  # what is left is a tree without them


def test_parameters_outside_of_all_parts_are_named() -> None:
    """GIVEN a weight that only the whole model holds THEN it is named, and the share is below one."""
    import transformers

    found = structure_map(transformers.XLNetConfig(vocab_size=25, d_model=16, n_layer=2, n_head=2, d_inner=32))
    assert found.in_no_part == {"transformer.mask_emb": 16}
    assert found.share_named() < 1.0


def test_layers_that_are_not_called_are_refused() -> None:
    """GIVEN a model that calls its layers' ``forward`` past all hooks THEN the error says so."""
    with pytest.raises(ModelError, match="SqueezeBertForSequenceClassification does not call its layers"):
        structure_map(config("squeezebert", embedding_size=16))


def test_a_failed_pass_keeps_what_was_found() -> None:
    """GIVEN a model that fails on the meta device THEN all findings stay, optional, and the failure is told."""
    found = structure_map(config("deepseek_v2", num_experts_per_tok=None))
    assert found.calls.failure
    assert [finding.part.name for finding in found.kept] == [finding.part.name for finding in found.found]
    assert all(finding.part.optional for finding in found.kept)
