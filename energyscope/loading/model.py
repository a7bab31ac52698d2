"""Load a model, with its adapter and tokenizer, on a device at a precision.

A model is named by a short name, a bundled name, a local folder or a Hugging Face id. Its weights are the
trained ones, or random ones of the true shape that are built on the device itself.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from energyscope.adapters import BY_STRUCTURE, Adapter
from energyscope.errors import ModelError
from energyscope.loading import random_weights, tensor_parallel, trained_weights
from energyscope.loading.files import ModelFiles, model_files, tokenizer_of
from energyscope.loading.linears import is_kept, is_linear
from energyscope.loading.options import (
    BY_TORCH,
    QUANTIZED,
    LoadOptions,
    LoadSettings,
    check_precision,
    check_quantization,
)
from energyscope.loading.planning import LoadPlan, empty_model, meta_model, plan_model
from energyscope.loading.sharding.placement import Placement, dispatch, offload_notes
from energyscope.loading.sources import find_model
from energyscope.reasons import Reason, reason

if TYPE_CHECKING:
    import torch
    from torch import nn


@dataclass(frozen=True)
class LoadedModel:
    """A model in evaluation mode on its device, with what is needed to feed and to read it.

    ``tokenizer`` is None without one, and ``tokenizer_reason`` says why. ``weights`` are trained, random, those
    of a bundled model or of a module that was given in memory, and come from ``source``; ``seconds`` is how long
    loading took. ``notes`` are what a reader of its results must know.

    ``device`` is where its inputs go; ``placement``, which module lies on which device where there are several. Of
    a model that is split over ``ranks`` processes (tensor parallel), this is one process's share.
    """

    name: str
    model: nn.Module
    adapter: Adapter
    tokenizer: Any
    tokenizer_reason: Reason | None
    precision: str
    device: torch.device
    weights: Literal["pretrained", "random", "bundled", "given"]
    source: str
    seconds: float
    notes: tuple[Reason, ...] = ()
    placement: Placement | None = None
    ranks: int = 1

    @property
    def devices(self) -> tuple[torch.device, ...]:
        """The devices that hold its weights or run them, that of its inputs first."""
        return self.placement.devices if self.placement else (self.device,)

    @property
    def device_map(self) -> dict[str, str] | None:
        """The device of each module, by its path; None on one device."""
        return {path: str(device) for path, device in self.placement.modules.items()} if self.placement else None

    @property
    def offloaded(self) -> tuple[str, ...]:
        """The modules whose weights wait in host memory, and are copied to ``device`` whenever they run."""
        return self.placement.offloaded if self.placement else ()


def load_model(reference: str, settings: LoadSettings | None = None, **options: Any) -> LoadedModel:
    """Load a model and put it on the device, ready for inference.

    ``reference`` is a short name, a bundled name, a local folder or a Hugging Face id. ``settings``, or its fields
    as keywords (`energyscope.loading.options.LoadSettings`), say how it is loaded. Quantized layers are tried on
    random inputs, and 4-bit ones that compute wrongly are repaired, which is noted.

    Raises:
        TypeError: a keyword is no field of the settings.
        UsageError: the model or the precision is unknown, or an option does not fit it.
        ModelError: the weights are missing, broken or out of reach, no adapter serves the model, or its quantized
            layers cannot be computed rightly here.
        DeviceError: there is no such device, or not enough memory on it.

    """
    settings = settings or LoadSettings(**options)
    started = time.perf_counter()
    check_precision(settings.precision)
    source = find_model(reference)
    check_quantization(
        settings.precision,
        double_quant=settings.double_quant,
        compute_dtype=settings.compute_dtype,
        skip_modules=settings.skip_modules,
    )
    resolved = settings.resolved()
    with model_files(source, resolved) as files:
        plan = plan_model(files, resolved)
        model = _build(files, plan)
        tokenizer = tokenizer_of(files.folder, resolved)
        notes = (*_notes_on(files, plan.options), *_prepared_for_inference(model, plan))
    return _loaded(
        files,
        model,
        tokenizer,
        plan.options,
        weights=settings.weights,
        seconds=time.perf_counter() - started,
        notes=notes,
        placement=plan.placement,
        ranks=tensor_parallel.world_size() if settings.tensor_parallel else 1,
    )


def _loaded(
    files: ModelFiles,
    model: Any,
    tokenizer: tuple[Any, Reason | None],
    options: LoadOptions,
    *,
    weights: Literal["pretrained", "random"],
    **more: Any,
) -> LoadedModel:
    return LoadedModel(
        name=files.source.name,
        model=model,
        adapter=files.adapter,
        tokenizer=tokenizer[0],
        tokenizer_reason=tokenizer[1],
        precision=options.precision,
        device=options.device,
        weights="bundled" if files.source.kind == "bundled" and weights == "pretrained" else weights,
        source=files.source.source,
        **more,
    )


def _notes_on(files: ModelFiles, options: LoadOptions) -> tuple[Reason, ...]:
    """Return a note where no adapter serves the model, or none was wanted."""
    if files.adapter.name != BY_STRUCTURE:
        return ()
    if options.adapter == BY_STRUCTURE:
        return (reason("structure-asked-for"),)
    return (reason("found-by-structure", model_type=files.config.model_type),)


def _build(files: ModelFiles, plan: LoadPlan) -> Any:
    """Build the model, each of its modules on its device; what passes between devices is not moved yet."""
    options = plan.options
    if options.weights == "pretrained":
        return trained_weights.read(files, plan)
    if options.tensor_parallel:
        share = tensor_parallel.split_meta_model(meta_model(files, options))
        return random_weights.build(lambda: share, options, plan.keep, home=lambda _: options.device)
    home = plan.placement.device_of if plan.placement else None
    return random_weights.build(lambda: empty_model(files, options), options, plan.keep, home)


def _prepared_for_inference(model: Any, plan: LoadPlan) -> tuple[Reason, ...]:
    """Put a model in evaluation mode, repair its layers and dispatch it; return notes on that."""
    options = plan.options
    model.eval().requires_grad_(False)
    random_weights.spare_small_layers(model)
    notes: tuple[Reason, ...] = ()
    if options.precision in BY_TORCH:
        notes += _not_quantized(model, plan)
    elif options.precision in QUANTIZED:
        from energyscope.loading.kernel_trials import repair_layers

        notes += repair_layers(model, options)
    if options.double_quant:  # some processors' kernels undo it when the layers are tried
        states = [getattr(parameter, "quant_state", None) for parameter in model.parameters()]
        if undone := sum(not state.nested for state in states if state is not None):
            notes += (reason("double-quant-undone", layers=undone),)
    if plan.placement:
        dispatch(model, plan.placement)
        notes += offload_notes(plan.placement)
    if options.tensor_parallel:
        notes += tensor_parallel.notes()
    return notes


def _not_quantized(model: Any, plan: LoadPlan) -> tuple[Reason, ...]:
    """Return a note on the linears whose sizes the kernels do not take.

    Raises:
        ModelError: there is no quantized layer at all.

    """
    from energyscope.loading.torch_kernels import QuantizedLinear

    precision = plan.options.precision
    left = [path for path, module in model.named_modules() if is_linear(module) and not is_kept(path, plan.keep)]
    done = sum(isinstance(module, QuantizedLinear) for module in model.modules())
    if not done and not left:
        raise ModelError(f"--skip-modules names all linears, and {precision} quantizes none: name fewer of them")
    if not done:
        raise ModelError(
            f"no linear of this model has a size that {precision} kernels take (multiples of "
            f"{'32 inputs and 16 outputs' if precision == 'int4' else '16'}): use another --precision"
        )
    if not left:
        return ()
    total = len(left) + done
    return (reason("size-not-quantized", precision=precision, layers=len(left), total=total, first=left[0]),)


def load_skeleton(
    reference: str,
    device: torch.device,
    *,
    tokenizer: bool,
    trust_remote_code: bool = False,
    adapter: str | None = None,
) -> LoadedModel:
    """Return a model without weights: its modules are on the meta device, and ``device`` is where its inputs go.

    With ``tokenizer`` its files are looked for, on the hub too; without, a short name needs none.

    Raises:
        UsageError: there is no such model.
        ModelError: its files are out of reach, or no adapter serves it.

    """
    source = find_model(reference)
    if tokenizer and source.kind == "checkpoint":  # its tokenizer is among the files of its hub id
        source = replace(source, kind="hub")
    options = LoadOptions(device=device, weights="random", trust_remote_code=trust_remote_code, adapter=adapter)
    with model_files(source, options) as files:
        model = meta_model(files, options)
        words = tokenizer_of(files.folder, options) if tokenizer else (None, reason("not-asked-for"))
    return _loaded(files, model, words, options, weights="pretrained", seconds=0.0)
