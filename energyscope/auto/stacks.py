"""The lists of layers of a model: an encoder's, a decoder's, a vision tower's, a stage's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from torch import nn

from energyscope.auto.shapes import shapes, weights

_MOST = 0.5  # of a stage's weights are in its blocks


def find_stacks(model: nn.Module) -> dict[str, nn.Module]:
    """Return the lists of blocks that lie in no other, by path, in the order of the modules.

    A list that holds only another gives way to it (ALBERT's groups), and so does a list of stages to the blocks
    of each (Swin, ConvNeXt).
    """
    found: dict[str, nn.Module] = {}
    for path, module in model.named_modules():
        if isinstance(module, nn.ModuleList) and not _within(path, found) and _holds_blocks(module):
            found.update(_blocks_of(path, module))
    return found


def numbered_stacks(stacks: Mapping[str, nn.Module]) -> tuple[str, ...]:
    """Return the stacks whose layers are numbered through: of lists side by side with as many layers, the first.

    XLM keeps the attentions of all layers in one list, and the MLPs in the next.
    """
    sizes: dict[tuple[str, int], str] = {}
    for path, stack in stacks.items():
        sizes.setdefault((path.rpartition(".")[0], len(list(stack.children()))), path)
    return tuple(sizes.values())


def _within(path: str, stacks: Iterable[str]) -> bool:
    return any(path.startswith(f"{stack}.") for stack in stacks)


def _holds_blocks(stack: nn.Module) -> bool:
    """Whether a list holds modules with modules, which are not just embeddings (of each stage: PVT)."""
    blocks = [child for child in stack.children() if "container" in shapes(child)]
    return any(not type(block).__name__.endswith(("Embedding", "Embeddings")) for block in blocks)


def _blocks_of(path: str, stack: nn.Module) -> dict[str, nn.Module]:
    """Return a list, or in its place the lists of its stages."""
    stages = {name: _stage_blocks(module) for name, module in stack.named_children()}
    if not all(stages.values()):
        return {path: stack}
    return {f"{path}.{name}.{below}": blocks for name, inner in stages.items() for below, blocks in inner.items()}


def _stage_blocks(module: nn.Module) -> dict[str, nn.Module]:
    """Return the list of like blocks that most of a module is, by name; empty where it is no stage."""
    for name, child in module.named_children():
        kinds = {type(block) for block in child.children()}
        is_list = isinstance(child, nn.ModuleList | nn.Sequential) and len(kinds) == 1 and _holds_blocks(child)
        if is_list and weights(child) > _MOST * weights(module) and not _records(module, child):
            return {name: child}
    return {}


def _records(module: nn.Module, blocks: nn.Module) -> bool:
    """Whether a module attends outside of its list of blocks: then it is a layer, and the list is a part of it."""
    inside = {id(child) for child in blocks.modules()}
    return any("Attention" in type(child).__name__ for child in module.modules() if id(child) not in inside)
