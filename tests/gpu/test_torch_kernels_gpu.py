"""PyTorch's own kernels on a GPU: right, compiled once, in a graph, faster where they should be. Five minutes."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import energyscope  # noqa: E402
from energyscope.loading import load_model, torch_kernels, unsupported  # noqa: E402
from energyscope.loading.torch_kernels import torch_linear  # noqa: E402
from energyscope.replay.graphs import GraphRound  # noqa: E402
from energyscope.replay.replayer import Replayer  # noqa: E402

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not torch.cuda.is_available() or torch.cuda.get_device_capability() < (8, 9), reason="needs a GPU with FP8"
    ),
]
triton_kernels = pytest.importorskip("energyscope.loading.triton_kernels")  # Triton comes with builds for CUDA
DEVICE = torch.device("cuda:0")
ROWS = (1, 2, 17, 40, 512)
ERROR = {"fp8": 0.05, "w8a8": 0.03, "w8a16": 0.012, "int4": 0.12}


def linear(outputs: int = 14336, inputs: int = 4096, *, bias: bool = False) -> nn.Linear:
    torch.manual_seed(0)
    with DEVICE:
        module = nn.Linear(inputs, outputs, bias=bias, dtype=torch.bfloat16).requires_grad_(requires_grad=False)
        nn.init.normal_(module.weight, std=0.05)
    return module


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("precision", ERROR)
def test_layers_compute_their_linear_at_any_number_of_rows(precision, bias):
    """GIVEN one row, a few or many THEN outputs are the linear's up to the rounding of weights and inputs."""
    assert unsupported(precision, DEVICE) is None
    module = linear(1024, 2048, bias=bias)
    layer = torch_linear(module, precision)
    for rows in ROWS:
        inputs = torch.randn(2, rows, 2048, device=DEVICE, dtype=torch.bfloat16)
        outputs, expected = layer(inputs).float(), module(inputs).float()
        assert float((outputs - expected).norm() / expected.norm()) < ERROR[precision]


@pytest.mark.parametrize("precision", ["w8a8", "w8a16"])
def test_int8_products_are_those_of_plain_arithmetic(precision):
    """GIVEN sizes that are no multiples of a tile THEN products are those of rounded weights and inputs."""
    for outputs, inputs in ((16, 16), (528, 4112), (14336, 1040)):
        module = linear(outputs, inputs, bias=True)
        layer = torch_linear(module, precision)
        restored = layer.restored(module.weight.float(), torch.bfloat16).double()
        for rows in (*ROWS, 100, 2000):
            values = torch.randn(rows, inputs, device=DEVICE, dtype=torch.bfloat16)
            expected = layer.rounded(values).double() @ restored.T + module.bias.double()
            assert float((layer(values).double() - expected).norm() / expected.norm()) < 0.005, (rows, outputs)


def test_nan_is_not_lost_in_int8():
    """GIVEN a row with NaN or infinity THEN its outputs are not finite either, and those of other rows are."""
    layer = torch_linear(linear(64, 64), "w8a8")
    inputs = torch.randn(4, 64, device=DEVICE, dtype=torch.bfloat16)
    inputs[1, 3], inputs[2, 5] = torch.nan, torch.inf
    assert layer(inputs).isfinite().all(dim=1).tolist() == [True, False, False, True]


@pytest.mark.parametrize("kind", [torch_kernels.FP8, torch_kernels.INT8])
def test_rounding_is_that_of_plain_arithmetic(kind):
    """GIVEN rows of any width, zeros among them THEN the kernel's values and scales are those of arithmetic."""
    for width in (16, 96, 768, 4096, 28672):
        sizes = torch.logspace(-4, 4, 33, device=DEVICE)[:, None]
        rows = (torch.randn(33, width, device=DEVICE) * sizes).to(torch.bfloat16)
        rows[7] = 0.0
        (values, scales), (expected, expected_scales) = (
            module.round_rows(rows, kind) for module in (triton_kernels, torch_kernels)
        )
        torch.testing.assert_close(scales, expected_scales)
        assert (values.float() != expected.float()).float().mean() < 0.01  # the last bit of a quotient


@pytest.mark.parametrize("precision", ["fp8", "w8a8", "w8a16"])
def test_a_model_can_be_profiled(tmp_path, precision):
    """GIVEN a bundled model THEN its FLOPs are counted and its components replayed, eagerly and in a graph."""
    for execution in ("eager", "cuda-graph"):
        run = energyscope.run(
            "tiny-gpt2", precision=precision, execution=execution, layers="kinds", passes=1,
            component_budget_s=0.5, stages=("profile",), root=tmp_path, name=execution,
        )  # fmt: skip
        assert run.energy["energy_mj"].notna().all()


@pytest.mark.parametrize(("precision", "rows"), [("int4", 1), ("w8a16", 1), ("fp8", 2048), ("w8a8", 2048)])
def test_a_narrow_product_is_faster_where_it_should_be(precision, rows):
    """GIVEN narrow weights for one row, or 8 bits for many THEN in a CUDA graph a call is faster than BF16's."""
    module = linear()
    inputs = torch.randn(rows, 4096, device=DEVICE, dtype=torch.bfloat16)
    seconds = {}
    for name, layer in (("bf16", module), (precision, torch_linear(module, precision))):
        replayer = Replayer(DEVICE, "cuda-graph")
        seconds[name] = min(replayer.pace([lambda layer=layer: layer(inputs)], 0.05) for _ in range(3))
    assert seconds[precision] < 0.9 * seconds["bf16"]


@pytest.mark.parametrize("precision", ERROR)
def test_a_model_in_a_graph_answers_as_eagerly(precision):
    """GIVEN a random Llama WHEN its pass is captured THEN the graph gives what the eager pass gave."""
    model = load_model("llama-3.2-1b", precision=precision, weights="random", device="cuda").model
    ids = torch.randint(0, 1000, (1, 64), device=DEVICE)
    outputs = []

    @torch.no_grad()
    def call():
        outputs.append(model(input_ids=ids, use_cache=False, attention_mask=None).logits)

    call()
    graph = GraphRound([call], DEVICE, unrolled=False)
    graph.launch()
    torch.cuda.synchronize()
    assert torch.allclose(outputs[-1].float(), outputs[0].float(), atol=0.05, rtol=0.05)
