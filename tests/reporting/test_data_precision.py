"""How a report names the precision of a run, its quantization, and where its modules lie."""

from __future__ import annotations

from pathlib import Path

from run_builder import build_run

from energyscope.reporting.data.environment_precision import precision_facts
from energyscope.reporting.data.method import environment


def test_a_quantized_run_names_its_precision_and_not_one_data_type() -> None:
    """GIVEN nf4, THEN what it is computed in stands beside it, and float32 is of what is not quantized."""
    used = {"method": "nf4", "double_quant": True, "compute_dtype": "bfloat16", "skipped": list("abcdef")}
    found = dict(
        precision_facts(
            {
                "settings": {"double_quant": True, "skip_modules": ["down_proj"], "device_map": "auto"},
                "model": {"precision": "nf4", "dtype": "float32", "quantization": used,
                          "device_map": {"x": "cuda:0", "y": "cuda:0", "z": "cuda:1"}},
            }
        )
    )  # fmt: skip
    assert found == {
        "Precision": "nf4, computed in bfloat16",
        "Data type of what is not quantized": "float32",
        "Double quantization": "on",
        "Modules that were to stay unquantized": "down_proj",
        "Linear layers that are not quantized": "a, b, c, d and 2 more",
        "Device map": "auto: 2 modules on cuda:0, 1 modules on cuda:1",
    }


def test_double_quantization_that_no_layer_has_is_not_called_on() -> None:
    """GIVEN a processor that packs all weights anew, THEN the option was asked for and is not there."""
    model = {"precision": "nf4", "quantization": {"double_quant": False}}
    found = dict(precision_facts({"settings": {"double_quant": True}, "model": model}))
    assert found["Double quantization"] == "asked for, but no layer has it"


def test_an_older_quantized_run_says_what_was_asked_for() -> None:
    """GIVEN no block of what was used, THEN the settings alone are told, and no compute dtype is made up."""
    found = dict(precision_facts({"settings": {}, "model": {"precision": "int8", "dtype": "float32"}}))
    assert found == {"Precision": "int8", "Data type of what is not quantized": "float32"}


def test_an_unquantized_run_has_its_data_type(tmp_path: Path) -> None:
    """GIVEN fp32, THEN the environment has the data type and nothing of quantization."""
    names = {fact.name for fact in environment(build_run(tmp_path / "run"))}
    assert "Data type" in names
    assert not {"Double quantization", "Device map", "Precision"} & names
