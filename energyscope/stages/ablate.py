"""Ablate: what every component is worth to the predictions, by changing it and nothing else.

One pass over the data prepares all: it notes the original's predictions, gathers every component's mean output
and keeps what each layer is given. Then every change is made by itself, in passes that begin at the layer in which
it is made, and the predictions are compared example by example.

Removal tells how *critical* a component is, quantization how *sensitive* (`energyscope.impact.methods`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import nn

from energyscope.components import ComponentTree
from energyscope.errors import DeviceError, ModelError, UsageError
from energyscope.failures import device_failed, first_line
from energyscope.impact.adaptive import Looks
from energyscope.impact.changing import Changer, Measurement, impact_rows
from energyscope.impact.methods import DEFAULT_METHODS, METHODS, SIMULATED
from energyscope.impact.metrics import Outcomes
from energyscope.impact.outputs import checksum
from energyscope.impact.plan import Intervention, singles
from energyscope.impact.predicting.predictors import predict
from energyscope.impact.predicting.weight_gradients import simulated_errors
from energyscope.impact.predictions import Reference, attention_mask, memory_share
from energyscope.impact.proof import Witness
from energyscope.impact.removal import MeanGatherer
from energyscope.impact.reuse import LayerStarts
from energyscope.reasons import Reason, reason
from energyscope.runs.schema import ImpactRow

if TYPE_CHECKING:
    from energyscope.workloads import Evaluation

Progress = Callable[[str, int, int], None]
OnFinished = Callable[[list[ImpactRow], Outcomes | None], None]


@dataclass
class AblationResult:
    """The finished rows, the original's quality, and what a reader should know of the stage itself.

    ``baseline`` holds ``accuracy`` or ``perplexity``, the number of ``examples``, and of ``tokens`` predicted
    where the task is the next token.
    """

    rows: list[ImpactRow]
    baseline: dict[str, float]
    notes: list[Reason] = field(default_factory=list)


def ablate(  # noqa: PLR0913  each is a choice of the caller's, named at the call
    model: nn.Module,
    tree: ComponentTree,
    evaluation: Evaluation,
    *,
    methods: Sequence[str] = DEFAULT_METHODS,
    more: Sequence[Intervention] = (),
    adaptive: bool = False,
    predictors: bool = False,
    seed: int = 0,
    on_finished: OnFinished | None = None,
    progress: Progress | None = None,
    done: Collection[tuple[str, str]] = (),
) -> AblationResult:
    """Change every component of the tree but the root, one at a time, and compare the model's predictions.

    ``more`` are changes beside these: of heads, or of several components together (`energyscope.impact.plan`).
    With ``adaptive`` a component is not looked at any further once its place in the ranking is clear; with
    ``predictors`` the rows of cheap predictors come last (`energyscope.impact.predicting.predictors`).
    ``on_finished`` gets the rows of a (component, method), and its numbers by example, as soon as they are
    finished; ``progress`` gets (what comes next, how many are finished, how many there are); pairs in ``done`` are
    left out. Intervals are bootstrapped over examples, with the same resamples for every component. The model
    is put in eval mode.

    Raises:
        UsageError: there is no such method.
        DataError: the data leave nothing to predict, or do not fit the model.
        ModelError: the unchanged outputs are not finite, or the model did not come back as it was.
        DeviceError: the device has too little memory.

    """
    _check(methods)
    model.eval()
    report = progress or _silent
    wanted = [one for one in (*singles(tree, methods), *more) if one.key not in done]
    try:
        report("the original's predictions", 0, len(wanted))
        looks = Looks(len(evaluation.batches), adaptive=adaptive, seed=seed)
        prepared = _prepare(model, tree, evaluation, wanted, looks)
        result = AblationResult([], prepared.reference.baseline(), prepared.notes())
        for measured in _measured(wanted, prepared, looks, report):
            rows = impact_rows(measured, prepared.reference, seed)
            result.rows.extend(rows)
            if on_finished:
                on_finished(rows, measured.outcomes(prepared.reference.sizes()))
        report("the original's predictions, again", len(wanted), len(wanted))
        result.notes.extend(check_restored(prepared.reference))
        if predictors:
            report("predictors", len(wanted), len(wanted))
            result.rows.extend(_predicted(model, tree, evaluation, methods, on_finished, result.notes, seed))
    except torch.OutOfMemoryError as error:
        raise DeviceError(
            "out of memory while ablating: free memory on the device, or give shorter texts with --data"
        ) from error
    return result


@dataclass
class _Prepared:
    """What the unchanged pass over the data gave."""

    reference: Reference
    starts: LayerStarts
    changer: Changer

    def notes(self) -> list[Reason]:
        why = self.starts.reason if len(self.starts.layers) > 1 else None
        return [] if why is None else [reason("whole-passes", why=why)]


def _prepare(
    model: nn.Module, tree: ComponentTree, evaluation: Evaluation, wanted: Sequence[Intervention], looks: Looks
) -> _Prepared:
    gatherer = MeanGatherer({target.part.name: target.part.module for one in wanted for target in one.targets})
    tokens = [batch["input_ids"].numel() for batch in evaluation.batches]
    starts = LayerStarts(tree, tokens, memory_share(evaluation) if evaluation.batches else 0)
    witness = Witness(tree)

    @contextmanager
    def watching(index: int) -> Iterator[None]:
        with starts.recording(index), gatherer.listening(attention_mask(evaluation.batches[index])):
            yield

    reference = Reference(model, evaluation, watching=watching)
    proof_batch = looks.first_batch()
    for _ in range(2):
        with witness.noting():
            reference.run(proof_batch)
    _try_starts(starts, reference, proof_batch)
    return _Prepared(reference, starts, Changer(model, reference, starts, gatherer.means, witness, proof_batch))


def _try_starts(starts: LayerStarts, reference: Reference, index: int) -> None:
    """Compare passes that begin at a layer with the full one, after a pass over other tokens.

    A layer that reads what an earlier one has left aside (shared keys and values, say) would find what another
    pass has left there.
    """
    places = starts.kept_starts(index)
    for place in {places[0], places[len(places) // 2], places[-1]} if places else ():
        reference.run_other_tokens(index)
        with starts.beginning(index, place):
            same = checksum(reference.run(index)) == reference.checksums[index]
        if not same:
            starts.give_up(reason("partial-pass-differs"))
            return


def _measured(
    wanted: Sequence[Intervention], prepared: _Prepared, looks: Looks, report: Progress
) -> Iterator[Measurement]:
    """Yield every change's measurement once it is finished: after all batches, or when its rank is clear."""
    open_ones: Sequence[Intervention | Measurement] = wanted
    for share in looks:
        still_open = []
        for number, one in enumerate(open_ones):
            finished = len(wanted) - len(open_ones) + (number if share.last else 0)
            component, method = (one.intervention if isinstance(one, Measurement) else one).key
            report(f"{component} ({method})", finished, len(wanted))
            # begun one at a time: quantized layers take memory
            measurement = one if isinstance(one, Measurement) else prepared.changer.begin(one)
            prepared.changer.go_on(measurement, share.batches)
            if share.last or measurement.problem():
                yield measurement
            else:
                still_open.append(measurement)
        settled = looks.settled(still_open)
        yield from (measurement for measurement in still_open if measurement in settled)
        open_ones = [measurement for measurement in still_open if measurement not in settled]


