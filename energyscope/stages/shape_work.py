"""FLOPs, bytes and calls of a shape that nobody ran, counted without weights and without computing anything.

The model's modules are on the meta device, where a forward pass only works out shapes. `count_work` asks three
things of tensors that such ones do not know; they are answered here as they are in a real pass without padding:
where a tensor lies (its storage stands for its address), which token ids an embedding looks up (those of the
inputs; of positions, all), and whether a mask hides anything (it does not).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from energyscope.adapters import Granularity
from energyscope.components import Component, ComponentTree, component_tree
from energyscope.errors import ModelError, UsageError
from energyscope.kv_cache import hold, new_cache
from energyscope.loading import LoadedModel
from energyscope.loading.options import NATIVE, QUANTIZED
from energyscope.loading.planning import heads
from energyscope.loading.sizes import planned_parameters
from energyscope.loading.skeleton import load_skeleton
from energyscope.replay.flops import Work, count_work
from energyscope.scaling.cells import Shape
from energyscope.workloads import profile_inputs
from energyscope.workloads.decoding import can_generate, checked_context

if TYPE_CHECKING:
    from transformers import Cache

META = torch.device("meta")
HOST = torch.device("cpu")
WHOLE = "model"


@dataclass(frozen=True)
class Asked:
    """The shape that is asked for: ``tokens`` that come in of a prefill, or that a decode step finds in its cache.

    ``cached`` says whether a prefill fills a KV cache, as that of a generation: its head sees the last token only.
    """

    phase: str
    batch_size: int
    tokens: int
    precision: str
    cached: bool = False


class Skeleton:
    """A model without weights of which the work of any shape can be asked."""

    def __init__(self, reference: str, precision: str) -> None:
        """Build the modules in the data type of what is not quantized.

        Raises:
            UsageError: there is no such model.
            ModelError: its files are out of reach, or no adapter serves it.

        """
        self.loaded: LoadedModel = load_skeleton(reference, HOST, tokenizer=False)
        self.precision = precision
        stored = "bf16" if precision in QUANTIZED else precision
        self.loaded.model.to(getattr(torch, NATIVE.get(stored, "float32")))
        self._savings = _quantized_savings(self.loaded, precision)

    def work(self, asked: Asked, granularity: Granularity = "fine") -> dict[str, Shape]:
        """Return the work of each kind, summed over the model, and of the whole (``model``), by name.

        A kind of which FLOPs or bytes are not known is left out.

        Raises:
            UsageError: the shape is beyond the model's positions, or the model generates no text.

        """
        inputs, known = self._inputs(asked)
        cached = asked.cached or asked.phase == "decode"
        tree = component_tree(self.loaded.model, self.loaded.adapter, granularity, kv_cache=cached)
        calls: dict[str, int] = defaultdict(int)
        handles = [
            one.module.register_forward_pre_hook(lambda *_, name=one.name: calls.update({name: calls[name] + 1}))
            for one in tree
        ]
        try:
            with Pretended(known):
                counted = count_work(tree, inputs)
        finally:
            for handle in handles:
                handle.remove()
        return self._by_kind(tree, counted, calls, asked)

    def _inputs(self, asked: Asked) -> tuple[dict[str, Any], dict[int, list[int]]]:
        """Return a pass's arguments on the meta device, and the values of those that embeddings look up."""
        decode = asked.phase == "decode"
        if (decode or asked.cached) and not can_generate(self.loaded):
            raise UsageError(f"{self.loaded.name} generates no text: ask for a prefill without a KV cache")
        length = checked_context(self.loaded, asked.tokens) + 1 if decode else asked.tokens
        real = profile_inputs(self.loaded, batch_size=asked.batch_size, sequence_length=length).inputs
        ids, mask = real["input_ids"], real["attention_mask"].to(META)
        if not decode and not asked.cached:
            inputs = {"input_ids": ids.to(META), "attention_mask": mask}
        elif not decode:
            inputs = self._step(ids, mask, self._cache())
        else:
            cache = self._cache()
            with torch.no_grad(), Pretended({}):
                self.loaded.model(**self._step(ids[:, :-1], mask[:, :-1], cache))
            ids = ids[:, -1:].contiguous()
            inputs = self._step(ids, mask, cache)
        if "past_key_values" in inputs:
            hold(inputs["past_key_values"])  # as a run's is: what comes in does not count as kept before
        known = {_storage(inputs["input_ids"]): ids.flatten().tolist()}
        if "position_ids" in inputs:  # as many different ones as a sequence has tokens
            known[_storage(inputs["position_ids"])] = list(range(ids.shape[-1]))
        return inputs, known

    def _cache(self) -> Cache:
        return new_cache(self.loaded.model, "dynamic", positions=0)

    def _step(self, ids: Tensor, mask: Tensor, cache: Cache) -> dict[str, Any]:
        """Return what `generate` gives a model for these tokens; positions of every sequence among it."""
        return {
            "input_ids": ids.to(META),
            "attention_mask": mask,
            "position_ids": torch.empty(ids.shape, dtype=torch.long, device=META),
            "past_key_values": cache,
            "use_cache": True,
            "logits_to_keep": 1,
        }

    def _by_kind(
        self, tree: ComponentTree, counted: Mapping[str, Work], calls: Mapping[str, int], asked: Asked
    ) -> dict[str, Shape]:
        kinds: dict[str, list[Component]] = defaultdict(list)
        leaves = {one.kind for one in tree.leaves()}
        above = {one.parent for one in tree}
        for component in tree:  # a kind that is both is told of what has nothing below, as in measured cells
            if calls.get(component.name) and (component.name not in above or component.kind not in leaves):
                kinds[component.kind].append(component)
        found = {}
        for kind, components in kinds.items():
            works = [counted[one.name] for one in components]
            if any(one.flops is None or one.bytes is None for one in works):
                continue
            flops = sum(one.flops or 0.0 for one in works)
            moved = sum(one.bytes or 0.0 for one in works) - sum(self._saved(one) for one in components)
            number = sum(calls[one.name] for one in components)
            found[kind] = Shape(asked.batch_size, asked.tokens, flops, moved, number)
        whole = found.get(WHOLE)
        if whole is None:
            raise ModelError(f"the work of {self.loaded.name} cannot be counted without its weights")
        layers = len({one.layer for one in tree if one.layer is not None})
        found[WHOLE] = Shape(asked.batch_size, asked.tokens, whole.flops, whole.bytes, max(1, layers))
        return found

    def _saved(self, component: Component) -> float:
        """Return by how many bytes the component's quantized weights are smaller than what was counted."""
        below = "" if component.name == WHOLE else f"{component.name}."
        return sum(saved for path, saved in self._savings.items() if path.startswith(below))


