"""Ablate: what every component is worth to the predictions, by changing it and nothing else.

One pass over the data prepares all: it notes the original's predictions, gathers every component's mean output
and keeps what each layer is given. Then every change is made by itself, in passes that begin at the layer in which
it is made, and the predictions are compared example by example.

Removal tells how *critical* a component is, quantization how *sensitive* (`energyscope.impact.methods`).

Changes do not depend on each other. A stage that was stopped goes on with those that are missing, if the
original's outputs are bit by bit what they were and the last finished change gives what it gave.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from energyscope.components import ComponentTree, component_tree
from energyscope.errors import DeviceError, ModelError, UsageError
from energyscope.failures import device_failed, first_line
from energyscope.impact.adaptive import EarlyStopping
from energyscope.impact.changer import UNREACHED, Changer, Measurement, impact_rows
from energyscope.impact.examples import pack, unpack, write_examples
from energyscope.impact.methods import DEFAULT_METHODS, METHODS, SIMULATED
from energyscope.impact.outputs import checksum
from energyscope.impact.plan import Intervention, further_interventions, singles
from energyscope.impact.predicting.predictors import predict
from energyscope.impact.predicting.weight_gradients import simulated_errors
from energyscope.impact.predictions import Reference, memory_share
from energyscope.impact.removal import BY_INPUT, MeanGatherer
from energyscope.impact.reuse import LayerStarts
from energyscope.impact.upstream_check import UpstreamCheck
from energyscope.progress import Progress, silent
from energyscope.reasons import Reason, reason
from energyscope.runs import schema
from energyscope.runs.files import json_ready
from energyscope.runs.schema import ImpactRow
from energyscope.runs.store import RunStore, read_journal
from energyscope.stages.context import Context, Entries
from energyscope.stages.session import Journal
from energyscope.tasks import padding_masks

if TYPE_CHECKING:
    from energyscope.workloads import Evaluation

STAGE = "ablate"
ORIGINAL = "original"  # of a journal's entry: the digest of what the unchanged model gave


def run(context: Context) -> Reason | None:
    """Ablate a run's model on its evaluation data; return why that is skipped."""
    if context.evaluation is None:
        return context.no_evaluation
    settings, store = context.settings, context.store
    model, adapter = context.loaded.model, context.loaded.adapter
    tree = component_tree(model, adapter, settings.granularity)
    more = further_interventions(
        model, tree, adapter, settings.methods, joint=settings.joint, per_head=settings.heads
    )
    try:
        result = ablate(
            model,
            tree,
            context.evaluation,
            methods=settings.methods,
            more=more,
            adaptive=settings.adaptive,
            seed=settings.seed,
            predictors=settings.predict,
            earlier=[entry for entry in read_journal(store.path) if entry.get("stage") == STAGE],
            journal=store.journal,
            progress=context.progress,
        )
    except ModelError as error:  # the model was not the same all along: no row of it can be used
        store.journal({"stage": STAGE, "void": reason("failed", error=error)})
        raise
    store.document["workload"]["evaluation"]["baseline"] = result.baseline
    store.document["warnings"] += result.notes
    write(store, read_journal(store.path))
    return None


def write(store: RunStore, entries: Entries) -> bool:
    """Write the impact table; False if no ablation was finished, or if the stage declared them all void."""
    if any("void" in entry for entry in entries):
        return False
    latest = {  # by changed component and method, which all rows of an entry have in common
        (str(entry["rows"][0]["component"]), str(entry["rows"][0]["method"])): entry
        for entry in entries
        if entry.get("stage") == STAGE and entry.get("rows")
    }
    if not latest:
        return False
    rows = [row for entry in latest.values() for row in entry["rows"]]
    store.write_rows(schema.IMPACT_FILE, rows, schema.IMPACT_COLUMNS)
    examples = [(*key, unpack(entry["examples"])) for key, entry in latest.items() if entry.get("examples")]
    if examples:
        evaluation = store.document.get("workload", {}).get("evaluation") or {}
        write_examples(store.path / schema.EXAMPLES_FILE, examples, evaluation.get("order"))
    store.update()
    return True


