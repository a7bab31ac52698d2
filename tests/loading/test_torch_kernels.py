"""Linears by PyTorch's own kernels: right to their rounding, tried before use, and never silently unquantized."""

from __future__ import annotations

import copy
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_models import save_model
from torch import nn
from transformers.pytorch_utils import Conv1D

import energyscope
from energyscope.errors import ModelError
from energyscope.loading import load_model, parameter_count, torch_kernels, unsupported, weight_bytes
from energyscope.loading.linears import is_linear, quantized_linears
from energyscope.loading.options import BY_TORCH
from energyscope.loading.sizes import planned_bytes
from energyscope.loading.torch_kernels import QuantizedLinear, torch_linear
from energyscope.reasons import reason, split

CPU = torch.device("cpu")
WIDE = {"hidden_size": 128, "intermediate_size": 256, "num_attention_heads": 4, "num_key_value_heads": 2}
ERROR = {
    "fp8": 0.05,
    "w8a8": 0.03,
    "w8a16": 0.012,
    "int4": 0.12,
}  # of products with weights that are normally distributed


def linear(outputs: int = 48, inputs: int = 256, *, bias: bool = True) -> nn.Linear:
    torch.manual_seed(0)
    module = nn.Linear(inputs, outputs, bias=bias)
    nn.init.normal_(module.weight, std=0.05)
    return module.requires_grad_(False)


def apart(first: torch.Tensor, second: torch.Tensor) -> float:
    return float((first - second).norm() / second.norm())


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_model(tmp_path_factory.mktemp("models") / "wide", "llama", **WIDE))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("precision", BY_TORCH)
def test_a_layer_computes_its_linear_up_to_rounding(precision: str, dtype: torch.dtype) -> None:
    """GIVEN inputs of any number of dimensions THEN outputs are the linear's, with its bias and in its dtype."""
    module = linear()
    layer = torch_linear(copy.deepcopy(module).to(dtype), precision)
    inputs = torch.randn(2, 3, 256, dtype=dtype)
    outputs = layer(inputs)
    assert (outputs.shape, outputs.dtype) == ((2, 3, 48), dtype)
    assert 0 < apart(outputs.float(), module(inputs.float())) < ERROR[precision]


@pytest.mark.parametrize("precision", BY_TORCH)
def test_a_conv1d_is_transposed(precision: str) -> None:
    """GIVEN GPT-2's Conv1D, whose weight is (in, out) THEN its layer is that of the linear with that weight."""
    module = linear()
    conv = Conv1D(48, 256)
    conv.weight, conv.bias = nn.Parameter(module.weight.T.contiguous()), module.bias
    inputs = torch.randn(5, 256)
    assert torch.equal(torch_linear(conv, precision)(inputs), torch_linear(module, precision)(inputs))


@pytest.mark.parametrize("precision", BY_TORCH)
def test_outliers_of_a_row_do_not_reach_the_others(precision: str) -> None:
    """GIVEN a weight and an input that are huge in one row THEN the other rows are as right as before."""
    module = linear(bias=False)
    module.weight[3] *= 1000
    inputs = torch.randn(4, 256)
    inputs[2] *= 1000
    outputs, expected = torch_linear(module, precision)(inputs), module(inputs)
    rows, columns = [0, 1, 3], [number for number in range(48) if number != 3]
    assert apart(outputs[rows][:, columns], expected[rows][:, columns]) < ERROR[precision]


@pytest.mark.parametrize("precision", ["fp8", "w8a8"])
def test_nan_is_not_lost_where_inputs_are_rounded(precision: str) -> None:
    """GIVEN a row with NaN or infinity THEN its outputs are not finite either, and those of other rows are."""
    inputs = torch.randn(4, 256)
    inputs[1, 3], inputs[2, 5] = torch.nan, torch.inf
    outputs = torch_linear(linear(), precision)(inputs)
    assert outputs.isfinite().all(dim=1).tolist() == [True, False, False, True]


