"""Gradients of every example's loss at the outputs of many modules, from one backward pass a batch.

Modules are tapped by forward hooks, and no weight takes part in the graph: what does not yet depend on
anything that has a gradient is detached and becomes a leaf. In eval mode the examples of a batch do not see each
other, so the gradient of the *sum* of their losses is, in each example's rows, the gradient of its own loss.

    forward    component -> output --(tap: `Listener.called`)------------------------> loss
    backward                gradient of the output --(tap: `Listener.reached`)-------- sum over examples

The graph of one batch lives at a time; it takes about the memory of a training step without an optimizer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from energyscope.functions import routed
from energyscope.impact.metrics import Floats
from energyscope.impact.outputs import Masks, first_tensor, mask_of, unsuitable, with_first_tensor
from energyscope.impact.predictions import (
    Positions,
    check_targets,
    compared_outputs,
    positions_in,
)
from energyscope.reasons import Reason, reason
from energyscope.tasks import padding_masks

if TYPE_CHECKING:
    from energyscope.workloads import Evaluation

FP16_SCALE = 2.0**12  # gradients of a token's features fall below what FP16 can hold (Micikevicius et al. 2018)


@dataclass(frozen=True)
class Call:
    """One call of a tapped module in a batch; tensors are detached. ``masks`` tell tokens from padding."""

    module: nn.Module
    inputs: Tensor | None
    output: Tensor
    masks: Masks


class Listener(Protocol):
    """Takes the calls of one module, forwards, and the gradients at their outputs, backwards."""

    def called(self, call: Call) -> None:
        """Take a call, in the forward pass, without gradients."""

    def refused(self, problem: Reason) -> None:
        """Take why a call cannot be listened to."""

    def reached(self, call: Call, gradient: Tensor) -> None:
        """Take the gradient at a call's output, in its shape, float32 or wider."""


Listeners = Mapping[nn.Module, Sequence[Listener]]


class Sums:
    """Sums per example of one quantity over the data: added to call by call, closed batch by batch."""

    def __init__(self) -> None:
        self._parts: list[Floats] = []
        self._current: Tensor | None = None

    def add(self, values: Tensor) -> None:
        """Add what one call contributes to each example of the batch, (B,)."""
        self._current = values if self._current is None else self._current + values

    def close(self, kept: Tensor) -> None:
        """Finish a batch; ``kept`` (B,) says which of its examples count. Without any call they have 0."""
        sums = torch.zeros(len(kept)) if self._current is None else self._current.detach().cpu()
        self._parts.append(sums.double()[kept.cpu()].numpy())
        self._current = None

    def values(self) -> Floats:
        """Return the sums, (examples,)."""
        return np.concatenate(self._parts) if self._parts else np.zeros(0)


def by_example(tensor: Tensor, masks: Masks) -> tuple[Tensor, Tensor] | None:
    """Return values as (B, T, features) and which rows count, (B, T, 1); None where they do not lie by example.

    Understands (B, S, ...), (B * S, features), values (1, S, ...) that serve all examples alike, and pooled
    ones, (B, features) or (B, P, features), whose rows all count.
    """
    mask = mask_of(tensor, masks)
    batch, length = mask.shape
    lead = tuple(tensor.shape[:-1])
    tokens = mask.to(tensor.device, torch.float32).unsqueeze(-1)
    if lead[:2] in ((batch, length), (1, length)):
        return tensor.reshape(lead[0], length, -1).expand(batch, -1, -1), tokens
    if lead == (batch * length,):
        return tensor.reshape(batch, length, -1), tokens
    if lead[:1] == (batch,):
        rows = tensor.reshape(batch, -1, tensor.shape[-1])
        return rows, torch.ones(*rows.shape[:2], 1, device=tensor.device)
    return None


def widened(tensor: Tensor) -> Tensor:
    """Return a floating-point tensor in float32, or as it is where it is wider."""
    return tensor if tensor.element_size() >= 4 else tensor.float()


def batch_losses(model: nn.Module, evaluation: Evaluation, index: int) -> Tensor:
    """Run a batch of the data; return its examples' losses (see `example_losses`), (B,). Embeddings have none."""
    positions = positions_in(evaluation, index)
    return example_losses(compared_outputs(model, evaluation, index, positions), positions)


def example_losses(logits: Tensor, positions: Positions) -> Tensor:
    """Return each example's mean negative log likelihood in nats, (B,); 0 for one without predictions.

    Without targets, that of the model's own most likely answer.

    Raises:
        DataError: a target lies outside the model's classes.

    """
    logits = widened(logits)
    targets = logits.argmax(-1) if positions.targets is None else positions.targets.to(logits.device)
    check_targets(targets, logits.shape[-1])
    nll = nn.functional.cross_entropy(logits, targets, reduction="none")
    mask = positions.mask.to(logits.device)
    dense = torch.zeros(mask.shape, dtype=nll.dtype, device=nll.device).masked_scatter(mask, nll)
    return dense.sum(1) / mask.sum(1).clamp_min(1)


