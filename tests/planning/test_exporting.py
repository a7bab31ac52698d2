"""An exported plan is loaded by transformers, and predicts what the verified layers do."""

from __future__ import annotations

import json

import pytest
import torch
from tiny_models import save_model

import energyscope
from energyscope.errors import ModelError, UsageError
from energyscope.loading import load_model
from energyscope.planning.exporting import export_plan, packed
from energyscope.planning.groups import groups_of

WIDE = {"hidden_size": 128, "intermediate_size": 160, "num_attention_heads": 4, "num_key_value_heads": 2}
MIXED = {"attention.qkv": "fp8", "mlp.up": "int4", "mlp.down": "int4"}  # groups of 128, and of 32
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
        "schema": 1, "model": loaded.name, "precisions": [loaded.precision, "fp8", "int4"],
        "workloads": [{"key": "prefill:1", "verdict": "saves", "groups": groups}],
    }  # fmt: skip


def logits(module):
    with torch.no_grad():
        return module(input_ids=IDS).logits.float()


def apart(first, second):
    return float((first - second).norm() / second.norm())


@pytest.mark.parametrize(
    ("precision", "tied", "most"), [("fp32", False, 1e-5), ("fp32", True, 1e-5), ("bf16", False, 0.04)]
)
def test_a_checkpoint_predicts_what_was_verified(tmp_path, precision, tied, most):
    """GIVEN FP8, INT4 and own precision in one model THEN transformers loads it with the outputs of the plan."""
    import transformers

    loaded = model(tmp_path / "model", precision, tie_word_embeddings=tied)
    plan = plan_of(loaded, MIXED)
    original = logits(loaded.model)
    folder = export_plan(loaded.model, plan, tmp_path / "exported", loaded.tokenizer)
    assert torch.equal(logits(loaded.model), original)  # it stays as it is
    again = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype="auto")
    changed = logits(again)
    verified = logits(energyscope.apply_plan(loaded.model, plan))
    assert apart(changed, verified) < most
    assert apart(verified, original) > 0.02
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


def test_codes_are_packed_as_the_library_does():
    """GIVEN any codes THEN the words are those of compressed-tensors."""
    from compressed_tensors.compressors.pack_quantized.helpers import pack_to_int32

    codes = torch.randint(0, 16, (5, 40))
    assert torch.equal(packed(codes), pack_to_int32((codes - 8).to(torch.int8), 4))


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
