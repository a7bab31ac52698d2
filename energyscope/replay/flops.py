"""Work of every component in a forward pass: floating-point operations of matrices, and bytes that must move.

The two numbers of the roofline model (Williams, Waterman and Patterson, "Roofline", CACM 52(4), 2009): their
ratio is the arithmetic intensity. Both are counted from the shapes in one real forward pass.

FLOPs are those of matrix products and attention only; a multiply-add counts as 2. A linear of N outputs and K
inputs on M rows has 2 M N K, attention 2 B H L S (D_k + D_v), in full also where it is causal, as
`torch.utils.flop_counter` has it. Norms, softmax, activations, rotations and additions count nothing.

Bytes are the fewest that a component must move as a unit: each distinct tensor that it is given, each of its
weights and each tensor that it returns, once and in the stored data type. What passes between its children is
not counted. Of an embedding, the rows that are looked up; of fused experts, those that a token was sent to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from math import prod
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from energyscope.components import Component, ComponentTree
from energyscope.functions import FunctionCall, routed
from energyscope.kv_cache import caches_in, is_kept, kept_storages
from energyscope.loading.sizes import tensor_bytes
from energyscope.reasons import Reason, reason
from energyscope.replay.capture import forward_inputs
from energyscope.replay.tensors import tensors_in

Shape = tuple[int, ...]

_STANDARD = frozenset({"aten", "prim", "prims", "c10d"})  # whose matrix products are all in the counter's table
_ATTENTION = (
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_cudnn_attention",
    "_scaled_dot_product_fused_attention_overrideable",
)


@dataclass(frozen=True)
class Work:
    """What one component does in a forward pass of the model, all of its calls together, children included.

    ``flops`` of matrix work and ``bytes`` that must move; None where unknown, with the ``reason``.
    """

    flops: float | None
    bytes: float | None
    reason: Reason | None = None


@torch.no_grad()
def count_work(tree: ComponentTree, inputs: Mapping[str, Any]) -> dict[str, Work]:
    """Run the model once, on its own device, and return every component's work, by name.

    ``inputs`` are the model's keyword arguments. A KV cache among them is filled, as by any forward pass: whoever
    counts a decode step restores it afterwards.
    """
    model = tree.root.module
    counter = _Counter(tree)
    with counter.watching():
        model(**forward_inputs(model, inputs))
    return {component.name: counter.work(component) for component in tree}


@dataclass(frozen=True)
class _Mark:
    """What had been counted when a call began."""

    flops: float
    strange: int


class _Counter:
    """Counts while the model runs: hooks note what had been counted before and after each component's call."""

    def __init__(self, tree: ComponentTree) -> None:
        self.tree = tree
        self.flops: dict[str, float] = {}
        self.bytes: dict[str, float] = {}
        self.unknown: dict[str, Reason] = {}
        self._counted = FlopCounterMode(display=False, custom_mapping=formulas())
        self._seen = _Seen(set(self._counted.flop_registry))
        self._extra = 0.0
        self._shares: dict[int, float] = {}  # of a weight, by its address, where not all of it is read

    @contextmanager
    def watching(self) -> Iterator[None]:
        with ExitStack() as stack:
            for module in self.tree.root.module.modules():
                self._watch_layer(stack, module)
            for component in self.tree:
                self._watch(stack, component.module, lambda *seen, of=component: self._add(of, *seen))
            stack.enter_context(routed(component.module for component in self.tree))
            stack.enter_context(self._counted)
            stack.enter_context(self._seen)
            yield

    def work(self, component: Component) -> Work:
        name = component.name
        if name not in self.bytes:
            return Work(None, None, reason("not-called"))
        if name in self.unknown:
            return Work(None, self.bytes[name], self.unknown[name])
        return Work(self.flops[name], self.bytes[name])

    def _watch(self, stack: ExitStack, module: nn.Module, after: Callable[[_Mark, Any, Any], None]) -> None:
        marks: list[_Mark] = []  # a module may be running inside itself

        def begin(*_: Any) -> None:
            marks.append(_Mark(self._total(), len(self._seen.strange)))

        def end(_module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
            after(marks.pop(), (args, kwargs), output)

        stack.callback(module.register_forward_pre_hook(begin).remove)
        stack.callback(module.register_forward_hook(end, with_kwargs=True).remove)

    def _watch_layer(self, stack: ExitStack, module: nn.Module) -> None:
        """Look at what the operations of some layers do not tell. Before the components' hooks: they add it up."""
        if _is_quantized(module):
            self._watch(stack, module, lambda mark, given, _output: self._correct(module, mark, given))
        elif isinstance(module, nn.Embedding) or hasattr(module, "num_experts"):
            self._watch(stack, module, lambda _mark, given, _output: self._note_rows(module, given))

    def _correct(self, layer: nn.Linear, mark: _Mark, inputs: Any) -> None:
        """Count a quantized layer by its shape: its own kernels are unknown to the counter, in part or all."""
        elements = next(tensors_in(inputs)).numel()  # rows times inner dimension
        self._extra += 2.0 * elements * layer.out_features - (self._total() - mark.flops)
        del self._seen.strange[mark.strange :]

    def _note_rows(self, layer: nn.Module, inputs: Any) -> None:
        ids = next((tensor for tensor in tensors_in(inputs) if tensor.dtype in (torch.int64, torch.int32)), None)
        if ids is None:  # a router, which reads all of its weight
            return
        for weight in layer.parameters(recurse=False):
            self._shares[weight.data_ptr()] = min(1.0, len(set(ids.flatten().tolist())) / weight.shape[0])

    def _add(self, component: Component, mark: _Mark, inputs: Any, output: Any) -> None:
        name = component.name
        self.flops[name] = self.flops.get(name, 0.0) + self._total() - mark.flops
        self.bytes[name] = self.bytes.get(name, 0.0) + self._moved(component.module, inputs, output)
        if strange := self._seen.strange[mark.strange :]:
            self.unknown[name] = reason("operation-unknown", operation=strange[0])

    def _total(self) -> float:
        return self._counted.get_total_flops() + self._extra

    def _moved(self, module: nn.Module, inputs: Any, output: Any) -> float:
        returned = list(_passed(output, module))
        passed = [*_passed(inputs, module), *returned]
        if isinstance(module, FunctionCall) and _writes_a_slot(inputs, returned):
            passed = [tensor for tensor in tensors_in(inputs) for _ in range(2)]  # read, and written elsewhere
            return float(sum(tensor.nbytes for tensor in passed))
        return sum(distinct_bytes(passed).values()) + self._weights(module)

    def _weights(self, module: nn.Module) -> float:
        """Return the bytes of a module's weights that are read, shared ones once, and buffers that were used."""
        moved: dict[int, float] = {}
        for layer in module.modules():
            partly = isinstance(layer, nn.Embedding) or hasattr(layer, "num_experts")
            for weight in layer.parameters(recurse=False):
                share = self._shares.get(weight.data_ptr(), 1.0) if partly else 1.0
                own = share * tensor_bytes(weight)
                place = id(weight) if weight.is_meta else weight.data_ptr()  # what waits on the host is nowhere
                moved[place] = max(own, moved.get(place, 0.0))
        used = {
            buffer.data_ptr(): buffer.nbytes
            for buffer in module.buffers()
            if buffer.untyped_storage().data_ptr() in self._seen.storages
        }
        return sum({**moved, **used}.values())


class _Seen(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes the storages that operations read, and operations that nobody knows the matrix work of.

    A buffer may be there for another way of computing: GPT-2's causal mask, megabytes that its attention never
    reads.
    """

    def __init__(self, known: set[Any]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.known = known
        self.storages: set[int] = set()
        self.strange: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.storages.update(tensor.untyped_storage().data_ptr() for tensor in tensors_in((args, kwargs)))
        if func.namespace not in _STANDARD and func.overloadpacket not in self.known:
            self.strange.append(func.name())
        return func(*args, **(kwargs or {}))


def formulas() -> dict[Any, Callable[..., int]]:
    """Return the FLOPs of operations that PyTorch's counter lacks, in some version or in all."""
    aten = torch.ops.aten
    counts: dict[Any, Callable[..., int]] = {
        getattr(aten, name): _attention_flops for name in _ATTENTION if hasattr(aten, name)
    }
    grouped = [(aten, "_grouped_mm"), (torch.ops.transformers, "grouped_mm_fallback")]
    counts |= {getattr(space, name): _grouped_flops for space, name in grouped if hasattr(space, name)}
    if hasattr(aten, "_int_mm"):
        counts[aten._int_mm] = _product_flops  # noqa: SLF001  the operation's name
    return counts


def _attention_flops(query: Shape, key: Shape, value: Shape, *_: Any, **__: Any) -> int:
    """Count both products; the keys may have fewer heads than the queries: they are used several times."""
    return 2 * prod(query[:-1]) * key[-2] * (query[-1] + value[-1])


def _grouped_flops(a: Shape, b: Shape, *_: Any, **__: Any) -> int:
    """Count a product whose rows, columns or inner dimension is split over groups; 3-D ones are a batch."""
    groups = a[0] if len(a) == len(b) == 3 else 1
    return groups * 2 * a[-2] * a[-1] * b[-1]


def _product_flops(a: Shape, b: Shape, *_: Any, **__: Any) -> int:
    return 2 * a[0] * a[1] * b[1]


def distinct_bytes(tensors: list[Tensor]) -> dict[Any, int]:
    """Return the bytes of distinct tensors, by where they lie; what is only repeated (stride 0) counts once."""
    distinct: dict[Any, int] = {}
    for tensor in tensors:
        sizes = zip(tensor.shape, tensor.stride(), strict=True)
        elements = prod(size for size, stride in sizes if stride or not size)
        distinct[tensor.data_ptr(), elements, tensor.dtype] = elements * tensor.element_size()
    return distinct


def _passed(value: Any, module: nn.Module) -> Iterator[Tensor]:
    """Yield the tensors that a module is given or returns, of a KV cache those of its own layers."""
    yield from tensors_in(value)
    for cache in caches_in(value):
        own = {getattr(one, "layer_idx", None) for one in module.modules()}
        if isinstance(module, FunctionCall):
            own |= {one for one in value[0] if isinstance(one, int)}  # it is told which layer's
        for index, layer in enumerate(cache.layers):
            if index in own:
                yield from (one for one in (layer.keys, layer.values) if one is not None)


def _writes_a_slot(inputs: Any, returned: Sequence[Tensor]) -> bool:
    """Tell whether an update of a KV cache returned the cache's own memory: it wrote the new tokens there only."""
    storages = kept_storages(inputs)
    return bool(returned) and all(is_kept(tensor, storages) for tensor in returned)


def _is_quantized(module: nn.Module) -> TypeGuard[nn.Linear]:
    return type(module).__module__.startswith("bitsandbytes.") and isinstance(module, nn.Linear)
