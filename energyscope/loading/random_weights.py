"""Models of the true shape with random weights, built on the device itself, in any precision.

Nothing passes through host memory, so that the shape of a 70 B model can be measured on a machine whose
memory is smaller than the GPU's. Quantized models are filled one module at a time: the unquantized model
never exists as a whole. The same holds for a model over several devices: each module is drawn on the main
device, so that the numbers do not depend on where it goes, and moves on once it is rounded.

All precisions of a seed are roundings of the same numbers. PyTorch does not draw the same in every data type
(the end of a tensor whose size is no multiple of 16 differs on a CPU), so a module's weights are drawn in
float32, in the same order whatever the precision, and then rounded or quantized.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from energyscope.loading.linears import is_quantized_in
from energyscope.loading.options import BY_TORCH, QUANTIZED, LoadOptions

if TYPE_CHECKING:
    import torch
    from torch import nn


Home = Callable[[str], "torch.device"]


def build(
    make: Callable[[], nn.Module], options: LoadOptions, keep: list[str], home: Home | None = None
) -> nn.Module:
    """Build a model with seeded random weights on a device, or each module on that which ``home`` gives its path.

    ``make`` builds the (transformers) model in whatever device context it is called in; ``keep`` names the
    modules that stay unquantized. The same seed gives the same float32 numbers in every precision, over however
    many devices. The global random state is left as it was.
    """
    import torch

    device = options.device
    with torch.random.fork_rng([device] if device.type == "cuda" else []), torch.no_grad():
        torch.manual_seed(options.seed)
        with torch.device("meta") if options.precision in QUANTIZED or home is not None else device:
            model: Any = make()
        torch.manual_seed(options.seed)  # making it has drawn numbers, more or fewer
        _Filling(model, options, keep, home or (lambda _: device)).fill(model, "")
        model.tie_weights()
    result: nn.Module = model
    return result


class _Filling:
    """Draws a model's weights, module by module, children first as transformers does it.

    A module stays in float32 until its parent has been initialised too, which may draw its weights again
    (GPT-2 scales those before a residual that way); then it is rounded, and quantized where that is asked for.
    So what exists in float32 beside the model is a few modules, never a second copy of it.
    """

    def __init__(self, model: Any, options: LoadOptions, keep: list[str], home: Home) -> None:
        self.model = model
        self.options = options
        self.keep = keep
        self.home = home
        # weak: a module that a quantized one replaced must be freed, or its weights stay until all are built
        self.dtypes: WeakKeyDictionary[nn.Module, dict[str, torch.dtype]] = WeakKeyDictionary()
        self.tied = _tied(model)

    def fill(self, module: nn.Module, path: str) -> None:
        children = [(f"{path}.{name}".lstrip("."), child) for name, child in module.named_children()]
        for below, child in children:
            if child not in self.dtypes:
                self.fill(child, below)
        self._open(module, path)
        self.model._init_weights(module)  # noqa: SLF001  (every transformers model defines it: weights and buffers)
        for below, child in children:
            self._finish(child, below)
        if module is self.model:
            self._finish(module, "")

    def _open(self, module: nn.Module, path: str) -> None:
        """Give a module float32 weights of its own: as they are, or empty where nothing is stored or it is tied.

        A tied weight is stored once, by its first owner; the others are tied to it again in the end.
        """
        import torch
        from torch import nn

        self.dtypes[module] = {}
        for name, parameter in list(module.named_parameters(recurse=False)):
            if not parameter.is_floating_point():
                continue
            self.dtypes[module][name] = parameter.dtype
            if parameter.is_meta or f"{path}.{name}".lstrip(".") in self.tied:
                data = torch.empty_like(parameter, dtype=torch.float32, device=self.options.device)
            else:
                data = parameter.data.float()
            setattr(module, name, nn.Parameter(data, requires_grad=False))
        for name, buffer in list(module.named_buffers(recurse=False)):
            if buffer.is_meta:
                setattr(module, name, torch.empty_like(buffer, device=self.options.device))

    def _finish(self, module: nn.Module, path: str) -> None:
        """Round a module's own weights to the data type that it was made in, move it, and quantize it if asked."""
        from torch import nn

        dtypes, device = self.dtypes[module], self.home(path)
        for name in list(dtypes):
            rounded = module.get_parameter(name).data.to(dtypes.pop(name))
            setattr(module, name, nn.Parameter(rounded.to(device), requires_grad=False))
        for name, buffer in list(module.named_buffers(recurse=False)):
            setattr(module, name, buffer.to(device))
        options = self.options
        if is_quantized_in(options.precision, path, module, self.keep):
            self.model.set_submodule(path, self._quantized(module, path))

    def _quantized(self, module: nn.Module, path: str) -> nn.Module:
        options = self.options
        if options.precision in BY_TORCH:
            from energyscope.loading.torch_kernels import torch_linear

            return torch_linear(module, options.precision, path)
        return quantized_linear(module, options.precision, options.compute, double_quant=options.double_quant)


def float32_bytes(model: nn.Module) -> int:
    """Return the most bytes that filling a model may hold in float32 at once, in modules with a parent to come."""
    own = sum(4 * weight.numel() for child in model.children() for weight in child.parameters(recurse=False))
    return own + max((float32_bytes(child) for child in model.children()), default=0)


def _tied(model: nn.Module) -> set[str]:
    """Return the paths of the parameters that an earlier path names already."""
    seen: set[int] = set()
    tied: set[str] = set()
    for path, parameter in model.named_parameters(remove_duplicate=False):
        if id(parameter) in seen:
            tied.add(path)
        seen.add(id(parameter))
    return tied


def quantized_linear(module: Any, precision: str, dtype: torch.dtype, *, double_quant: bool = False) -> nn.Module:
    """Return the bitsandbytes layer for a Linear or Conv1D, quantized on the device where its weight is.

    A Conv1D's weight is (in, out) and is transposed; ``dtype`` is what a 4-bit layer computes in, and
    ``double_quant`` quantizes its scales too.
    """
    import bitsandbytes as bnb
    import torch
    from torch import nn

    weight = (module.weight.data if isinstance(module, nn.Linear) else module.weight.data.T).contiguous()
    rows, columns = weight.shape
    has_bias = module.bias is not None
    if precision == "int8":
        with torch.device("meta"):
            layer = bnb.nn.Linear8bitLt(columns, rows, has_bias, has_fp16_weights=False, threshold=6.0)
        values, scales, _ = bnb.functional.int8_vectorwise_quant(weight.to(torch.float16))
        layer.weight = bnb.nn.Int8Params(
            values, requires_grad=False, has_fp16_weights=False, CB=values, SCB=scales
        )
    else:
        settings = {"compress_statistics": double_quant, "quant_type": precision}
        with torch.device("meta"):
            layer = bnb.nn.Linear4bit(columns, rows, has_bias, dtype, **settings)
        packed = bnb.nn.Params4bit(weight, requires_grad=False, module=layer, **settings)
        layer.weight = packed.to(weight.device)
    layer.bias = module.bias
    quantized: nn.Module = layer.requires_grad_(False)
    spare_small_layers(quantized)
    return quantized


def spare_small_layers(model: nn.Module) -> None:
    """Keep small 4-bit layers from bitsandbytes' packed kernel for CPUs with AVX512-BF16.

    It asserts that outputs come in blocks of 32, and its scales assume whole blocks of 64 inputs.
    """
    for module in model.modules():
        if getattr(module, "support_avx512bf16_for_cpu", False):
            layer: Any = module
            layer.support_avx512bf16_for_cpu = layer.out_features % 32 == 0 and layer.in_features % 64 == 0