def _predicted(
    model: nn.Module,
    tree: ComponentTree,
    evaluation: Evaluation,
    methods: Sequence[str],
    on_finished: OnFinished | None,
    notes: list[Reason],
    seed: int,
) -> list[ImpactRow]:
    """Return the rows of cheap predictors; without memory for gradients none, which is noted."""
    errors = {method: simulated_errors(method) for method in methods if method in SIMULATED}
    try:
        rows = predict(model, tree, evaluation, weight_errors=errors, seed=seed)
    except torch.OutOfMemoryError:
        notes.append(reason("backward-out-of-memory"))
        return []
    except RuntimeError as error:  # a kernel without a backward pass, say
        if device_failed(error):
            raise
        notes.append(reason("backward-fails", error=first_line(error)))
        return []
    if on_finished:
        on_finished(rows, None)
    return rows


def check_restored(reference: Reference) -> list[Reason]:
    """Run the original once more and compare its outputs bit by bit with those before the stage.

    Returns a note if they differ but do so between any two passes, as nondeterministic kernels make them.

    Raises:
        ModelError: they differ although the model repeats itself: something of an ablation has stayed.

    """
    again = reference.sums()
    if again == reference.checksums:
        return []
    if again == reference.sums():
        raise ModelError(
            "the model's outputs are not what they were before the ablations: its rows cannot be used"
        )
    return [reason("outputs-vary")]


def _check(methods: Sequence[str]) -> None:
    unknown = [method for method in methods if method not in METHODS]
    if unknown or not methods:
        asked = ", ".join(map(repr, unknown)) or "none at all"
        raise UsageError(f"no such ablation method: {asked} (known: {', '.join(METHODS)})")


def _silent(_what: str, _finished: int, _of: int) -> None:
    """Tell nobody."""