@pytest.mark.parametrize("precision", ["w8a8", "w8a16"])
def test_int8_has_the_largest_weight_of_an_output_as_127(precision: str) -> None:
    """GIVEN whole multiples of a scale for each output THEN the weights are kept; so are such inputs."""
    codes = torch.randint(-127, 128, (48, 256), generator=torch.Generator().manual_seed(0)).float()
    codes[:, 7] = 127.0
    module = linear(bias=False)
    module.weight.data = codes * torch.logspace(-3, 3, 48)[:, None]
    inputs = codes[:5] / 64
    assert apart(torch_linear(module, precision)(inputs), module(inputs)) < 1e-5


@pytest.mark.parametrize("group", [128, 64, 32])
def test_int4_has_sixteen_levels_in_each_group(group: int) -> None:
    """GIVEN weights on sixteen levels of each group THEN nothing is lost; the next group has levels of its own."""
    codes = torch.arange(3 * group).remainder(16).view(1, 3, group).expand(16, -1, -1)
    module = linear(16, 3 * group, bias=False)
    module.weight.data = ((codes - 8) * torch.tensor([0.5, 0.125, 0.25])[:, None]).flatten(1)
    inputs = torch.randn(3, 3 * group)
    assert apart(torch_linear(module, "int4")(inputs), module(inputs)) < 1e-5


