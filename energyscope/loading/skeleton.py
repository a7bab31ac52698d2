"""A model without its weights: all of its modules on the meta device, to plan a run or to tokenize for one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from energyscope.loading import building
from energyscope.loading.model import LoadedModel
from energyscope.loading.options import LoadOptions
from energyscope.loading.planning import meta_model, settle
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
    found = find_model(reference)
    building.silence_libraries()
    with building.one_line_errors(found.name, options):
        without = replace(options, weights="random")  # no weights are looked for
        folder = building.files_of(found, without)
        adapter = building.adapter_of(found, folder)
        config = building.configuration_of(found, folder, without)
        needed, error = settle(found, adapter, config, options)
    return LoadEstimate(needed, None if error is None else str(error))


def load_skeleton(
    reference: str, device: torch.device, *, tokenizer: bool, trust_remote_code: bool = False
) -> LoadedModel:
    """Return a model whose modules are on the meta device; ``device`` is where its inputs go.

    With ``tokenizer`` its files are looked for, on the hub too; without, a short name needs none.

    Raises:
        UsageError: there is no such model.
        ModelError: its files are out of reach, or no adapter serves it.

    """
    found = find_model(reference)
    options = LoadOptions("fp32", device, "random", trust_remote_code=trust_remote_code)
    building.silence_libraries()
    with building.one_line_errors(found.name, options):
        # a short name alone would be built without files, and has its tokenizer among those of its hub id
        by_files = tokenizer and found.kind == "checkpoint"
        folder = building.files_of(replace(found, kind="hub") if by_files else found, options)
        adapter = building.adapter_of(found, folder)
        model = meta_model(adapter, building.configuration_of(found, folder, options), options)
        asked = (None, reason("not-asked-for"))
        words, why_none = building.tokenizer_of(folder, options) if tokenizer else asked
    return LoadedModel(
        name=found.name,
        model=model,
        adapter=adapter,
        tokenizer=words,
        tokenizer_reason=why_none,
        precision="fp32",
        device=device,
        weights="bundled" if found.kind == "bundled" else "pretrained",
        source=found.source,
        seconds=0.0,
    )
