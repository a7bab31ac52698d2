from __future__ import annotations

import sys
from typing import Any

import pytest
import torch
from test_quantized import BUNDLED, MASK, Bundled, possible, seeded, states
from tiny_models import VOCABULARY, config, model_class
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from energyscope.impact.methods import BITSANDBYTES
from energyscope.impact.outputs import Effect
from energyscope.impact.quantizing import quantization
from energyscope.impact.quantizing.matrices import matrices_of, shared_weights
from energyscope.impact.quantizing.quantizers import quantize_activation, quantize_weight
from energyscope.impact.quantizing.real_quantization import _layer, _reason_against_result
from energyscope.reasons import reason

pytest.importorskip("bitsandbytes")


def heavy(rows: int, columns: int) -> Tensor:
    """Weights whose blocks have very different scales: mixed up, they give other numbers altogether."""
    scales = torch.logspace(-1, 1, rows * columns).reshape(rows, columns)
    return states(rows, columns) * scales


@pytest.mark.parametrize("name", BUNDLED)
def test_every_component_of_the_bundled_models(name: str) -> None:
    """GIVEN each component THEN a method changes it, or says why it cannot, and it comes back as it was."""
    bundled = Bundled(name, "fp32")
    changes: dict[str, int] = dict.fromkeys(BITSANDBYTES, 0)
    for part in bundled.parts:
        linear = any(isinstance(inner, nn.Linear | Conv1D) for inner in part.module.modules())
        for method in BITSANDBYTES:
            result = quantization(part.module, method)
            if isinstance(result, str):
                expected = {"bitsandbytes-wrong"} if linear else {"no-weight-matrix", "no-linear-layer"}
                assert result.code in expected
                continue
            change, logits = bundled.changed(result)
            assert 0 < change < (0.03 if method == "bnb-int8" else 0.2), part.name
            assert logits.isfinite().all()
            changes[method] += 1
    assert changes["bnb-int8"] == sum(
        any(isinstance(inner, nn.Linear | Conv1D) for inner in part.module.modules()) for part in bundled.parts
    )
    assert changes["bnb-nf4"] > 0
    bundled.check_restored()


@pytest.mark.parametrize("method", BITSANDBYTES)
@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_a_model_of_whole_blocks_is_quantized_in_all_its_linears(family: str, method: str) -> None:
    """GIVEN widths of whole blocks THEN layers and a tied head are exchanged, the logits follow and come back."""
    wide = {"gpt2": {"n_embd": 64}, "llama": {"hidden_size": 64, "intermediate_size": 128}}[family]
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        model = model_class(family)(config(family, **wide)).eval().requires_grad_(requires_grad=False)
    ids = torch.randint(0, VOCABULARY, (2, 3), generator=torch.Generator().manual_seed(0))
    before = model(ids, use_cache=False).logits
    layers = model.transformer.h if family == "gpt2" else model.model.layers
    for module in [*layers, model.get_output_embeddings()]:
        effect = Effect()
        with possible(module, method).applied(MASK, effect):
            assert not torch.equal(model(ids, use_cache=False).logits, before)
        assert effect.why_invalid() is None
    assert torch.equal(model(ids, use_cache=False).logits, before)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("kind", [nn.Linear, Conv1D])
@pytest.mark.parametrize("method", BITSANDBYTES)
def test_the_output_is_that_of_the_same_quantization_simulated(method: str, kind: Any, dtype: torch.dtype) -> None:
    """GIVEN a Linear or a Conv1D THEN bitsandbytes comes to what our own quantizers do, far nearer than to it."""
    weight, inputs = (heavy(32, 64) / 50).to(dtype), states(2, 3, 64).to(dtype)
    module = nn.Linear(64, 32) if kind is nn.Linear else Conv1D(32, 64)
    module.weight.data = weight if kind is nn.Linear else weight.T.contiguous()
    module.bias.data = states(32).to(dtype)
    module.eval().requires_grad_(requires_grad=False)
    plain = method.removeprefix("bnb-")
    fed = quantize_activation(inputs, "int8-wa") if plain == "int8" else inputs
    expected = nn.functional.linear(fed, quantize_weight(weight, plain, input_dim=1)).float()
    with possible(module, method).applied(MASK, Effect()):
        result = (module(inputs) - module.bias).float()
    original = (module(inputs) - module.bias).float()
    assert (result - expected).norm() < 0.35 * (result - original).norm() + 0.004 * original.norm()


@pytest.mark.parametrize(("method", "name"), [("bnb-int8", "Linear8bitLt"), ("bnb-nf4", "Linear4bit")])
def test_the_layers_are_those_of_bitsandbytes(method: str, name: str) -> None:
    """GIVEN a block THEN in its second run its linear's forward is that of a bitsandbytes layer as asked for."""
    block, layers = seeded(nn.Sequential(nn.Linear(64, 32), nn.GELU())), []

    def note(*_args: Any) -> None:
        layers.append(block[0].forward.__self__)

    block[0].register_forward_pre_hook(note)
    with possible(block, method).applied(MASK, Effect()):
        block(states(2, 3, 64))
    first, second = layers
    assert first is block[0]
    assert type(second).__name__ == name
    assert not second.training
    if method == "bnb-int8":
        assert (second.state.threshold, second.state.has_fp16_weights) == (6.0, False)
    else:
        assert (second.weight.quant_state.quant_type, second.compute_dtype) == ("nf4", torch.float32)


