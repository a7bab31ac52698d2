"""An exported plan is loaded by transformers, and predicts what the verified layers do."""

from __future__ import annotations

import json

import pytest
import torch
from tiny_models import save_model

import energyscope
from energyscope.errors import ModelError, UsageError
from energyscope.loading import load_model
from energyscope.loading.options import BY_TORCH
from energyscope.loading.torch_kernels import LAYERS
from energyscope.planning.applying import precisions_of
from energyscope.planning.exporting import export_plan, packed
from energyscope.planning.groups import groups_of

WIDE = {"hidden_size": 128, "intermediate_size": 160, "num_attention_heads": 4, "num_key_value_heads": 2}
MIXED = {"attention.qkv": "fp8", "mlp.up": "int4", "mlp.down": "int4"}  # groups of 128, and of 32
INT8 = {"attention.qkv": "w8a8", "attention.output": "w8a8", "mlp.up": "w8a16", "mlp.down": "w8a16"}
IDS = torch.arange(4, 20)[None]


def model(folder, precision, family="llama", **changes):
    return load_model(str(save_model(folder, family, **{**WIDE, **changes})), device="cpu", precision=precision)


def plan_of(loaded, precisions):
    """Return a plan document with a precision for each kind; other groups keep the model's own."""
    groups = [
        {"name": group.name, "paths": list(group.paths), "precision": precisions.get(group.kind, loaded.precision)}
        for group in groups_of(loaded.model, loaded.adapter)
    ]
    return {
        "schema": 1, "model": loaded.name, "precisions": [loaded.precision, *BY_TORCH],
        "workloads": [{"key": "prefill:1", "verdict": "saves", "groups": groups}],
    }  # fmt: skip


def logits(module):
    with torch.no_grad():
        return module(input_ids=IDS).logits.float()


def apart(first, second):
    return float((first - second).norm() / second.norm())


@pytest.mark.parametrize(
    ("precisions", "precision", "tied", "most", "changes"),
    [
        (MIXED, "fp32", False, 1e-5, 0.02),
        (MIXED, "fp32", True, 1e-5, 0.02),
        (MIXED, "bf16", False, 0.04, 0.02),
        (dict.fromkeys(INT8, "w8a16"), "fp32", False, 1e-5, 0.002),
        (INT8, "fp32", False, 0.02, 0.005),  # the library scales inputs by 127.5
        (INT8, "bf16", False, 0.04, 0.005),
        (INT8, "fp16", False, 0.03, 0.005),
        (MIXED, "fp16", False, 0.03, 0.02),
    ],
)
def test_a_checkpoint_predicts_what_was_verified(tmp_path, precisions, precision, tied, most, changes):
    """GIVEN several precisions in one model THEN transformers loads it with the outputs of the plan."""
    import transformers

    loaded = model(tmp_path / "model", precision, tie_word_embeddings=tied)
    plan = plan_of(loaded, precisions)
    original = logits(loaded.model)
    folder = export_plan(loaded.model, plan, tmp_path / "exported", loaded.tokenizer)
    assert torch.equal(logits(loaded.model), original)  # it stays as it is
    again = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype="auto")
    changed = logits(again)
    for path, chosen in precisions_of(loaded.model, plan).items():
        weight = loaded.model.get_submodule(path).weight
        restored = LAYERS[chosen].restored(weight.float(), weight.dtype).to(weight.dtype)
        assert apart(again.get_submodule(path).weight, restored) < 1e-6, path
    verified = logits(energyscope.apply_plan(loaded.model, plan))
    assert apart(changed, verified) < most
    assert apart(verified, original) > changes
    assert (folder / "tokenizer_config.json").is_file()
    own = sum(path.stat().st_size for path in (tmp_path / "model").glob("*.safetensors"))
    assert (folder / "model.safetensors").stat().st_size < 0.6 * own


def test_every_linear_is_named_exactly(tmp_path):
    """GIVEN two layers THEN targets are whole paths, one scheme a group size, and the rest is ignored by name."""
    loaded = model(tmp_path / "model", "fp32")
    folder = export_plan(loaded.model, plan_of(loaded, MIXED), tmp_path / "exported")
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))["quantization_config"]
    groups = config["config_groups"].values()
    sizes = {tuple(group["targets"])[:1]: group["weights"].get("group_size") for group in groups}
    assert config["format"] == "mixed-precision"
    assert sorted(sizes.values(), key=str) == [128, 32, None]
    targets = [target for group in groups for target in group["targets"]]
    assert len(targets) == len(set(targets)) == 12
    assert {path.rpartition(".")[2] for path in config["ignore"]} == {"o_proj", "lm_head"}


def test_inputs_are_quantized_where_the_plan_has_them_so(tmp_path):
    """GIVEN w8a8 THEN inputs have 8 bits and a scale a token; GIVEN w8a16 THEN they are not quantized."""
    loaded = model(tmp_path / "model", "fp32")
    for precision, inputs in (("w8a8", {"num_bits": 8, "strategy": "token", "dynamic": True}), ("w8a16", None)):
        folder = export_plan(loaded.model, plan_of(loaded, dict.fromkeys(INT8, precision)), tmp_path / precision)
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))["quantization_config"]
        for group in config["config_groups"].values():
            found = group["input_activations"]
            assert found is None if inputs is None else inputs.items() <= found.items()


@pytest.mark.parametrize("bits", [4, 8])
def test_codes_are_packed_as_the_library_does(bits):
    """GIVEN any codes THEN the words are those of compressed-tensors."""
    from compressed_tensors.compressors.pack_quantized.helpers import pack_to_int32

    codes = torch.randint(0, 2**bits, (5, 40))
    assert torch.equal(packed(codes, bits), pack_to_int32((codes - 2 ** (bits - 1)).to(torch.int8), bits))


def test_what_cannot_be_exported_is_said(tmp_path):
    """GIVEN another precision, nothing changed, Conv1D or a full folder THEN one line, and nothing is written."""
    loaded = model(tmp_path / "model", "fp32")
    with pytest.raises(UsageError, match="nf4 has no format in compressed-tensors checkpoints"):
        export_plan(loaded.model, plan_of(loaded, {"mlp.up": "nf4"}), tmp_path / "a")
    with pytest.raises(UsageError, match="changes nothing"):
        export_plan(loaded.model, plan_of(loaded, {}), tmp_path / "a")
    gpt2 = load_model(str(save_model(tmp_path / "gpt2", "gpt2", n_embd=32)), device="cpu")
    with pytest.raises(ModelError, match="is a Conv1D, and compressed-tensors has Linear only"):
        export_plan(gpt2.model, plan_of(gpt2, {"mlp.up": "int4"}), tmp_path / "a")
    assert not (tmp_path / "a").exists()
    with pytest.raises(UsageError, match="holds files"):
        export_plan(loaded.model, plan_of(loaded, MIXED), tmp_path / "model")
