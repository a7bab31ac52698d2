"""What a run relies on with any family: checks on a tiny model with weights, and true shapes without."""

from __future__ import annotations

import copy
from collections import Counter
from pathlib import Path
from typing import Any

import tiny_models
import torch
from torch import Tensor, nn

from energyscope.adapter_registry import load_adapter
from energyscope.adapters import Adapter, Checkpoint, Granularity
from energyscope.auto import StructureMap, structure_map
from energyscope.components import Component, ComponentTree, component_tree
from energyscope.replay.capture import Capture, capture
from energyscope.replay.flops import count_work
from energyscope.replay.replay_setup import bypassed

SIZES: dict[str, Any] = {
    "vocab_size": tiny_models.VOCABULARY,
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "max_position_embeddings": 32,
}


def tiny_model(family: str, **changes: Any) -> Any:
    """Return a seeded model of the class that the family's adapter names, on the CPU."""
    import transformers

    if family in {"distilbert", "gpt2", "llama"}:
        config = tiny_models.config(family, **changes)
    else:
        config = transformers.AutoConfig.for_model(family, **{**SIZES, **changes})
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        return getattr(transformers, load_adapter(family).auto_class).from_config(config).eval()


def tiny_tree(family: str, granularity: Granularity = "fine", **changes: Any) -> ComponentTree:
    return component_tree(tiny_model(family, **changes), load_adapter(family), granularity)


def save_tiny(folder: Path, family: str, **changes: Any) -> Path:
    """Save a tiny model with a word tokenizer, as a user's folder."""
    tiny_model(family, **changes).save_pretrained(folder)
    tiny_models.save_tokenizer(folder, wrapped=load_adapter(family).task == "classification")
    return folder


def meta_model(adapter: Adapter, checkpoint: str) -> Any:
    """Build a checkpoint's true shape without its weights."""
    import transformers

    shape = copy.deepcopy(dict(adapter.checkpoints[checkpoint].configuration))
    with torch.device("meta"):
        true_config = transformers.AutoConfig.for_model(adapter.model_types[0], **shape)
        return getattr(transformers, adapter.auto_class).from_config(true_config)


def structure_of(checkpoint: Checkpoint, layers: int = 6) -> StructureMap:
    """Return what is found by structure in a checkpoint's shape with fewer layers, of each kind that it has."""
    import transformers

    shape = copy.deepcopy(dict(checkpoint.configuration)) | {"num_hidden_layers": layers}
    if "layer_types" in shape:
        shape["layer_types"] = shape["layer_types"][:layers]
    architectures = [checkpoint.architecture]
    return structure_map(
        transformers.AutoConfig.for_model(checkpoint.model_type, architectures=architectures, **shape)
    )


def parameters(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def inputs(*, padded: int = 0) -> dict[str, Tensor]:
    ids = torch.arange(24).reshape(2, 12) % tiny_models.VOCABULARY
    mask = torch.ones_like(ids)
    mask[1, 12 - padded :] = 0
    return {"input_ids": ids, "attention_mask": mask}


def blocks_of_a_layer(tree: ComponentTree, layer: str) -> dict[str, list[str]]:
    """Return each block's kind and its sub-components' kinds, by its name below the layer."""
    return {
        block.name.removeprefix(f"{layer}."): [block.kind, *(child.kind for child in tree.children(block.name))]
        for block in tree.children(layer)
    }


def parameters_without_component(tree: ComponentTree) -> set[str]:
    owned = {id(p) for component in tree.components[1:] for p in component.module.parameters()}
    return {name for name, p in tree.root.module.named_parameters() if id(p) not in owned}


def names_used_twice(tree: ComponentTree) -> set[str]:
    return {name for name, count in Counter(component.name for component in tree).items() if count > 1}


def nested_siblings(tree: ComponentTree) -> list[tuple[str, str]]:
    """Return the children of one parent of which one holds another: their energy would count twice."""
    return [
        (module.name, other.name)
        for parent in tree
        for module in _modules(tree, parent)
        for other in _modules(tree, parent)
        if module is not other and any(part is other.module for part in module.module.modules())
    ]


def _modules(tree: ComponentTree, parent: Component) -> list[Component]:
    return [child for child in tree.children(parent.name) if child.part and not child.part.function]


def unlike_the_model(tree: ComponentTree, padded: int) -> list[str]:
    """Return the components that, run alone on what they were given, do not return what they did in the model.

    Parents are also run with their children bypassed by their records, as glue is measured.
    """
    captures = capture(tree, inputs(padded=padded))
    names = [
        component.name
        for component in tree.components[1:]
        if not _same(_run(component, captures), captures[component.name].output)
    ]
    for parent in tree:
        children = [(child.module, captures[child.name].output) for child in tree.children(parent.name)]
        with bypassed(children):
            if children and not _same(_run(parent, captures), captures[parent.name].output):
                names.append(f"{parent.name} without its children")
    return names


def _run(component: Component, captures: dict[str, Capture]) -> Any:
    recorded = captures[component.name]
    with torch.inference_mode():
        return component.module(*recorded.args, **recorded.kwargs)


def _same(left: Any, right: Any) -> bool:
    left, right = (_first(value) for value in (left, right))
    return torch.equal(left, right)


def _first(value: Any) -> Tensor:
    """Return a result's first tensor: a tensor's own, a tuple's or a model output's first."""
    return value if isinstance(value, Tensor) else value[0]


def work_beyond_children(tree: ComponentTree) -> dict[str, float]:
    """Return the operations of matrix work that a parent does and its children do not, where there are any."""
    work = count_work(tree, inputs())
    beyond = {
        parent.name: (work[parent.name].flops or 0) - sum(work[child.name].flops or 0 for child in children)
        for parent in tree
        if (children := tree.children(parent.name))
    }
    return {name: flops for name, flops in beyond.items() if flops}
