"""The weight matrices of a component: which there are, what prevents quantizing them, which modules share them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from energyscope.reasons import Reason, reason

Shared = Mapping[int, Mapping[str, nn.Module]]  # id of a parameter -> the modules that hold it, by their paths


@dataclass(frozen=True, eq=False)
class Matrix:
    """A weight of two or more dimensions: ``name`` of ``owner``; ``path`` leads there from the component."""

    path: str
    owner: nn.Module
    name: str
    weight: nn.Parameter

    @property
    def is_linear(self) -> bool:
        """Whether it multiplies the input of a Linear or a Conv1D."""
        return isinstance(self.owner, nn.Linear) or is_conv1d(self.owner)


def matrices_of(module: nn.Module) -> list[Matrix]:
    """Return the weights of two or more dimensions in a component; scales of norms and biases are none."""
    return [
        Matrix(f"{path}.{name}" if path else name, owner, name, weight)
        for path, owner in module.named_modules()
        for name, weight in owner.named_parameters(recurse=False)
        if weight.dim() >= 2 and weight.numel() and not name.endswith("bias")
    ]


def own_matrices(module: nn.Module) -> dict[str, nn.Parameter]:
    """Return the weight matrices that a module owns itself, by name, also those stored quantized."""
    return {matrix.name: matrix.weight for matrix in matrices_of(module) if matrix.owner is module}


def owners(module: nn.Module) -> list[nn.Module]:
    """Return the modules at and below this one that own weight matrices."""
    return list(dict.fromkeys(matrix.owner for matrix in matrices_of(module)))


def is_quantized(module: nn.Module) -> bool:
    """Whether a weight matrix that the module owns is stored as codes and not as numbers."""
    return any(_is_quantized(weight) for weight in own_matrices(module).values())


def why_unreadable(matrices: Sequence[Matrix]) -> Reason | None:
    """Return why these weights cannot be read as numbers, None where they can."""
    if not matrices:
        return reason("no-weight-matrix")
    quantized = [matrix for matrix in matrices if _is_quantized(matrix.weight)]
    return about("weights-quantized", quantized) if quantized else None


def reason_against(matrices: Sequence[Matrix]) -> Reason | None:
    """Return why these weights cannot be quantized, None where they can."""
    if (problem := why_unreadable(matrices)) is not None:
        return problem
    if absent := [matrix for matrix in matrices if matrix.weight.is_meta]:
        return about("weights-not-in-memory", absent)
    broken = [matrix for matrix in matrices if not bool(matrix.weight.isfinite().all())]
    return about("weights-not-finite", broken) if broken else None


def about(code: str, matrices: Sequence[Matrix]) -> Reason:
    """Return a reason about some weights: how many, and the first."""
    return reason(code, weights=len(matrices), first=matrices[0].path)


def shared_weights(model: nn.Module) -> Shared:
    """Return the parameters that more than one module holds (tied weights), with these modules by their paths."""
    holders: dict[int, dict[str, nn.Module]] = {}
    for path, module in model.named_modules():
        for parameter in module.parameters(recurse=False):
            holders.setdefault(id(parameter), {})[path] = module
    return {key: modules for key, modules in holders.items() if len(modules) > 1}


def sharing_notes(module: nn.Module, matrices: Sequence[Matrix], shared: Shared) -> list[Reason]:
    """Note which of a component's weights are shared with modules outside of it, where they stay unchanged."""
    inside = set(module.modules())
    outside = {
        matrix: [path for path, holder in shared.get(id(matrix.weight), {}).items() if holder not in inside]
        for matrix in matrices
    }
    return [
        reason("weight-shared", weight=matrix.path, modules=paths) for matrix, paths in outside.items() if paths
    ]


def is_conv1d(module: nn.Module) -> bool:
    """Whether this is GPT-2's transposed linear, whose weight is (in, out)."""
    from transformers.pytorch_utils import Conv1D

    return isinstance(module, Conv1D)


def _is_quantized(weight: Tensor) -> bool:
    # bitsandbytes' weights are known by name, without importing it; 4-bit ones may be stored as any dtype
    bitsandbytes = type(weight).__name__ in {"Int8Params", "Params4bit"}
    return bitsandbytes or not weight.is_floating_point() or weight.element_size() < 2
