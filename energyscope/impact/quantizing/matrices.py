"""The weight matrices of a component: which there are, what stands against them, and who else holds them."""

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


def why_no_matrices(module: nn.Module) -> Reason | None:
    """Return why a component's weight matrices cannot be looked at, or None."""
    matrices = matrices_of(module)
    if not matrices:
        return reason("no-weight-matrix")
    quantized = [matrix for matrix in matrices if _is_quantized(matrix.weight)]
    return about("weights-quantized", quantized) if quantized else None


def reason_against(matrices: Sequence[Matrix]) -> Reason | None:
    """Return why these weights cannot be quantized, None where they can."""
    if not matrices:
        return reason("no-weight-matrix")
    if quantized := [matrix for matrix in matrices if _is_quantized(matrix.weight)]:
        return about("weights-quantized", quantized)
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
    """Say which of a component's weights modules outside of it hold too, where they are left as they are."""
    inside = {id(inner) for inner in module.modules()}
    notes = []
    for matrix in matrices:
        holders = shared.get(id(matrix.weight), {})
        others = [path for path, holder in holders.items() if id(holder) not in inside]
        if others:
            notes.append(reason("weight-shared", weight=matrix.path, modules=others))
    return notes


def is_conv1d(module: nn.Module) -> bool:
    """Tell GPT-2's transposed linear, whose weight is (in, out)."""
    from transformers.pytorch_utils import Conv1D

    return isinstance(module, Conv1D)


def _is_quantized(weight: Tensor) -> bool:
    # bitsandbytes' are known by name, lest it be imported; a 4-bit weight may be stored as any dtype
    named = type(weight).__name__ in {"Int8Params", "Params4bit"}
    return named or not weight.is_floating_point() or weight.element_size() < 2
