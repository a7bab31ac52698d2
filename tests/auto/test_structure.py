"""Components found by structure: their kinds and paths, and the shipped adapters as the judge."""

from __future__ import annotations

import pytest
import torch
from auto_models import FAMILIES, OTHER_TASKS, config, relative, structure, tree
from conformance import names_used_twice, nested_siblings, parameters_without_component, unlike_the_model
from torch import nn
from transformers import AutoModelForCausalLM

from energyscope.adapter_registry import load_adapter
from energyscope.adapters import SDPA
from energyscope.auto.structure import find_parts
from energyscope.auto.tasks import CLASSIFICATION, NEXT_TOKEN
from energyscope.errors import ModelError

ROTARY = {"attention.query": "q_proj", "attention.key": "k_proj", "attention.value": "v_proj"}
LLAMA_LIKE = {
    "attention": "self_attn", **{kind: f"self_attn.{name}" for kind, name in ROTARY.items()},
    "attention.output": "self_attn.o_proj", "mlp": "mlp",
}  # fmt: skip
GATED = {"mlp.gate": "mlp.gate_proj", "mlp.up": "mlp.up_proj", "mlp.down": "mlp.down_proj"}
KINDS = {
    "mistral": {**LLAMA_LIKE, **GATED},
    "qwen3": {**LLAMA_LIKE, **GATED},
    "gemma3_text": {**LLAMA_LIKE, **GATED},
    "phi3": {"attention": "self_attn", "attention.qkv": "self_attn.qkv_proj", "mlp.up": "mlp.gate_up_proj"},
    "opt": {
        "attention": "self_attn", "attention.output": "self_attn.out_proj", "mlp.up": "fc1", "mlp.down": "fc2",
        "mlp.activation": "activation_fn",
    },
    "gpt_neox": {"attention": "attention", "attention.qkv": "attention.query_key_value", "mlp": "mlp"},
    "falcon": {"attention": "self_attention", "attention.output": "self_attention.dense", "mlp": "mlp"},
    "mixtral": {**LLAMA_LIKE, "router": "mlp.gate", "experts": "mlp.experts"},
    "mamba": {"mixer": "mixer"},
}  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES)
def test_kinds_are_found_in_a_layer(family: str) -> None:
    """GIVEN a family without an adapter THEN its blocks and linears have the kinds that they should."""
    found = relative(family)
    assert {name: found.get(name) for name in KINDS[family].values()} == {
        name: kind for kind, name in KINDS[family].items()
    }
    assert "other" not in found.values()


@pytest.mark.parametrize("family", FAMILIES)
def test_components_are_disjoint_and_own_every_weight(family: str) -> None:
    """Each has its own name, none of two siblings holds the other, and together they own all parameters."""
    components = tree(family)
    assert names_used_twice(components) == set()
    assert nested_siblings(components) == []
    assert parameters_without_component(components) == set()


@pytest.mark.parametrize("family", FAMILIES)
def test_components_replay_to_what_they_returned(family: str) -> None:
    """GIVEN captured inputs THEN each component alone, also without its children, returns what it did."""
    assert unlike_the_model(tree(family), padded=0) == []


@pytest.mark.parametrize("family", ["gpt2", "llama", "qwen2", "bert", "distilbert"])
def test_shipped_adapters_are_found_again(family: str) -> None:
    """GIVEN a family with an adapter THEN auto finds its very parts: no path, kind or granularity differs."""
    import transformers

    shipped = load_adapter(family)
    task = CLASSIFICATION if shipped.task == "classification" else NEXT_TOKEN
    with torch.device("meta"):
        model = getattr(transformers, task.auto_class).from_config(transformers.AutoConfig.for_model(family))
    stacks, found = find_parts(model)
    parts = {finding.part for finding in found}
    caches = {
        part for part in parts if part.kind == "attention.cache"
    }  # an encoder updates none: the pass drops it
    assert stacks == shipped.stacks
    assert parts - set(shipped.parts) == (caches if task is CLASSIFICATION else set())
    assert set(shipped.parts) - parts == set()