def backward_batch(model: nn.Module, evaluation: Evaluation, index: int, listeners: Listeners) -> Tensor:
    """Run a batch forwards and backwards, telling the listeners; return which examples count, bool (B,).

    An example without predictions (a text of one token) does not count. Use it inside `undisturbed`.
    """
    tap = _Tap(padding_masks(evaluation.batches[index]), loss_scale(model))
    with torch.enable_grad(), tap.listening(listeners):
        losses = batch_losses(model, evaluation, index)
        if tap.leaves and losses.requires_grad:
            # asked of the leaves only, so that nothing is left in any .grad
            torch.autograd.grad(losses.sum() * tap.scale, tap.leaves, allow_unused=True)
    return positions_in(evaluation, index).mask.any(1)


def loss_scale(model: nn.Module) -> float:
    """Return what a loss is multiplied by, so that small gradients survive in FP16."""
    half = any(parameter.dtype == torch.float16 for parameter in model.parameters())
    return FP16_SCALE if half else 1.0


@contextmanager
def undisturbed(model: nn.Module) -> Iterator[None]:
    """Put a model in eval mode with all weights frozen; afterwards every module and weight is as it was."""
    training = [module for module in model.modules() if module.training]
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    try:
        model.eval()
        for parameter in trainable:
            parameter.requires_grad_(False)
        with torch.inference_mode(mode=False):
            yield
    finally:
        for module in training:
            module.training = True
        for parameter in trainable:
            parameter.requires_grad_(True)


class _Tap:
    """The hooks of one batch. ``leaves`` are the tensors where the graph begins."""

    def __init__(self, masks: Masks, scale: float) -> None:
        self.masks = masks
        self.scale = scale
        self.leaves: list[Tensor] = []

    @contextmanager
    def listening(self, listeners: Listeners) -> Iterator[None]:
        with ExitStack() as stack:
            for module, its_listeners in listeners.items():
                handle = module.register_forward_hook(self._hook(its_listeners), with_kwargs=True)
                stack.callback(handle.remove)
            stack.enter_context(routed(listeners))
            yield

    def _hook(self, listeners: Sequence[Listener]) -> Callable[..., Any]:
        def hook(module: nn.Module, args: Any, kwargs: dict[str, Any], output: Any) -> Any:
            original = first_tensor(output)
            problem = _why_untapped(original)
            if problem is not None or original is None:
                for listener in listeners:
                    listener.refused(problem or unsuitable(original))
                return output
            tensor = self._with_gradient(self._for_each_example(original))
            inputs = first_tensor(args)
            inputs = first_tensor(kwargs) if inputs is None else inputs
            call = Call(module, None if inputs is None else inputs.detach(), tensor.detach(), self.masks)
            with torch.no_grad():
                for listener in listeners:
                    listener.called(call)
            tensor.register_hook(self._gradient_hook(call, listeners))  # type: ignore[no-untyped-call]
            return output if tensor is original else with_first_tensor(output, tensor)

        return hook

    def _gradient_hook(self, call: Call, listeners: Sequence[Listener]) -> Callable[[Tensor], None]:
        version = call.output._version  # noqa: SLF001  a detached tensor counts changes with its original

        def reached(gradient: Tensor) -> None:
            if call.output._version != version:  # noqa: SLF001
                for listener in listeners:
                    listener.refused(reason("output-overwritten"))
                return
            unscaled = widened(gradient) if self.scale == 1 else widened(gradient) / self.scale
            for listener in listeners:
                listener.reached(call, unscaled)

        return reached

    def _for_each_example(self, tensor: Tensor) -> Tensor:
        """Give every example its own rows of an output that serves all alike, so that gradients stay apart."""
        batch, length = mask_of(tensor, self.masks).shape
        if batch > 1 and tuple(tensor.shape[:2]) == (1, length) and tensor.dim() > 2:
            return tensor.expand(batch, *tensor.shape[1:]).clone()
        return tensor

    def _with_gradient(self, tensor: Tensor) -> Tensor:
        if tensor.requires_grad:
            return tensor
        leaf = tensor.detach().requires_grad_()
        self.leaves.append(leaf)
        return leaf.clone()  # the model may write into its own tensor, but not into a leaf


def _why_untapped(output: Tensor | None) -> Reason | None:
    if output is None or not output.is_floating_point() or output.dim() < 2:
        return unsuitable(output)
    if not torch.is_grad_enabled():
        return reason("gradients-off")
    return None
