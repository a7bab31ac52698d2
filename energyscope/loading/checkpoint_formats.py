"""The formats of checkpoints in which a model with several precisions is exported: facts, without torch."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from energyscope.errors import UsageError
from energyscope.loading.options import BY_TORCH

BITSANDBYTES = ("int8", "nf4", "fp4")


@dataclass(frozen=True)
class ExportFormat:
    """A format: its name in ``quantization_config``, the precisions that it holds, and what loads it."""

    name: str
    precisions: tuple[str, ...]
    packages: str
    single: bool = False  # it has one precision beside the model's own


EXPORT_FORMATS = {
    form.name: form
    for form in (
        ExportFormat("compressed-tensors", BY_TORCH, "transformers accelerate compressed-tensors"),
        ExportFormat("torchao", ("fp8", "w8a8", "w8a16"), "transformers accelerate torchao"),
        ExportFormat("bitsandbytes", BITSANDBYTES, "transformers accelerate bitsandbytes", single=True),
    )
}


def format_of(precisions: Collection[str], asked: str | None = None) -> ExportFormat:
    """Return the format that was asked for, or else the first one that holds these precisions.

    Raises:
        UsageError: there is no such format, or it does not hold them.

    """
    if asked is not None and asked not in EXPORT_FORMATS:
        raise UsageError(f"there is no format {asked!r}: use one of {', '.join(EXPORT_FORMATS)}")
    forms = EXPORT_FORMATS.values() if asked is None else [EXPORT_FORMATS[asked]]
    form = next((form for form in forms if set(precisions) <= set(form.precisions)), None)
    if form is None:
        held = "; ".join(
            f"{form.name} holds {'one of ' if form.single else ''}{', '.join(form.precisions)}" for form in forms
        )
        raise UsageError(f"{', '.join(sorted(precisions))} cannot be exported: {held} (--plan-precisions)")
    if form.single and len(precisions) != 1:
        raise UsageError(
            f"{form.name} holds one precision beside the model's own: use --plan-precisions with one of "
            f"{', '.join(form.precisions)}"
        )
    return form
