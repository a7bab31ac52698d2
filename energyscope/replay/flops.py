"""Work of every component in a forward pass: floating-point operations of matrices, and bytes that must move.

The two numbers of the roofline model (Williams, Waterman and Patterson, "Roofline", CACM 52(4), 2009): their
ratio is the arithmetic intensity. Both are counted from the shapes in one real forward pass.

FLOPs are those of matrix products and attention only; a multiply-add counts as 2. A linear of N outputs and K
inputs on M rows has 2 M N K. Norms, softmax, activations, rotations and additions count nothing. Attention has

- *nominal* FLOPs, 2 B H L S (D_k + D_v) for L queries and S keys: the full square, also where it is causal, as
  `torch.utils.flop_counter` has it;
- *executed* FLOPs, 2 B H P (D_k + D_v), where P is the number of scores that the kernel computes. A fused kernel
  that was called with ``is_causal`` computes those that the mask leaves (`causal_scores`): L (L + 1) / 2 of a
  square. Products of an eager attention or of PyTorch's math backend, and kernels that are given a mask as a
  tensor, compute all L S.

Kernels skip whole tiles, T wide (up to 128 in PyTorch's for GPUs), and compute those on the diagonal in full: up
to (L + T) / (L + 1) times P, which is 3 % more at 4,096 tokens, 25 % at 512, and all of the square up to T tokens.
So the executed FLOPs of an attention core are a lower limit; those of its block's projections are exact.

Bytes are the fewest that a component must move as a unit: each distinct input tensor, each of its weights and
each tensor that it returns, once and in the stored data type. Tensors between its children do not count. Of an
embedding, the rows that are looked up count; of fused experts, those that a token was sent to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from energyscope.components import Component, ComponentTree
from energyscope.functions import FunctionCall, routed
from energyscope.kv_cache import cache_storages, caches_in, in_cache, kept_by
from energyscope.loading.sizes import tensor_bytes
from energyscope.loading.torch_kernels import QuantizedLinear
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
_SKIPPING = frozenset(_ATTENTION) - {"_scaled_dot_product_fused_attention_overrideable"}  # its kernel is anyone's
_LOWER_RIGHT = frozenset({"_scaled_dot_product_flash_attention"})  # as FlashAttention since 2.1


@dataclass(frozen=True)
class Work:
    """What one component does in a forward pass of the model, all of its calls together, children included.

    Nominal ``flops`` of matrix work, ``bytes`` that must move, and those of the FLOPs that the kernels executed
    (``executed_flops``); None where unknown, with the ``reason``.
    """

    flops: float | None
    bytes: float | None
    reason: Reason | None = None
    executed_flops: float | None = None


@torch.no_grad()
def count_work(tree: ComponentTree, inputs: Mapping[str, Any]) -> dict[str, Work]:
    """Run the model once, on its own device, and return every component's work, by name.

    ``inputs`` are the model's keyword arguments. A KV cache among them is filled, as by any forward pass: after a
    decode step, the caller restores it.
    """
    model = tree.root.module
    counter = _Counter(tree)
    with counter.watching():
        model(**forward_inputs(model, inputs))
    return {component.name: counter.work(component) for component in tree}


@dataclass(frozen=True)
class _Counts:
    """What had been counted when a call began: FLOPs, those that were skipped, and operations of unknown ones."""

    flops: float
    skipped: float
    unknown: int
    unclear: int


class _Counter:
    """Counts while the model runs: hooks read the counts before and after each component's call."""

    def __init__(self, tree: ComponentTree) -> None:
        self.tree = tree
        self.flops: dict[str, float] = {}
        self.skipped: dict[str, float] = {}
        self.bytes: dict[str, float] = {}
        self.unknown: dict[str, Reason] = {}
        self.unclear: dict[str, Reason] = {}
        self._flop_mode = FlopCounterMode(display=False, custom_mapping=formulas())
        self._operations = _Operations(set(self._flop_mode.flop_registry))
        self._extra = 0.0
        self._shares: dict[int, float] = {}  # of a weight, by its address, where not all of it is read

    @contextmanager
    def watching(self) -> Iterator[None]:
        with ExitStack() as stack:
            for module in self.tree.root.module.modules():
                self._watch_layer(stack, module)
            for component in self.tree:
                self._watch(stack, component.module, partial(self._add, component))
            stack.enter_context(routed(component.module for component in self.tree))
            stack.enter_context(self._flop_mode)
            stack.enter_context(self._operations)
            yield

    def work(self, component: Component) -> Work:
        name = component.name
        if name not in self.bytes:
            return Work(None, None, reason("not-called"))
        if name in self.unknown:
            return Work(None, self.bytes[name], self.unknown[name])
        if name in self.unclear:
            return Work(self.flops[name], self.bytes[name], self.unclear[name])
        return Work(self.flops[name], self.bytes[name], executed_flops=self.flops[name] - self.skipped[name])

    def _watch(self, stack: ExitStack, module: nn.Module, after: Callable[[_Counts, Any, Any], None]) -> None:
        begun: list[_Counts] = []  # of calls inside each other: a module may call itself

        def begin(*_: Any) -> None:
            seen = self._operations
            begun.append(_Counts(self._total(), seen.skipped, len(seen.unknown), len(seen.unclear)))

        def end(_module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
            after(begun.pop(), (args, kwargs), output)

        stack.callback(module.register_forward_pre_hook(begin).remove)
        stack.callback(module.register_forward_hook(end, with_kwargs=True).remove)

    def _watch_layer(self, stack: ExitStack, module: nn.Module) -> None:
        """Watch layers whose operations do not show all of their work. Its hooks come before the components'."""
        if _is_quantized(module):
            self._watch(stack, module, partial(self._count_by_shape, module))
        elif _reads_rows(module):
            self._watch(stack, module, partial(self._count_rows, module))

    def _count_by_shape(
        self, layer: nn.Linear | QuantizedLinear, begin: _Counts, inputs: Any, _output: Any
    ) -> None:
        """Count a quantized layer by its shape: the counter does not know its kernels, in part or all."""
        elements = next(tensors_in(inputs)).numel()  # rows times inner dimension
        self._extra += 2.0 * elements * layer.out_features - (self._total() - begin.flops)
        del self._operations.unknown[begin.unknown :]

    def _count_rows(self, layer: nn.Module, _begin: _Counts, inputs: Any, _output: Any) -> None:
        ids = next((tensor for tensor in tensors_in(inputs) if tensor.dtype in (torch.int64, torch.int32)), None)
        if ids is None:  # a router, which reads all of its weight
            return
        for weight in layer.parameters(recurse=False):
            self._shares[weight.data_ptr()] = min(1.0, len(set(ids.flatten().tolist())) / weight.shape[0])

    def _add(self, component: Component, begin: _Counts, inputs: Any, output: Any) -> None:
        name, seen = component.name, self._operations
        self.flops[name] = self.flops.get(name, 0.0) + self._total() - begin.flops
        self.skipped[name] = self.skipped.get(name, 0.0) + seen.skipped - begin.skipped
        self.bytes[name] = self.bytes.get(name, 0.0) + self._moved(component.module, inputs, output)
        if unknown := seen.unknown[begin.unknown :]:
            self.unknown[name] = reason("operation-unknown", operation=unknown[0])
        if unclear := seen.unclear[begin.unclear :]:
            self.unclear[name] = reason("causal-kernel-unknown", operation=unclear[0])

    def _total(self) -> float:
        return self._flop_mode.get_total_flops() + self._extra

    def _moved(self, module: nn.Module, inputs: Any, output: Any) -> float:
        returned = list(_passed(output, module))
        storages = cache_storages(inputs)
        if (
            isinstance(module, FunctionCall)
            and returned
            and all(in_cache(tensor, storages) for tensor in returned)
        ):
            # an update that returns the cache's own memory writes the new tokens only
            return 2.0 * sum(tensor.nbytes for tensor in tensors_in(inputs))  # read, and written elsewhere
        return sum(distinct_bytes([*_passed(inputs, module), *returned]).values()) + self._weights(module)

    def _weights(self, module: nn.Module) -> float:
        """Return the bytes of a module's weights that are read, shared ones once, and buffers that were used."""
        moved: dict[int, float] = {}
        for layer in module.modules():
            for weight in layer.parameters(recurse=False):
                share = self._shares.get(weight.data_ptr(), 1.0) if _reads_rows(layer) else 1.0
                address = id(weight) if weight.is_meta else weight.data_ptr()  # on the host it has no address
                moved[address] = max(share * tensor_bytes(weight), moved.get(address, 0.0))
        used = {
            buffer.data_ptr(): buffer.nbytes
            for buffer in module.buffers()
            if buffer.untyped_storage().data_ptr() in self._operations.storages
        }
        return sum({**moved, **used}.values())


class _Operations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records the storages that operations read, and the operations whose matrix work is unknown.

    Some buffers are never read: GPT-2's causal mask has megabytes that fused attention does not use. ``skipped``
    are the FLOPs that causal kernels did not execute, ``unclear`` causal kernels of which that is unknown.
    """

    def __init__(self, known: set[Any]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.known = known
        self.storages: set[int] = set()
        self.unknown: list[str] = []
        self.unclear: list[str] = []
        self.skipped = 0.0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.storages.update(tensor.untyped_storage().data_ptr() for tensor in tensors_in((args, kwargs)))
        if func.namespace not in _STANDARD and func.overloadpacket not in self.known:
            self.unknown.append(func.name())
        if "attention" in func.name() and _is_causal(given := _named(func, args, kwargs or {})):
            self._skip(func, given)
        return func(*args, **(kwargs or {}))

    def _skip(self, func: Any, given: Mapping[str, Any]) -> None:
        name = func.overloadpacket.__name__
        if name not in _SKIPPING:
            self.unclear.append(func.name())
            return
        query, key, value = (given[tensor].shape for tensor in ("query", "key", "value"))
        scores = query[-2] * key[-2]
        hidden = scores - causal_scores(query[-2], key[-2], lower_right=name in _LOWER_RIGHT)
        self.skipped += _attention_flops(query, key, value) * hidden / scores


def _named(func: Any, args: Any, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return an operation's arguments by name."""
    names = (argument.name for argument in func._schema.arguments)  # noqa: SLF001  where their names are
    return {**dict(zip(names, args, strict=False)), **kwargs}


def _is_causal(given: Mapping[str, Any]) -> bool:
    return bool(given.get("is_causal") or given.get("custom_mask_type"))


def causal_scores(queries: int, keys: int, *, lower_right: bool = False) -> int:
    """Return how many of ``queries`` x ``keys`` scores a causal mask leaves.

    Query i (from 0) sees the first i + 1 + offset keys: L (L + 1) / 2 scores of a square. The offset is 0, as
    `scaled_dot_product_attention` defines ``is_causal``, or with ``lower_right`` keys - queries: the queries are
    the last tokens, and the keys before them are in a cache.
    """

    def first(rows: int) -> int:  # the scores of rows that see 1, 2, ... keys
        rising = max(0, min(rows, keys))
        return rising * (rising + 1) // 2 + max(0, rows - keys) * keys

    offset = keys - queries if lower_right else 0
    return first(queries + offset) - first(offset)


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
    """Yield the tensors in a module's inputs or output; of a cache, those of the module's own layers."""
    yield from tensors_in(value)
    for cache in caches_in(value):
        own = {getattr(part, "layer_idx", None) for part in module.modules()}
        if isinstance(module, FunctionCall):
            own |= {argument for argument in value[0] if isinstance(argument, int)}  # the layer's index
        for index, layer in enumerate(cache.layers):
            if index in own:
                yield from kept_by(layer)


def _reads_rows(module: nn.Module) -> bool:
    """Tell whether a layer may read only some rows of its weights."""
    return isinstance(module, nn.Embedding) or hasattr(module, "num_experts")


def _is_quantized(module: nn.Module) -> TypeGuard[nn.Linear | QuantizedLinear]:
    of_bitsandbytes = type(module).__module__.startswith("bitsandbytes.") and isinstance(module, nn.Linear)
    return of_bitsandbytes or isinstance(module, QuantizedLinear)
