"""INT8 on a CPU: layers compute what their weights say, scales are calibrated, and what is wrong is refused."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from energyscope.errors import DataError, ModelError, UsageError
from energyscope.loading import (
    cpu_int8,
    load_model,
    load_variant,
    unsupported,
)
from energyscope.loading.cpu_int8 import as_linear, quantizable, require_right
from energyscope.loading.precision_support import reason_against_autocast
from energyscope.reasons import split

CPU = torch.device("cpu")
MAKERS = ["own", "torchao", "static"]


def states(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def linear(rows: int, columns: int, *, bias: bool = True) -> nn.Linear:
    layer = nn.Linear(columns, rows, bias=bias).requires_grad_(False).eval()
    layer.weight.copy_(
        states(rows, columns) * torch.logspace(-1, 1, rows)[:, None]
    )  # rows of very different scale
    if bias:
        layer.bias.copy_(100 * states(rows))
    return layer


class Fed(nn.Sequential):
    """A model whose input is named, as transformers' are."""

    def forward(self, inputs: Tensor) -> Tensor:
        return super().forward(inputs)


def quantized(model: nn.Module, maker: str, inputs: Tensor, keep: list[str] | None = None) -> tuple[str, ...]:
    if maker == "own":
        return cpu_int8.quantize_by_torch(model, keep or [])
    if maker == "torchao":
        return cpu_int8.quantize_by_torchao(model, keep or [])
    return cpu_int8.quantize_static(model, keep or [], [{"inputs": inputs}])


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(32, 96), (30, 31), (1, 7), (257, 64)])
def test_layers_compute_what_their_weights_say(shape: tuple[int, int], bias: bool, maker: str) -> None:
    """GIVEN layers of any shape THEN every row's outputs are near those of FP32, with any number of dimensions."""
    plain = linear(*shape, bias=bias)
    inputs = states(4, 3, shape[1])
    expected = plain(inputs)
    model = Fed(plain)
    quantized(model, maker, inputs)
    for cut in (inputs, inputs[0], inputs[:1, :1]):
        outputs, exact = model(cut), expected[: len(cut), : cut.shape[1]] if cut.ndim == 3 else expected[0]
        assert outputs.shape == exact.shape
        size, error = exact - (plain.bias if bias else 0), outputs - exact
        by_row = error.flatten(0, -2).norm(dim=0) / size.flatten(0, -2).norm(dim=0).clamp(min=0.1)
        assert float(by_row.median()) < 0.03
        assert float(error.norm() / size.norm()) < 0.04


@pytest.mark.parametrize("maker", MAKERS)
def test_a_model_in_int8_holds_a_byte_for_each_weight(maker: str) -> None:
    """GIVEN a weight THEN it has at most 256 levels a row, which are not those of another row."""
    model = Fed(linear(8, 4096))
    quantized(model, maker, states(4, 4096))
    weight: Any = model[0].weight
    rows = weight().dequantize() if callable(weight) else weight.dequantize()
    assert all(len(row.unique()) <= 256 for row in rows)
    assert float((rows - linear(8, 4096).weight).norm() / rows.norm()) < 0.02


def test_static_scales_come_from_the_calibration() -> None:
    """GIVEN small batches THEN later inputs are clipped to the largest of them, in every batch shape."""
    model = Fed(linear(16, 32, bias=False))
    inputs = states(4, 32)
    batches = [{"inputs": inputs / 10}, {"inputs": inputs[:2]}]
    cpu_int8.quantize_static(model, [], batches)
    largest = max(float(batch["inputs"].abs().max()) for batch in batches)
    outputs = model(torch.full((1, 32), 50 * largest))
    assert torch.allclose(outputs, model(torch.full((1, 32), largest)), rtol=1e-4)
    one_scale = float(torch.as_tensor(model[0].weight.act_quant_scale).flatten()[0])  # type: ignore[union-attr]
    assert one_scale * (63 if cpu_int8._spares_a_bit() else 127) == pytest.approx(largest, rel=1e-5)


def test_a_processor_without_vnni_spares_a_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN products of 8 bits that overflow THEN it computes in 7, which is noted, and is right."""
    import torchao.kernel

    monkeypatch.setattr(torchao.kernel, "int_scaled_matmul", lambda a, b, scales: torch.zeros(32, 32))
    for maker in ("torchao", "static"):
        plain, inputs = linear(16, 96, bias=False), states(4, 96)
        expected = plain(inputs)
        model = Fed(plain)
        (note,) = quantized(model, maker, inputs)
        assert note.values["bits"] == 7
        rows = model[0].weight.dequantize()  # type: ignore[operator]
        assert all(len(row.unique()) <= 128 for row in rows)
        assert float((model(inputs) - expected).norm() / expected.norm()) < 0.05


def test_static_int8_needs_batches() -> None:
    """GIVEN no batches, or one that does not reach a layer THEN the error says what to give."""
    with pytest.raises(UsageError, match="give some"):
        load_variant("tiny-gpt2", "int8-static", device="cpu")
    with pytest.raises(ModelError, match=r"^0 was fed nothing to set a scale by .*calibrate on other batches"):
        quantized(Fed(linear(4, 8)), "static", torch.zeros(2, 8))
    with pytest.raises(ModelError, match="largest input: inf"):
        quantized(Fed(linear(4, 8)), "static", torch.full((2, 8), torch.inf))
    with pytest.raises(DataError, match="give batches made for it") as error:
        load_variant(
            "tiny-gpt2", "int8-static", device="cpu", calibration=[{"input_ids": torch.tensor([[10**6]])}]
        )
    assert "\n" not in str(error.value)


def test_calibration_leaves_no_trace() -> None:
    """GIVEN a calibrated model THEN it has no hooks, and PyTorch's products and compiler are set as before."""
    import torch._inductor.config as inductor

    before = (torch.get_float32_matmul_precision(), inductor.coordinate_descent_tuning)
    model = Fed(linear(4, 8))
    quantized(model, "static", states(2, 8))
    assert not any(module._forward_pre_hooks for module in model.modules())
    assert (torch.get_float32_matmul_precision(), inductor.coordinate_descent_tuning) == before


