"""Inputs of a model and its components inside a CUDA graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from energyscope.components import ComponentTree
from energyscope.kv_cache import cache_storages
from energyscope.reasons import Reason, reason
from energyscope.replay.activations import ActivationStore
from energyscope.replay.capture import Capture, capture
from energyscope.replay.graphs import GraphRound


def capture_in_graph(
    tree: ComponentTree, inputs: Mapping[str, Any], device: torch.device, store: ActivationStore
) -> tuple[dict[str, Capture], list[Reason]]:
    """Record the inputs of every component inside a CUDA graph of the whole model; also return what to know of it.

    A model may behave differently there than in eager execution: in a graph it cannot decide by values on the
    device (whether a mask masks anything). Components must be replayed on the same inputs.

    Raises:
        NotCapturableError: the model as a whole cannot be held in a graph.

    """
    captures: dict[str, Capture] = {}
    store.standing |= cache_storages(inputs)

    def whole_model() -> None:
        captures.clear()
        captures.update(capture(tree, inputs))

    with torch.no_grad():
        graph = GraphRound([whole_model], device, unrolled=False)
        graph.launch()
        torch.cuda.synchronize(device)
        for recorded in captures.values():  # out of the graph's own memory
            recorded.args, recorded.kwargs = store.keep(recorded.args), store.keep(recorded.kwargs)
            recorded.output = store.keep(recorded.output)
    return captures, [reason("device-reads-repeated", reads=graph.reads)] if graph.reads else []


def without_full_mask(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the inputs without an attention mask that masks nothing.

    To see that it masks nothing, a model would have to wait for the device, which a capture forbids: it
    would then build and apply the whole mask, and run other attention kernels than it does in eager execution.
    Ready masks (of four dimensions or of each kind of layer, beside a static cache) stay.
    """
    mask = inputs.get("attention_mask")
    if not isinstance(mask, torch.Tensor) or mask.dim() != 2 or not bool((mask == 1).all()):
        return dict(inputs)
    return {name: tensor for name, tensor in inputs.items() if name != "attention_mask"}
