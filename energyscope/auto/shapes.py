"""What a module's weights say of it: a linear, a vector, a table, a bank of experts."""

from __future__ import annotations

from collections.abc import Iterator

from torch import nn


def own(module: nn.Module) -> list[nn.Parameter]:
    """Return the weights that the module itself holds, not those of its modules."""
    return list(module.parameters(recurse=False))


def weights(module: nn.Module) -> int:
    """Return the number of weights in a module and all below it."""
    return sum(parameter.numel() for parameter in module.parameters())


def sizes(module: nn.Module) -> tuple[int, int] | None:
    """Return a linear's numbers of inputs and outputs; None for what is no linear."""
    name, weight = type(module).__name__, getattr(module, "weight", None)
    if not isinstance(weight, nn.Parameter) or weight.dim() != 2 or isinstance(module, nn.Embedding):
        return None
    if name == "Conv1D":  # transformers' own linear, of which GPT-2 is made
        return weight.shape[0], weight.shape[1]
    return (weight.shape[1], weight.shape[0]) if "Linear" in name else None


def shapes(module: nn.Module) -> frozenset[str]:
    """Return the words that describe a module, as the rules use them."""
    return frozenset(_words(module))


def _words(module: nn.Module) -> Iterator[str]:
    held, is_leaf = own(module), not any(True for _ in module.children())
    yield "any"
    if weights(module):
        yield "weighted"
    if is_leaf and not held:
        yield "weightless"
    if not any(weights(child) for child in module.children()):
        yield "leaf"
    elif not isinstance(module, nn.ModuleList):
        yield "container"
    if any(parameter.dim() > 1 for parameter in module.parameters()):
        yield "matrices"
    if held and is_leaf and all(parameter.dim() <= 1 for parameter in held):
        yield "vector"
    if any(parameter.dim() == 3 for parameter in held) and not _is_convolution(module):  # (experts, out, in)
        yield "bank"
    if isinstance(module, nn.Embedding):
        yield "embedding"
    yield from _linear_words(module)
    yield from _convolution_words(module)


def _is_convolution(module: nn.Module) -> bool:
    return isinstance(module, nn.Conv1d | nn.Conv2d | nn.Conv3d)


def _convolution_words(module: nn.Module) -> Iterator[str]:
    if isinstance(module, nn.Conv1d | nn.Conv2d | nn.Conv3d):
        yield "convolution"
        if module.stride == module.kernel_size != (1,) * len(module.stride):
            yield "tiling"  # each patch of an image by itself
        return
    matrices = [child for child in module.modules() if any(parameter.dim() > 1 for parameter in own(child))]
    if matrices and all(map(_is_convolution, matrices)):
        yield "convolutional"


def _linear_words(module: nn.Module) -> Iterator[str]:
    size = sizes(module)
    if size is None:
        return
    inputs, outputs = size
    yield "linear"
    if outputs != inputs:
        yield "widening" if outputs > inputs else "narrowing"