@dataclass
class AblationResult:
    """The finished rows, the original's quality, and what a reader should know of the stage itself.

    ``baseline`` holds ``accuracy`` or ``perplexity``, the number of ``examples``, and of ``tokens`` predicted
    where the task predicts tokens.
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
    earlier: Entries = (),
    journal: Journal = lambda _: None,
    progress: Progress = silent,
) -> AblationResult:
    """Change every component of the tree but the root, one at a time, and compare the model's predictions.

    ``more`` are further changes: of heads, or of several components together (`energyscope.impact.plan`).
    With ``adaptive`` a component is measured only until its place in the ranking is clear; with
    ``predictors`` the rows of cheap predictors come last (`energyscope.impact.predicting.predictors`).
    ``journal`` gets the rows of a (component, method), and its packed outcomes by example, as soon as they are
    finished; ``earlier`` is what it got from a stage that was stopped. Intervals are bootstrapped over examples,
    with the same resamples for every component. The model is put in eval mode.

    Raises:
        UsageError: there is no such method.
        DataError: the data leave nothing to predict, or do not fit the model.
        ModelError: the unchanged outputs are not finite, or the model did not come back as it was.
        DeviceError: the device has too little memory.

    """
    _check(methods)
    model.eval()
    plan = [*singles(tree, methods), *more]

    def finished(changes: Sequence[Intervention]) -> Iterator[dict[str, Any]]:
        for measurement in _measured(changes, prepared, looks, progress):
            rows = impact_rows(measurement, prepared.reference, seed)
            outcomes = measurement.outcomes(prepared.reference.sizes())
            yield {"stage": STAGE, "rows": rows, "examples": None if outcomes is None else pack(outcomes)}

    try:
        progress(STAGE, "the original's predictions", 0, len(plan))
        looks = EarlyStopping(len(evaluation.batches), adaptive=adaptive, seed=seed)
        prepared = _prepare(model, tree, evaluation, plan, looks)
        result = AblationResult([], prepared.reference.baseline(), prepared.notes())
        original = prepared.original()
        kept = {} if adaptive else kept_entries(earlier, original, plan)  # adaptive compares all with each other
        if not kept or not _given_again(kept, finished, plan):
            kept = {}
            _begin(journal, original, again=bool(earlier))
        result.rows.extend(ImpactRow(**row) for entry in kept.values() for row in entry["rows"])
        for entry in finished([change for change in plan if change.key not in kept]):
            result.rows.extend(entry["rows"])
            journal(entry)
        progress(STAGE, "the original's predictions, again", len(plan), len(plan))
        result.notes.extend(check_restored(prepared.reference))
        if predictors:
            progress(STAGE, "predictors", len(plan), len(plan))
            if rows := _predicted(model, tree, evaluation, methods, result.notes, seed):
                result.rows.extend(rows)
                journal({"stage": STAGE, "rows": rows, "examples": None})
    except torch.OutOfMemoryError as error:
        raise DeviceError(
            "out of memory while ablating: free memory on the device, or give shorter texts with --data"
        ) from error
    return result


def kept_entries(
    earlier: Entries, original: str, plan: Sequence[Intervention]
) -> dict[tuple[str, str], Mapping[str, Any]]:
    """Return what a stopped stage finished, by component and method in its order; nothing if it cannot be used.

    It can if the original's outputs were the ``original`` ones, and the stage declared nothing void.
    """
    if not any(entry.get(ORIGINAL) == original for entry in earlier) or any("void" in entry for entry in earlier):
        return {}
    wanted = {change.key for change in plan}
    entries = [entry for entry in earlier if entry.get("rows")]
    keys = [(str(entry["rows"][0]["component"]), str(entry["rows"][0]["method"])) for entry in entries]
    return {key: entry for key, entry in zip(keys, entries, strict=True) if key in wanted}


def _begin(journal: Journal, original: str, *, again: bool) -> None:
    """Note what the original gives, and that what another process finished before does not count."""
    if again:
        journal({"stage": STAGE, schema.BEGUN_AGAIN: True})
    journal({"stage": STAGE, ORIGINAL: original})


def _given_again(
    kept: Mapping[tuple[str, str], Mapping[str, Any]],
    finished: Callable[[Sequence[Intervention]], Iterator[Mapping[str, Any]]],
    plan: Sequence[Intervention],
) -> bool:
    """Tell whether the last finished change gives what it gave: till then nothing of a change had stayed."""
    key = list(kept)[-1]
    [again] = finished([change for change in plan if change.key == key])
    return bool(json.loads(json.dumps(json_ready(again))) == kept[key])


@dataclass
class _Prepared:
    """What the unchanged pass over the data gave."""

    reference: Reference
    starts: LayerStarts
    changer: Changer

    def original(self) -> str:
        """Return a digest of the original's outputs, and of whether passes begin at the layer that is changed."""
        told = repr((self.reference.checksums, bool(self.starts.reason)))
        return hashlib.sha256(told.encode()).hexdigest()[:16]

    def notes(self) -> list[Reason]:
        why = self.starts.reason if len(self.starts.layers) > 1 else None
        return [] if why is None else [reason("whole-passes", why=why)]


