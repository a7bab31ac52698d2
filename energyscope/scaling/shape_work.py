"""FLOPs, bytes and calls of a shape that nobody ran, counted without weights and without computing anything.

The model's modules are on the meta device, where a forward pass only works out shapes. `count_work` asks three
things of tensors that such ones do not know; they are answered here as they are in a real pass without padding:
where a tensor lies (its storage stands for its address), which token ids an embedding looks up (those of the
inputs; of positions, all), and whether a mask hides anything (it does not). Attention takes a fused kernel, which
skips what a causal mask hides: PyTorch's math backend, which computes all of it, is what a device takes as a last
resort, and the meta device always.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from torch.overrides import TorchFunctionMode

from energyscope.adapters import Granularity
from energyscope.components import Component, ComponentTree, component_tree
from energyscope.errors import ModelError, UsageError
from energyscope.grouping import group_by
from energyscope.kv_cache import cache_name, hold, new_cache
from energyscope.loading import LoadedModel
from energyscope.loading.model import load_skeleton
from energyscope.loading.options import NATIVE, QUANTIZED
from energyscope.loading.planning import heads
from energyscope.loading.sizes import planned_parameters
from energyscope.model_inputs import takes
from energyscope.replay.flops import Work, count_work
from energyscope.scaling.cells import Shape
from energyscope.unknown import total
from energyscope.workloads import profile_inputs
from energyscope.workloads.decoding import check_context, why_no_prompt

if TYPE_CHECKING:
    from transformers import Cache

META = torch.device("meta")
WHOLE = "model"


@dataclass(frozen=True)
class PassShape:
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

    def __init__(self, reference: str, precision: str, adapter: str | None = None) -> None:
        """Build the modules in the data type of what is not quantized; ``adapter`` names one, as for a run.

        Raises:
            UsageError: there is no such model.
            ModelError: its files are out of reach, or no adapter serves it.

        """
        self.loaded: LoadedModel = load_skeleton(reference, torch.device("cpu"), tokenizer=False, adapter=adapter)
        self.precision = precision
        stored = "bf16" if precision in QUANTIZED else precision
        self.loaded.model.to(getattr(torch, NATIVE.get(stored, "float32")))
        self._savings = _quantized_savings(self.loaded, precision)

    def work(self, asked: PassShape, granularity: Granularity = "fine") -> dict[str, Shape]:
        """Return the work of each kind, summed over the model, and of the whole (``model``), by name.

        A kind of which FLOPs or bytes are not known is left out.

        Raises:
            UsageError: the shape is beyond the model's positions, or the model generates no text.

        """
        cached = asked.cached or asked.phase == "decode"
        if cached and (why := why_no_prompt(self.loaded)):
            raise UsageError(f"{self.loaded.name} {why}: ask for a prefill without a KV cache")
        inputs, ids = self._inputs(asked, cached=cached)
        known = {_storage(inputs["input_ids"]): ids.flatten().tolist()}
        if "position_ids" in inputs:  # as many different ones as a sequence has tokens
            known[_storage(inputs["position_ids"])] = list(range(ids.shape[-1]))
        tree = component_tree(self.loaded.model, self.loaded.adapter, granularity, kv_cache=cached)
        calls = Counter[str]()
        with ExitStack() as hooks, MetaTensorMode(known):
            for component in tree:
                count = partial(_count, calls, component.name)
                hooks.callback(component.module.register_forward_pre_hook(count).remove)
            works = count_work(tree, inputs)
        return self._by_kind(tree, works, calls, asked)

    def _inputs(self, asked: PassShape, *, cached: bool) -> tuple[dict[str, Any], Tensor]:
        """Return a pass's arguments on the meta device, and its token ids."""
        decode = asked.phase == "decode"
        length = check_context(self.loaded, asked.tokens) + 1 if decode else asked.tokens
        real = profile_inputs(self.loaded, batch_size=asked.batch_size, sequence_length=length).inputs
        if "input_ids" not in real or "decoder_input_ids" in real:
            raise UsageError(f"{self.loaded.name}: predictions are for models that read tokens, without a decoder")
        ids = real["input_ids"]
        mask = real.get("attention_mask", torch.ones_like(ids)).to(META)
        if not cached:
            return {"input_ids": ids.to(META), "attention_mask": mask}, ids
        cache = new_cache(self.loaded.model, "dynamic", positions=0)
        if decode:
            with torch.no_grad(), MetaTensorMode({}):
                self.loaded.model(**self._cached_inputs(ids[:, :-1], mask[:, :-1], cache))
            ids = ids[:, -1:].contiguous()
        hold(cache)  # as a run's is: what comes in does not count as kept before
        return self._cached_inputs(ids, mask, cache), ids

    def _cached_inputs(self, ids: Tensor, mask: Tensor, cache: Cache) -> dict[str, Any]:
        """Return what `generate` gives the model for these tokens; positions of every sequence among it."""
        given = {
            "input_ids": ids.to(META),
            "attention_mask": mask,
            "position_ids": torch.empty(ids.shape, dtype=torch.long, device=META),
            str(cache_name(self.loaded.model)): cache,
            "use_cache": True,
            "logits_to_keep": 1,
        }
        return {name: value for name, value in given.items() if takes(self.loaded.model, name)}

    def _by_kind(
        self, tree: ComponentTree, works: Mapping[str, Work], calls: Mapping[str, int], asked: PassShape
    ) -> dict[str, Shape]:
        leaf_kinds = {component.kind for component in tree.leaves()}
        parents = {component.parent for component in tree}
        counted = (  # of a kind with and without children, those without: as in measured cells
            component
            for component in tree
            if calls[component.name] and (component.name not in parents or component.kind not in leaf_kinds)
        )
        shapes = {}
        for kind, components in group_by(counted, attrgetter("kind")).items():
            flops = total([works[component.name].flops for component in components])
            moved = total([works[component.name].bytes for component in components])
            executed = total([works[component.name].executed_flops for component in components])
            if flops is None or moved is None:
                continue
            saved = sum(self._saved(component) for component in components)
            number = sum(calls[component.name] for component in components)
            shapes[kind] = Shape(asked.batch_size, asked.tokens, flops, moved - saved, number, executed)
        if WHOLE not in shapes:
            raise ModelError(f"the work of {self.loaded.name} cannot be counted without its weights")
        layers = {component.layer for component in tree if component.layer is not None}
        return shapes | {WHOLE: replace(shapes[WHOLE], calls=max(1, len(layers)))}

    def _saved(self, component: Component) -> float:
        """Return by how many bytes the component's quantized weights are smaller than what was counted."""
        below = "" if component.name == WHOLE else f"{component.name}."
        return sum(saved for path, saved in self._savings.items() if path.startswith(below))