@pytest.mark.parametrize("maker", MAKERS)
def test_a_model_without_linears_is_refused(maker: str) -> None:
    """GIVEN nothing to quantize THEN it is not passed off as INT8."""
    with pytest.raises(ModelError, match="no linear layers to quantize"):
        quantized(Fed(nn.ReLU()), maker, states(2, 8))
    with pytest.raises(ModelError, match="no linear layers to quantize"):
        quantized(Fed(linear(4, 8)), maker, states(2, 8), keep=["0"])


def test_kept_layers_stay_as_they_are() -> None:
    """GIVEN a layer that is to be kept THEN it is the same object, and its neighbour is exchanged."""
    model = Fed(linear(8, 8), linear(4, 8))
    kept = model[1]
    cpu_int8.quantize_by_torch(model, ["1"])
    assert model[1] is kept
    assert type(model[0]) is not nn.Linear


def test_a_layer_that_computes_wrongly_is_refused() -> None:
    """GIVEN a kernel that mixes up two rows, under a large bias THEN the trial names the layer and its maker."""
    plain = linear(16, 32)
    wrong = nn.Linear(32, 16)
    wrong.weight.data = plain.weight.data.flip(0)
    wrong.bias.data = plain.bias.data
    require_right("up", plain, plain, plain.weight, maker="maker")
    with pytest.raises(ModelError) as error:
        require_right("up", wrong, plain, plain.weight, maker="maker")
    assert re.match(r"maker computes up of 16 x 32 wrongly on cpu \(relative error [\d.]+ on", str(error.value))
    assert "\n" not in str(error.value)


def test_conv1d_becomes_the_same_linear() -> None:
    """GIVEN GPT-2's Conv1D THEN the Linear computes the same; a Linear is itself."""
    model = load_model("tiny-gpt2", device="cpu").model
    path, layer = quantizable(model, [])[0]
    assert path.endswith("attn.c_attn")
    inputs = states(2, 5, layer.weight.shape[0])  # type: ignore[index,union-attr]
    assert torch.allclose(as_linear(layer)(inputs), layer(inputs), atol=1e-5)
    plain = linear(4, 8)
    assert as_linear(plain) is plain


def test_torchao_takes_the_place_of_what_torch_has_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN a torch without quantize_dynamic THEN int8 is torchao's; with neither, the reasons are both given."""
    import torch.ao.quantization

    monkeypatch.delattr(torch.ao.quantization, "quantize_dynamic")
    assert cpu_int8.reason_against_torch() is not None
    assert unsupported("int8", CPU) is None
    made = load_variant("tiny-gpt2", "int8", device="cpu")
    assert (made.implementation, made.dtype) == ("torchao dynamic INT8", "int8")
    assert made.size_bytes < 0.4 * 4 * made.parameters
    ids = torch.tensor([[5, 6, 7]])
    plain = load_model("tiny-gpt2", device="cpu").model
    with torch.inference_mode():
        expected, logits = plain(input_ids=ids).logits, made.loaded.model(input_ids=ids).logits
    assert 0 < float((logits - expected).norm() / expected.norm()) < 0.05
    monkeypatch.setitem(__import__("sys").modules, "torchao.quantization", None)
    assert [why.code for why in split(unsupported("int8", CPU))] == ["no-dynamic-int8", "package-missing"]


def test_autocast_keeps_the_weights_and_the_signature() -> None:
    """GIVEN autocast THEN weights stay FP32, products are FP16, and callers see the forward that they know."""
    model: Any = load_variant("tiny-gpt2", "fp16-autocast", device="cpu").loaded.model
    assert {weight.dtype for weight in model.parameters()} == {torch.float32}
    seen = []
    model.transformer.h[0].mlp.c_fc.register_forward_hook(lambda module, inputs, output: seen.append(output.dtype))
    with torch.inference_mode():
        assert model(input_ids=torch.tensor([[5, 6]])).logits.dtype == torch.float16
    assert seen == [torch.float16]
    assert not torch.is_autocast_enabled("cpu")
    assert (
        list(inspect.signature(model.forward).parameters)
        == list(inspect.signature(type(model).forward).parameters)[1:]
    )
    assert model.config.model_type == "gpt2"


def test_generation_works_in_autocast() -> None:
    """GIVEN autocast THEN transformers' own generation, which looks at the forward, goes on from a prompt."""
    model: Any = load_variant("tiny-gpt2", "fp16-autocast", device="cpu").loaded.model
    ids = model.generate(torch.tensor([[5, 6, 7]]), max_new_tokens=4, do_sample=False, pad_token_id=0)
    assert ids.shape == (1, 7)
    assert reason_against_autocast(CPU) is None