@pytest.mark.parametrize("method", BITSANDBYTES)
def test_the_modules_own_bias_is_never_touched(method: str) -> None:
    """GIVEN a bias of another dtype than the input THEN bitsandbytes, which converts it, converts its own copy."""
    linear = seeded(nn.Linear(64, 32))
    linear.bias = nn.Parameter(linear.get_parameter("bias").clone(), requires_grad=True)
    bias, layer = linear.bias, _layer(matrices_of(linear)[0], method)
    layer(states(2, 3, 64).bfloat16())
    assert linear.bias is bias
    assert (bias.dtype, bias.requires_grad) == (torch.float32, True)


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_errors_within_the_second_run_leave_nothing_behind(error: type[BaseException]) -> None:
    """GIVEN an error or Ctrl-C while layers stand in THEN every forward is the module's own again."""
    block = seeded(nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 64)))

    def fail(*_args: Any) -> None:
        if "forward" in vars(block[1]):
            raise error

    block[1].register_forward_pre_hook(fail)
    with pytest.raises(error), possible(block, "bnb-int8").applied(MASK, Effect()):
        block(states(2, 3, 64))
    assert not any("forward" in vars(module) for module in block.modules())


def test_a_kernel_that_is_wrong_is_found_out() -> None:
    """GIVEN a layer one of whose 32 scales is another's THEN the reason says that it computes wrongly."""
    linear = nn.Linear(64, 32).requires_grad_(requires_grad=False)
    linear.weight.copy_(heavy(32, 64))
    linear.bias.fill_(1e4)
    matrix = matrices_of(linear)[0]
    layer: Any = _layer(matrix, "bnb-nf4")
    layer.support_avx512bf16_for_cpu = False  # it would pack the scales away
    assert _reason_against_result(matrix, layer, "bnb-nf4") is None
    layer.weight.quant_state.absmax[31] = layer.weight.quant_state.absmax[27]
    wrong = _reason_against_result(matrix, layer, "bnb-nf4")
    assert wrong.code == "bitsandbytes-wrong"
    assert [wrong.values[name] for name in ("weight", "rows", "inputs", "device")] == ["weight", 32, 64, "cpu"]


def test_blocks_that_cross_rows_are_right_or_refused() -> None:
    """GIVEN 96 inputs, which some kernels mix up, THEN the outputs are right or there is a reason."""
    linear = nn.Linear(96, 32, bias=False).requires_grad_(requires_grad=False)
    linear.weight.copy_(heavy(32, 96))
    result, effect = quantization(linear, "bnb-nf4"), Effect()
    if isinstance(result, str):
        assert result.code == "bitsandbytes-wrong"
        return
    with result.applied(MASK, effect):
        linear(states(2, 3, 96))
    assert 0 < (effect.relative_change or 0) < 0.2


@pytest.mark.skipif(torch.cuda.is_available(), reason="kernels of the CPU")
def test_shapes_that_cannot_work_are_refused() -> None:
    """GIVEN an odd number of inputs, or weights beyond float16, THEN the reason says so, and of which weight."""
    odd, large = nn.Sequential(nn.Linear(65, 32)), nn.Linear(64, 32)
    large.weight.data[3, 3] = 1e5
    assert quantization(odd, "bnb-nf4") == reason("bitsandbytes-odd-inputs", inputs=65, weight="0.weight")
    assert quantization(large, "bnb-int8") == reason("bitsandbytes-overflow", largest=1e5, weight="weight")
    double = quantization(nn.Linear(64, 32).double(), "bnb-nf4")
    assert double == reason("bitsandbytes-dtype", dtype="torch.float64", weight="weight")


@pytest.mark.parametrize("method", BITSANDBYTES)
def test_what_has_no_linear_layer_is_refused(method: str) -> None:
    """GIVEN an embedding, a norm, or a layer of bitsandbytes THEN each has its own reason."""
    linear = nn.Linear(64, 32)
    assert quantization(nn.Embedding(4, 64), method) == "no-linear-layer"
    assert quantization(nn.LayerNorm(64), method) == "no-weight-matrix"
    assert quantization(_layer(matrices_of(linear)[0], method), method).code == "weights-quantized"


def test_notes_name_what_stays_and_what_is_shared() -> None:
    """GIVEN an embedding beside a head that is tied to another one THEN both are noted."""
    block = nn.ModuleDict({"words": nn.Embedding(32, 64), "head": nn.Linear(64, 32, bias=False)})
    model = nn.ModuleDict({"embed": nn.Embedding(32, 64), "block": block})
    block["head"].weight = model["embed"].weight
    assert possible(block, "bnb-int8", shared=shared_weights(model)).notes == (
        reason("weight-shared", weight="head.weight", modules=["embed"]),
        reason("only-linear-exchanged", weights=1, first="words.weight"),
    )


def test_without_bitsandbytes_real_methods_have_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN that bitsandbytes cannot be imported THEN simulated methods work, and real ones say why not."""
    monkeypatch.setitem(sys.modules, "bitsandbytes", None)
    assert quantization(nn.Linear(64, 32), "bnb-int8").code == "bitsandbytes-missing"
    assert possible(nn.Linear(64, 32), "nf4")


@pytest.mark.parametrize("method", BITSANDBYTES)
def test_released_layers_are_built_again(method: str) -> None:
    """GIVEN layers that were let go THEN the next context builds equal ones."""
    linear = seeded(nn.Linear(64, 32))
    result, outputs = possible(linear, method), []
    for _ in range(2):
        with result.applied(MASK, Effect()):
            outputs.append(linear(states(2, 3, 64)))
        result.release()
    assert torch.equal(*outputs)
