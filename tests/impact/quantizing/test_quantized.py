from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from energyscope.components import component_tree
from energyscope.errors import UsageError
from energyscope.impact.methods import SIMULATED
from energyscope.impact.outputs import Effect
from energyscope.impact.quantizing import Quantization, quantization
from energyscope.impact.quantizing.matrices import shared_weights
from energyscope.impact.quantizing.quantized import input_dim
from energyscope.impact.quantizing.quantizers import quantize_activation, quantize_weight
from energyscope.loading import load_model
from energyscope.reasons import reason

MASK = torch.tensor([[1, 1, 1], [1, 0, 0]]).bool()
BUNDLED = ("tiny-gpt2", "tiny-llama", "tiny-distilbert")


def states(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def possible(module: nn.Module, method: str, **settings: Any) -> Quantization:
    result = quantization(module, method, **settings)
    assert isinstance(result, Quantization), result
    return result


def seeded(module: nn.Module) -> nn.Module:
    for place, parameter in enumerate(module.parameters()):
        nn.init.normal_(parameter, generator=torch.Generator().manual_seed(place))
    return module.eval().requires_grad_(requires_grad=False)


class Bundled:
    """A bundled model with an input, and what it is before anything is done to it."""

    def __init__(self, name: str, precision: str) -> None:
        loaded = load_model(name, device="cpu", precision=precision)
        self.model = loaded.model
        self.parts = [part for part in component_tree(self.model, loaded.adapter, "fine") if part.name != "model"]
        self.ids = torch.randint(5, 150, (2, 9), generator=torch.Generator().manual_seed(0))
        self.mask = torch.ones_like(self.ids)
        self.mask[1, 6:] = 0
        self.settings = {} if loaded.adapter.task == "classification" else {"use_cache": False}
        self.parameters = {
            name: (parameter, parameter.clone()) for name, parameter in self.model.named_parameters()
        }
        self.before = self.run()

    def run(self) -> Tensor:
        with torch.no_grad():
            logits: Tensor = self.model(input_ids=self.ids, attention_mask=self.mask, **self.settings).logits
        return logits

    def changed(self, alteration: Quantization) -> tuple[float, Tensor]:
        effect = Effect()
        with alteration.applied(self.mask.bool(), effect):
            logits = self.run()
        assert effect.why_invalid() is None
        return float(effect.relative_change or 0), logits

    def check_restored(self) -> None:
        assert torch.equal(self.run(), self.before)
        for name, parameter in self.model.named_parameters():
            held, values = self.parameters[name]
            assert parameter is held
            assert torch.equal(parameter, values)
        assert not any("forward" in vars(module) for module in self.model.modules())


@pytest.fixture(scope="module", params=[(name, "fp32") for name in BUNDLED] + [("tiny-gpt2", "bf16")])
def bundled(request: pytest.FixtureRequest) -> Iterator[Bundled]:
    return Bundled(*request.param)


def test_every_component_of_the_bundled_models(bundled: Bundled) -> None:
    """GIVEN each component THEN all methods change it, fewer bits more, or all refuse; it comes back as it was."""
    for part in bundled.parts:
        changes: dict[str, float] = {}
        for method in SIMULATED:
            result = quantization(part.module, method)
            if isinstance(result, str):
                assert result == "no-weight-matrix"
                continue
            changes[method], logits = bundled.changed(result)
            assert logits.isfinite().all()
            assert not torch.equal(logits, bundled.before)
        has_matrix = any(parameter.dim() > 1 for parameter in part.module.parameters())
        assert len(changes) == (len(SIMULATED) if has_matrix else 0), part.name
        if changes:
            assert changes["int8"] < changes["fp8"] < min(changes["nf4"], changes["int4"]), part.name
            assert changes["int8-wa"] >= changes["int8"], part.name
    bundled.check_restored()


@pytest.mark.parametrize("name", ["tiny-gpt2", "tiny-llama"])
def test_only_one_use_of_a_tied_weight_is_quantized(name: str) -> None:
    """GIVEN a tied head and embedding THEN each is quantized alone, which differs, and its note says so."""
    bundled = Bundled(name, "fp32")
    shared = shared_weights(bundled.model)
    embedding, head = bundled.model.get_input_embeddings(), bundled.model.get_output_embeddings()
    by_head, by_embedding = (possible(module, "int4", shared=shared) for module in (head, embedding))
    assert by_head.notes[0].code == "weight-shared"
    assert by_embedding.notes[0] == reason("weight-shared", weight="weight", modules=["lm_head"])
    assert not torch.equal(bundled.changed(by_head)[1], bundled.changed(by_embedding)[1])
    assert head.weight is embedding.weight
    bundled.check_restored()


@pytest.mark.parametrize("method", SIMULATED)
def test_the_output_is_that_of_the_quantized_weight(method: str) -> None:
    """GIVEN a Linear THEN its output is worked out by hand from both quantizers, and so is its change."""
    linear, inputs, effect = seeded(nn.Linear(8, 5)), states(2, 3, 8), Effect()
    weight = quantize_weight(linear.weight, method, input_dim=1)
    fed = quantize_activation(inputs, method) if method.endswith("-wa") else inputs
    expected = nn.functional.linear(fed, weight, linear.bias)
    with possible(linear, method).applied(MASK, effect):
        result = linear(inputs)
    assert torch.equal(result, expected)
    original = linear(inputs)
    change = (result - original)[MASK].norm() / original[MASK].norm()
    assert effect.relative_change == pytest.approx(float(change), rel=1e-5)


@pytest.mark.parametrize("method", SIMULATED)
def test_conv1d_and_linear_are_quantized_alike(method: str) -> None:
    """GIVEN the same weights as (in, out) and as (out, in) THEN the outputs are the same but for rounding."""
    linear, conv = seeded(nn.Linear(8, 5)), seeded(Conv1D(5, 8))
    conv.weight.copy_(linear.weight.T)
    conv.bias.copy_(linear.bias)
    inputs = states(2, 3, 8)
    with possible(linear, method).applied(MASK, Effect()), possible(conv, method).applied(MASK, Effect()):
        torch.testing.assert_close(conv(inputs), linear(inputs))


class InPlace(nn.Module):
    """Adds to its input in place, as some residual blocks do."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, hidden: Tensor) -> Tensor:
        hidden += self.linear(hidden)
        return hidden


def test_inputs_changed_in_place_are_changed_once() -> None:
    """GIVEN a module that writes into its input THEN the quantized run finds it as it was, and leaves its mark."""
    module, inputs, effect = seeded(InPlace()), states(2, 3, 4), Effect()
    linear = module.get_submodule("linear")
    expected = inputs + nn.functional.linear(
        inputs, quantize_weight(linear.get_parameter("weight"), "int4", input_dim=1), linear.get_parameter("bias")
    )
    copied = inputs.clone()
    with possible(module, "int4").applied(MASK, effect):
        result = module(copied)
    assert torch.equal(result, expected)
    assert torch.equal(copied, expected)
    assert 0 < (effect.relative_change or 0) < 0.3


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
@pytest.mark.parametrize("method", ["int8", "int8-wa"])
def test_errors_within_the_second_run_leave_nothing_behind(error: type[BaseException], method: str) -> None:
    """GIVEN an error or Ctrl-C while the weights are exchanged THEN the same objects are back."""
    module = seeded(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)))
    weight = module[0].weight

    def fail(*_args: Any) -> None:
        if module[0].weight is not weight:
            raise error

    handle = module[1].register_forward_pre_hook(fail)
    with pytest.raises(error), possible(module, method).applied(MASK, Effect()):
        module(states(2, 3, 4))
    handle.remove()
    assert module[0].weight is weight
    assert not any("forward" in vars(parameter) for parameter in module.modules())


def test_weights_are_quantized_once_for_all_calls_and_batches() -> None:
    """GIVEN several contexts and calls THEN the same quantized weights serve, until they are released."""
    linear = seeded(nn.Linear(4, 4))
    result, weights = possible(linear, "int8"), []
    original = linear.forward

    def forward(inputs: Tensor) -> Tensor:
        weights.append(linear.weight)
        output: Tensor = original(inputs)
        return output

    linear.forward = forward  # type: ignore[method-assign]
    for _ in range(2):
        with result.applied(MASK, Effect()):
            linear(states(2, 3, 4))
    result.release()
    with result.applied(MASK, Effect()):
        linear(states(2, 3, 4))
    originals, quantized = weights[::2], weights[1::2]
    assert all(weight is linear.weight for weight in originals)
    assert quantized[0] is quantized[1]
    assert quantized[2] is not quantized[0]
    assert torch.equal(quantized[2], quantized[0])


def test_a_layer_that_is_called_twice_counts_twice() -> None:
    """GIVEN a shared layer THEN each call is compared on what the earlier one made of the input."""
    module, effect = seeded(nn.Linear(4, 4)), Effect()
    with possible(module, "int8").applied(MASK, effect):
        module(module(states(2, 3, 4)))
    assert effect.calls == 2


def test_a_module_that_no_pass_calls_is_invalid() -> None:
    """GIVEN no call THEN the effect says so, and is not 0."""
    effect = Effect()
    with possible(nn.Linear(4, 4), "int8").applied(MASK, effect):
        pass
    assert effect.relative_change is None
    assert effect.why_invalid() == "not-called"


def test_weights_that_are_already_rounded_prove_nothing() -> None:
    """GIVEN weights on the grid THEN the output is unchanged to the bit, and the effect invalid."""
    linear, effect = nn.Linear(4, 3), Effect()
    linear.weight.data = torch.tensor([[127.0, 1.0, -5.0, 0.0]]).repeat(3, 1)
    with possible(linear, "int8").applied(MASK, effect), torch.no_grad():
        linear(states(2, 3, 4))
    assert effect.why_invalid() == "output-unchanged"


def test_a_change_below_the_resolution_of_bf16_is_no_rounding() -> None:
    """GIVEN BF16 and a change of less than its resolution THEN it counts: the weights made it."""
    linear, effect = nn.Linear(64, 64, bias=False).bfloat16(), Effect()
    weight = states(64, 64)
    linear.weight.data = (weight.sign() * (0.5 + weight.abs().clamp(max=3) / 6)).bfloat16()  # fills INT8's range
    with possible(linear, "int8").applied(MASK, effect), torch.no_grad():
        linear(states(2, 3, 64).bfloat16())
    assert 0 < (effect.relative_change or 0) < torch.finfo(torch.bfloat16).eps
    assert effect.why_invalid() is None


def test_a_cache_is_not_filled_twice() -> None:
    """GIVEN a call with a cache THEN the component runs once, as it is, and the effect says what to do."""

    class Caching(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def forward(self, hidden: Tensor, cache: Any) -> Tensor:
            cache.inputs.append(hidden)
            output: Tensor = self.linear(hidden)
            return output

    module, effect = seeded(Caching()), Effect()
    cache = SimpleNamespace(inputs=[], get_seq_length=lambda: 0)
    with possible(module, "int4").applied(MASK, effect):
        result = module(states(2, 3, 4), cache=cache)
    assert len(cache.inputs) == 1
    assert torch.equal(result, module.linear(states(2, 3, 4)))
    assert effect.why_invalid() == "called-with-cache"


def test_outputs_that_are_no_numbers_are_left_alone() -> None:
    """GIVEN a module with weights that puts out integers THEN the reason is kept."""

    class Choosing(nn.Linear):
        def forward(self, input: Tensor) -> Tensor:  # noqa: A002
            return super().forward(input).argmax(-1)

    module, effect = Choosing(4, 4), Effect()
    with possible(module, "int8").applied(MASK, effect), torch.no_grad():
        module(states(2, 3, 4))
    assert effect.why_invalid().code == "output-without-features"


def test_all_that_a_component_returns_counts() -> None:
    """GIVEN a first output that no weight reaches THEN the change of the second, deeper one is the effect."""

    class Passing(nn.Linear):
        def forward(self, input: Tensor) -> tuple[Tensor, dict[str, Tensor]]:  # type: ignore[override]  # noqa: A002
            return input, {"scores": super().forward(input)}

    module, effect = seeded(Passing(4, 4)), Effect()
    with possible(module, "int4").applied(MASK, effect):
        module(states(2, 3, 4))
    assert effect.why_invalid() is None
    assert effect.calls == 2


class Experts(nn.Module):
    """Fused experts as transformers has them, in either layout, all of them applied."""

    def __init__(self, *, transposed: bool) -> None:
        super().__init__()
        first, second = torch.zeros(2, 12, 4), torch.zeros(2, 4, 6)
        self.gate_up_proj = nn.Parameter(first.mT.contiguous() if transposed else first)
        self.down_proj = nn.Parameter(second.mT.contiguous() if transposed else second)
        self.gate_up_proj_bias = nn.Parameter(torch.zeros(2, 12))


@pytest.mark.parametrize("declared", [None, True, False])
@pytest.mark.parametrize("transposed", [True, False])
def test_the_layout_of_fused_experts_is_read_off(declared: bool | None, transposed: bool) -> None:
    """GIVEN what the class says, or else the shapes, THEN that is the dimension of the inputs."""
    experts = Experts(transposed=transposed)
    if declared is not None:
        experts.is_transposed = declared
    expected = 1 if (transposed if declared is None else declared) else 2
    assert input_dim(experts, experts.gate_up_proj) == expected
    assert input_dim(experts, experts.down_proj) == expected


def test_inputs_of_what_is_no_linear_layer_are_noted() -> None:
    """GIVEN an embedding, or fused experts beside a router, THEN a note says whose inputs are not quantized."""
    block = nn.ModuleDict({"gate": nn.Linear(4, 2), "experts": Experts(transposed=False)})
    assert possible(block, "int8").notes == ()
    experts = reason("inputs-not-quantized", weights=2, first="experts.gate_up_proj")
    assert possible(block, "int8-wa").notes == (experts,)
    assert possible(nn.Embedding(4, 2), "fp8-wa").notes[0].code == experts.code


def test_a_convolution_has_one_scale_for_each_output() -> None:
    """GIVEN a convolution THEN an output channel's weights share a scale, over inputs and positions."""
    conv, effect = seeded(nn.Conv1d(3, 5, 2)), Effect()
    rounded = quantize_weight(conv.get_parameter("weight").flatten(1), "int8", input_dim=1).view(5, 3, 2)
    inputs = states(2, 3, 9)
    expected = nn.functional.conv1d(inputs, rounded, conv.get_parameter("bias"))
    with possible(conv, "int8").applied(MASK, effect):
        assert torch.equal(conv(inputs), expected)


def test_a_method_that_is_none_is_refused() -> None:
    """GIVEN a removal, or nonsense, THEN the error names the quantizations."""
    for method in ("zero", "int3"):
        with pytest.raises(UsageError, match="int8-wa"):
            quantization(nn.Linear(2, 2), method)