@pytest.mark.parametrize("precision", BY_TORCH)
def test_a_wrong_kernel_is_refused(precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN a kernel that swaps two outputs THEN the layer is refused by name, with its size and error."""
    layer = torch_kernels.LAYERS[precision]
    right = layer.product
    monkeypatch.setattr(layer, "product", lambda self, rows: right(self, rows).roll(1, dims=-1))
    with pytest.raises(ModelError, match=f"PyTorch computes h.0.mlp of 48 x 256 in {precision} wrongly on cpu"):
        torch_linear(linear(), precision, "h.0.mlp")
    (why,) = split(str(unsupported(precision, CPU)))
    assert why.code == "kernel-fails"


@pytest.mark.parametrize("precision", BY_TORCH)
def test_trying_a_device_draws_no_random_numbers(precision: str) -> None:
    """WHEN a precision is tried THEN what is drawn next is what it would have been."""
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    assert unsupported(precision, CPU) is None
    assert torch.rand(1) == expected


@pytest.mark.parametrize("error", [NotImplementedError, ValueError])
@pytest.mark.parametrize("precision", BY_TORCH)
def test_a_device_without_the_kernel_says_so(
    precision: str, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIVEN a kernel that is not there THEN the precision is unsupported, with PyTorch's first line."""

    def missing(*_: Any) -> Any:
        raise error("no kernel for this device\nand more")

    monkeypatch.setattr(torch_kernels.LAYERS[precision], "product", missing)
    (why,) = split(str(unsupported(precision, CPU)))
    assert (why.code, why.values["precision"]) == ("kernel-fails", precision)
    assert why.values["error"].endswith("no kernel for this device")


@pytest.mark.parametrize("weights", ["pretrained", "random"])
@pytest.mark.parametrize("precision", BY_TORCH)
def test_a_model_has_all_its_linears_but_the_head_quantized(wide: str, precision: str, weights: Any) -> None:
    """GIVEN sizes that fit THEN all are quantized and counted, without a note; outputs stay near."""
    loaded = load_model(wide, precision=precision, device="cpu", weights=weights)
    plain = load_model(wide, device="cpu", weights=weights)
    left = [path for path, module in loaded.model.named_modules() if is_linear(module)]
    assert (left, loaded.notes) == (["lm_head"], ())
    assert parameter_count(loaded.model) == parameter_count(plain.model)
    assert weight_bytes(loaded.model) == planned_bytes(plain.model, precision, ["lm_head"])
    assert weight_bytes(loaded.model) < weight_bytes(plain.model)
    ids = torch.randint(0, plain.model.config.vocab_size, (2, 9), generator=torch.Generator().manual_seed(0))
    expected, answered = (each.model(input_ids=ids).logits for each in (plain, loaded))
    assert 0 < apart(answered, expected) < 0.5


@pytest.mark.parametrize("precision", BY_TORCH)
def test_what_was_exchanged_is_freed_layer_by_layer(
    wide: str, precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIVEN trained weights THEN each unquantized layer is freed once it is exchanged, before the next but one."""
    model = load_model(wide, device="cpu").model
    paths = list(quantized_linears(model, precision, ["lm_head"]))
    originals = [weakref.ref(model.get_submodule(path)) for path in paths]
    exchanged: list[str] = []

    def counted(module: nn.Module, *words: str) -> QuantizedLinear:
        alive = sum(original() is not None for original in originals)
        assert alive <= len(originals) - len(exchanged) + 1
        exchanged.append(words[-1])
        return torch_linear(module, *words)

    monkeypatch.setattr(torch_kernels, "torch_linear", counted)
    torch_kernels.exchange(model, precision, ["lm_head"])
    assert exchanged == paths


@pytest.mark.parametrize("precision", BY_TORCH)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_pruned_weights_and_no_rows_are_no_trouble(precision: str, dtype: torch.dtype) -> None:
    """GIVEN half of the weights zero THEN the layer is right; GIVEN no rows, as an expert may get, none come."""
    module = linear(bias=False).to(dtype)
    module.weight[:24] = 0.0
    layer = torch_linear(module, precision)
    assert not layer(torch.randn(3, 256, dtype=dtype))[:, :24].any()
    assert layer(torch.randn(2, 0, 256, dtype=dtype)).shape == (2, 0, 48)


def test_leaving_out_all_linears_is_refused(wide: str) -> None:
    """GIVEN --skip-modules that name every linear THEN the line says so, and blames no size."""
    with pytest.raises(ModelError, match="--skip-modules names all linears"):
        load_model(wide, precision="fp8", device="cpu", skip_modules=("self_attn", "mlp"))


def test_sizes_that_do_not_fit_are_noted(tmp_path: Path) -> None:
    """GIVEN inputs that are no multiple of 32 THEN only the others are INT4, and a note counts the rest."""
    folder = str(save_model(tmp_path / "uneven", "llama", **{**WIDE, "intermediate_size": 144}))
    loaded = load_model(folder, precision="int4", device="cpu")
    down = [path for path, module in loaded.model.named_modules() if is_linear(module) and path != "lm_head"]
    assert {path.rpartition(".")[2] for path in down} == {"down_proj"}
    done = sum(isinstance(module, QuantizedLinear) for module in loaded.model.modules())
    note = reason("size-not-quantized", precision="int4", layers=len(down), total=len(down) + done, first=down[0])
    assert loaded.notes == (note,)


def test_a_model_without_a_size_that_fits_is_refused(tmp_path: Path) -> None:
    """GIVEN widths below 32 WHEN INT4 is asked for THEN one line says which sizes it takes."""
    folder = str(save_model(tmp_path / "narrow", "llama", hidden_size=16, intermediate_size=48))
    with pytest.raises(ModelError, match=r"int4 kernels take \(multiples of 32 inputs and 16 outputs\)"):
        load_model(folder, precision="int4", device="cpu")


@pytest.mark.parametrize("precision", BY_TORCH)
def test_a_profile_counts_the_work_and_bytes_of_quantized_layers(
    tmp_path: Path, wide: str, precision: str
) -> None:
    """GIVEN the same passes THEN FLOPs are those of the unquantized model, and a component moves fewer bytes."""
    runs = {
        each: energyscope.run(
            wide, precision=each, device="cpu", stages=("profile",), phase="prefill", passes=1, sequence_length=8,
            component_budget_s=0.1, layers="kinds", root=tmp_path, name=each,
        )
        for each in ("fp32", precision)
    }  # fmt: skip
    plain, quantized = (runs[each].energy.set_index("component") for each in ("fp32", precision))
    mlp = next(name for name in plain.index if name.endswith("mlp"))
    assert quantized.loc[mlp, "flops"] == plain.loc[mlp, "flops"]
    assert quantized.loc[mlp, "parameters"] == plain.loc[mlp, "parameters"]
    assert quantized.loc[mlp, "bytes"] < plain.loc[mlp, "bytes"] / 2