CROSS = {"cross_attention.query": "q_proj", "cross_attention.key": "k_proj", "cross_attention.value": "v_proj"}
DECODER = {
    "attention": "self_attn", **{kind: f"self_attn.{name}" for kind, name in ROTARY.items()},
    "cross_attention": "encoder_attn", **{kind: f"encoder_attn.{name}" for kind, name in CROSS.items()},
    "cross_attention.output": "encoder_attn.out_proj", "cross_attention.core": "encoder_attn.core",
    "mlp.up": "fc1", "mlp.down": "fc2",
}  # fmt: skip
LAST = {
    "t5": {
        "attention": "layer.0.SelfAttention", "attention.query": "layer.0.SelfAttention.q",
        "cross_attention": "layer.1.EncDecAttention", "cross_attention.query": "layer.1.EncDecAttention.q",
        "cross_attention.output": "layer.1.EncDecAttention.o", "mlp": "layer.2.DenseReluDense",
        "mlp.up": "layer.2.DenseReluDense.wi", "mlp.down": "layer.2.DenseReluDense.wo",
    },
    "bart": DECODER,
    "whisper": DECODER,
    "bert": {"attention": "attention.self", "mlp": "intermediate"},
    "albert": {"attention": "attention", "attention.output": "attention.dense", "mlp.up": "ffn"},
    "vit": {"attention": "attention", "attention.core": "attention.core", "mlp": "mlp", "mlp.up": "mlp.fc1"},
    "swin": {"attention": "attention", "mlp": "mlp"},
    "resnet": {"convolution": "layer.0.convolution", "norm": "layer.0.normalization"},
}  # fmt: skip
AROUND = {
    "t5": {"encoder.embed_tokens": "embedding", "lm_head": "lm_head"},
    "bart": {"model.encoder.embed_positions": "embedding", "lm_head": "lm_head"},
    "whisper": {"model.encoder.conv1": "convolution", "model.encoder.conv2": "convolution", "proj_out": "lm_head"},
    "bert": {"cls": "lm_head", "cls.predictions.transform.dense": "lm_head"},
    "albert": {"predictions": "lm_head", "albert.encoder.embedding_hidden_mapping_in": "embedding"},
    "vit": {"vit.embeddings.patch_embeddings": "patch_embedding", "classifier": "classifier"},
    "swin": {"swin.encoder.layers.0.downsample": "patch_embedding", "classifier": "classifier"},
    "resnet": {"resnet.embedder.embedder.convolution": "convolution", "classifier": "classifier"},
}  # fmt: skip


@pytest.mark.parametrize("family", OTHER_TASKS)
def test_kinds_are_found_in_models_of_other_tasks(family: str) -> None:
    """GIVEN a model that sees, hears, translates or fills gaps THEN its last layer and ends have their kinds."""
    found = structure(family)
    last = relative(family, stack=-1)
    assert {name: last.get(name) for name in LAST[family].values()} == {
        name: kind for kind, name in LAST[family].items()
    }
    kinds = {part.name: part.kind for part in found.adapter.parts}
    assert {name: kinds.get(name) for name in AROUND[family]} == AROUND[family]
    assert found.share_named() == 1.0


def test_an_encoder_has_no_cross_attention() -> None:
    """GIVEN an encoder and a decoder THEN only the decoder's layers attend across."""
    assert "cross_attention" not in relative("bart", stack=0).values()
    assert "cross_attention" in relative("bart", stack=1).values()


def test_a_mixers_convolution_and_scan_are_its_functions() -> None:
    """GIVEN Mamba, whose mixer calls functions in place of its convolution THEN these are its parts, as called."""
    found = {part.kind: part for part in structure("mamba").adapter.parts if part.function}
    assert str(found["mixer.convolution"].function).endswith("modeling_mamba.causal_conv1d_fn")
    assert str(found["mixer.scan"].function).endswith("modeling_mamba.mamba_selective_scan")


@pytest.mark.parametrize(
    ("implementation", "core"),
    [("sdpa", SDPA), ("eager", "transformers.models.llama.modeling_llama.eager_attention_forward")],
)
def test_the_attention_core_is_what_the_model_calls(implementation: str, core: str) -> None:
    """GIVEN attention by PyTorch's function or as plain products THEN that is its core."""
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config("llama"), attn_implementation=implementation)
    _, findings = find_parts(model)
    assert [one.part.function for one in findings if one.part.kind == "attention.core"] == [core]


def test_a_path_with_several_kinds_of_blocks_is_a_mixer() -> None:
    """GIVEN layers whose one block is a mixer here and an MLP there THEN it is a mixer with their linears."""
    findings = {item.part.name: item for item in structure("nemotron_h").found}
    block = findings["model.layers.{layer}.mixer"]
    assert block.part.kind == "mixer"
    assert "mlp" in block.reason
    assert findings["model.layers.{layer}.mixer.up_proj"].part.kind == "mlp.up"
    assert str(findings["model.layers.{layer}.mixer.scan"].part.function).endswith(".mamba2_chunk_scan")


def test_a_model_without_layers_is_refused() -> None:
    """GIVEN no list of blocks THEN the error says so."""

    class Flat(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 4)

    with pytest.raises(ModelError, match="no list of layers"):
        find_parts(Flat())
