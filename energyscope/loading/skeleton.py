"""A model without its weights: all of its modules on the meta device, to plan a run or to tokenize for one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from energyscope.errors import DeviceError
from energyscope.loading import building
from energyscope.loading.model import LoadedModel
from energyscope.loading.options import LoadOptions
from energyscope.loading.planning import meta_model, plan_shape, shape_of
from energyscope.loading.sizes import planned_bytes
from energyscope.loading.sources import find_model
from energyscope.reasons import reason

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class LoadEstimate:
    """What loading a model would take: the bytes of its weights, and why they have no room (None: they have)."""

    weight_bytes: int
    refused: str | None


def estimate_load(reference: str, options: LoadOptions) -> LoadEstimate:
    """Return what loading a model would take, from its configuration alone.

    Raises:
        UsageError: there is no such model, or the options do not fit it.
        ModelError: its files are out of reach, no adapter serves it, or its weights are stored quantized.

    """
    random = replace(options, weights="random")  # no weights are looked for
    with building.opened(find_model(reference), random) as files:
        shape, keep = shape_of(files, options)
        needed = planned_bytes(shape, options.precision, keep, double_quant=options.double_quant)
        try:
            plan_shape(files, shape, keep, options)
        except DeviceError as error:
            return LoadEstimate(needed, str(error))
    return LoadEstimate(needed, None)


def load_skeleton(
    reference: str, device: torch.device, *, tokenizer: bool, trust_remote_code: bool = False
) -> LoadedModel:
    """Return a model whose modules are on the meta device; ``device`` is where its inputs go.

    With ``tokenizer`` its files are looked for, on the hub too; without, a short name needs none.

    Raises:
        UsageError: there is no such model.
        ModelError: its files are out of reach, or no adapter serves it.

    """
    source = find_model(reference)
    if tokenizer and source.kind == "checkpoint":  # its tokenizer is among the files of its hub id
        source = replace(source, kind="hub")
    options = LoadOptions("fp32", device, "random", trust_remote_code=trust_remote_code)
    with building.opened(source, options) as files:
        model = meta_model(files, options)
        its_tokenizer, why_none = (
            building.tokenizer_of(files.folder, options) if tokenizer else (None, reason("not-asked-for"))
        )
    return LoadedModel(
        name=source.name,
        model=model,
        adapter=files.adapter,
        tokenizer=its_tokenizer,
        tokenizer_reason=why_none,
        precision="fp32",
        device=device,
        weights="bundled" if source.kind == "bundled" else "pretrained",
        source=source.source,
        seconds=0.0,
    )