def _quantized_savings(loaded: LoadedModel, precision: str) -> dict[str, int]:
    if precision not in QUANTIZED:
        return {}
    stored = {path: one.nbytes for path, one in loaded.model.named_parameters()}
    planned = dict(planned_parameters(loaded.model, precision, heads(loaded.adapter)))
    return {path: stored[path] - needed for path, needed in planned.items() if stored[path] != needed}


class Pretended(TorchFunctionMode):
    """Lets tensors on the meta device answer as real ones would in a pass without padding.

    ``known`` gives the values of those that embeddings look up, by their storage (`_storage`). Buffers are taken
    for unread: which are read is asked in a place that this does not reach; they are small or, as GPT-2's causal
    mask, unread indeed.
    """

    def __init__(self, known: Mapping[int, list[int]]) -> None:
        super().__init__()
        self.known = known

    def __torch_function__(
        self, func: Any, types: Iterable[Any], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Answer instead of a meta tensor what it cannot tell; all else goes its way."""
        answer = _ANSWERS.get(func)
        if answer is None or not isinstance(args[0], Tensor) or not args[0].is_meta:
            return func(*args, **(kwargs or {}))
        return answer(args[0], self.known)


@dataclass(frozen=True)
class _Storage:
    """Stands for a storage on the meta device, with an address of its own."""

    address: int

    def data_ptr(self) -> int:
        return self.address


def _storage(tensor: Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)  # noqa: SLF001  on the meta device all addresses are 0


def _address(tensor: Tensor, _: Mapping[int, list[int]]) -> int:
    return _storage(tensor) + int(tensor.storage_offset()) * tensor.element_size()


def _ids(tensor: Tensor, known: Mapping[int, list[int]]) -> list[int]:
    """Return the ids that a tensor holds; of one that the model made itself, such as positions, a row's."""
    given = known.get(_storage(tensor))
    return list(range(tensor.shape[-1])) if given is None else given


_ANSWERS: dict[Any, Callable[[Tensor, Mapping[int, list[int]]], Any]] = {
    Tensor.data_ptr: _address,
    Tensor.untyped_storage: lambda tensor, _: _Storage(_storage(tensor)),
    Tensor.tolist: _ids,
    Tensor.__bool__: lambda _tensor, _known: True,
}