def _prepare(
    model: nn.Module,
    tree: ComponentTree,
    evaluation: Evaluation,
    plan: Sequence[Intervention],
    looks: EarlyStopping,
) -> _Prepared:
    parts = {target.part.name: target.part for change in plan for target in change.targets}
    by_input = [name for name, part in parts.items() if part.kind in BY_INPUT]
    gatherer = MeanGatherer({name: part.module for name, part in parts.items()}, by_input)
    tokens = [sum(mask.numel() for mask in padding_masks(batch)) for batch in evaluation.batches]
    starts = LayerStarts(tree, tokens, memory_share(evaluation) if evaluation.batches else 0)
    witness = UpstreamCheck(tree)

    @contextmanager
    def watching(index: int) -> Iterator[None]:
        with starts.recording(index), gatherer.listening(padding_masks(evaluation.batches[index])):
            yield

    reference = Reference(model, evaluation, watching=watching)
    proof_batch = looks.first_batch()
    for _ in range(2):
        with witness.recording_unchanged():
            reference.run(proof_batch)
    _try_starts(starts, reference, proof_batch)
    return _Prepared(reference, starts, Changer(model, reference, starts, gatherer.means, witness, proof_batch))


def _try_starts(starts: LayerStarts, reference: Reference, index: int) -> None:
    """Compare passes that begin at a layer with the full one, after a pass over other tokens.

    A layer that reads what an earlier one has stored (shared keys and values, say) would find what another pass
    stored.
    """
    places = starts.kept_starts(index)
    for place in {places[0], places[len(places) // 2], places[-1]} if places else ():
        reference.run_other_inputs(index)
        with starts.beginning(index, place):
            same = checksum(reference.run(index)) == reference.checksums[index]
        if not same:
            starts.give_up(reason("partial-pass-differs"))
            return


def _measured(
    plan: Sequence[Intervention], prepared: _Prepared, looks: EarlyStopping, progress: Progress
) -> Iterator[Measurement]:
    """Yield every change's measurement once it is finished: after all batches, or when its rank is clear."""
    pending: Sequence[Intervention | Measurement] = plan
    for share in looks:
        unfinished = []
        for number, change in enumerate(pending):
            done = len(plan) - len(pending) + (number if share.last else 0)
            component, method = (change.intervention if isinstance(change, Measurement) else change).key
            progress(STAGE, f"{component} ({method})", done, len(plan))
            # begun one at a time: quantized layers take memory
            measurement = change if isinstance(change, Measurement) else prepared.changer.begin(change)
            prepared.changer.go_on(measurement, share.batches)
            problem = measurement.problem()
            if share.last or (problem and problem != UNREACHED):  # other examples may show an effect
                yield measurement
            else:
                unfinished.append(measurement)
        settled = {measurement for measurement in looks.settled(unfinished) if measurement.reached}
        yield from (measurement for measurement in unfinished if measurement in settled)
        pending = [measurement for measurement in unfinished if measurement not in settled]


def _predicted(
    model: nn.Module,
    tree: ComponentTree,
    evaluation: Evaluation,
    methods: Sequence[str],
    notes: list[Reason],
    seed: int,
) -> list[ImpactRow]:
    """Return the rows of cheap predictors; without a loss, or memory for gradients, none, which is noted."""
    if evaluation.rules.similarity:
        notes.append(reason("no-loss-of-embeddings"))
        return []
    errors = {method: simulated_errors(method) for method in methods if method in SIMULATED}
    try:
        return predict(model, tree, evaluation, weight_errors=errors, seed=seed)
    except torch.OutOfMemoryError:
        notes.append(reason("backward-out-of-memory"))
    except RuntimeError as error:  # a kernel without a backward pass, say
        if device_failed(error):
            raise
        notes.append(reason("backward-fails", error=first_line(error)))
    return []


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