def _count(calls: Counter[str], name: str, *_: Any) -> None:
    calls[name] += 1


def _quantized_savings(loaded: LoadedModel, precision: str) -> dict[str, int]:
    if precision not in QUANTIZED:
        return {}
    stored = {path: weight.nbytes for path, weight in loaded.model.named_parameters()}
    planned = dict(planned_parameters(loaded.model, precision, heads(loaded.adapter)))
    return {path: stored[path] - needed for path, needed in planned.items() if stored[path] != needed}


class MetaTensorMode(TorchFunctionMode):
    """Lets tensors on the meta device answer as real ones would in a pass without padding.

    ``known`` gives the values of those that embeddings look up, by their storage (`_storage`). Buffers count as
    unread, since this mode does not see their reads: they are small or, as GPT-2's causal mask, never read.
    """

    def __init__(self, known: Mapping[int, list[int]]) -> None:
        super().__init__()
        self.known = known

    def __torch_function__(
        self, func: Any, types: Iterable[Any], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Answer for a meta tensor what it does not know itself."""
        tensor = args[0] if args else None
        if not isinstance(tensor, Tensor) or not tensor.is_meta:
            return func(*args, **(kwargs or {}))
        if func is Tensor.data_ptr:
            return _storage(tensor) + int(tensor.storage_offset()) * tensor.element_size()
        if func is Tensor.untyped_storage:
            address = _storage(tensor)
            return SimpleNamespace(data_ptr=lambda: address)
        if func is Tensor.tolist:  # ids that the model made itself, such as positions: a row's
            return self.known.get(_storage(tensor)) or list(range(tensor.shape[-1]))
        if func is Tensor.__bool__:
            return True
        if func is scaled_dot_product_attention:
            func = _fused
        return func(*args, **(kwargs or {}))


def _fused(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    **_: Any,
) -> Tensor:
    """Return attention by a fused kernel; the CPU's takes any head size, data type and mask."""
    kernel = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu  # noqa: SLF001  the operation's name
    output: Tensor = kernel(query, key, value, dropout_p, is_causal, attn_mask=attn_mask, scale=scale)[0]
    return output


def _storage(tensor: Tensor) -> int:
    """Return a number in place of a storage's address: on the meta device all addresses are 0."""
    return int(tensor.untyped_storage()._cdata)  # noqa: SLF001  a storage has no other identity
