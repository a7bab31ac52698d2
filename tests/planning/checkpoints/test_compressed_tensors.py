"""compressed-tensors checkpoints: names, schemes and packed codes."""

from __future__ import annotations

import json

import pytest
import torch
from exported_plans import plan_of, wide_model

from energyscope.planning.checkpoints.compressed_tensors import packed
from energyscope.planning.exporting import export_plan

MIXED = {"attention.qkv": "fp8", "mlp.up": "int4", "mlp.down": "int4"}  # groups of 128, and of 32
KINDS = ("attention.qkv", "attention.output", "mlp.up", "mlp.down")


def test_every_linear_is_named_exactly(tmp_path):
    """GIVEN two layers THEN targets are whole paths, one scheme a group size, and the rest is ignored by name."""
    loaded = wide_model(tmp_path / "model", "fp32")
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
    loaded = wide_model(tmp_path / "model", "fp32")
    for precision, inputs in (("w8a8", {"num_bits": 8, "strategy": "token", "dynamic": True}), ("w8a16", None)):
        folder = export_plan(loaded.model, plan_of(loaded, dict.fromkeys(KINDS, precision)), tmp_path / precision)
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
