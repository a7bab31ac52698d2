"""Benchmark: the whole model at each precision, batch size and length, in shuffled blocks of trials.

Over the host's clock:

    load, try and judge every precision | idle | block 1: each cell once, shuffled | idle | block 2: ...

A cell is one precision at one batch size and length; a trial of it is a warm-up and a timed loop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import torch

from energyscope.benchmarking.context import BenchmarkContext
from energyscope.benchmarking.model_cache import ModelCache, fit_together
from energyscope.benchmarking.summary import by_preference, cells
from energyscope.errors import DeviceError, ModelError
from energyscope.loading import LoadedModel, variants
from energyscope.loading.devices import free_bytes
from energyscope.loading.options import LoadSettings
from energyscope.metering.group import MeterGroup
from energyscope.progress import Progress, silent
from energyscope.reasons import Reason, reason, words
from energyscope.runs import schema
from energyscope.runs.store import RunStore, read_journal
from energyscope.settings.benchmark import AUTO, USUAL, BenchmarkSettings
from energyscope.stages.candidates import STAGE, Candidates
from energyscope.stages.context import Context, Entries, metered
from energyscope.stages.session import Journal
from energyscope.stages.trials import Trials

if TYPE_CHECKING:
    from energyscope.workloads import Evaluation

CALIBRATION_BATCHES = 4


def run(context: Context) -> Reason | None:
    """Do a run's benchmark, at its batch size and length where no others are named; return why it is skipped.

    Raises:
        ModelError: no trial could be measured.

    """
    settings, workload = context.settings, context.workload
    if len(context.loaded.devices) > 1:
        return reason("offloaded-model" if context.loaded.offloaded else "spread-model")
    with metered(context, STAGE) as meter:
        benchmark(
            context.loaded,
            context.evaluation,
            meter,
            replace(
                settings.benchmark,
                execution=settings.executions[0],
                batch_sizes=settings.benchmark.batch_sizes or (workload.batch_size,),
                sequence_lengths=settings.benchmark.sequence_lengths or (workload.sequence_length,),
            ),
            settings.model,
            settings.loading(settings.precision, context.loaded.devices),
            journal=context.store.journal,
            progress=context.progress,
        )
    entries = read_journal(context.store.path)
    if not write(context.store, entries):
        notes = [words(entry["note"]) for entry in entries if "note" in entry]
        raise ModelError(f"no trial of the benchmark could be measured ({'; '.join(notes[:2])})")
    return None


def write(store: RunStore, entries: Entries) -> bool:
    """Write the table of trials and what follows from them; False if no trial was finished."""
    rows, document = recover(entries)
    if not rows:
        return False
    why_none = (store.document.get("workload") or {}).get("evaluation_reason")
    store.write_rows(schema.BENCHMARK_FILE, rows, schema.BENCHMARK_COLUMNS)
    store.write_json(
        schema.BENCHMARK_JSON, {**document, "predictions_reason": None if document["predictions"] else why_none}
    )
    store.update()
    return True


def benchmark(  # noqa: PLR0913  what is measured, how it is loaded, and with what
    loaded: LoadedModel,
    evaluation: Evaluation | None,
    meter: MeterGroup,
    settings: BenchmarkSettings,
    reference: str,
    loading: LoadSettings,
    *,
    journal: Journal,
    progress: Progress = silent,
) -> None:
    """Measure a model at every precision on started meters; what is finished goes to ``journal`` at once.

    ``loaded`` is the model as the run has it: it serves as its own precision, and its tokenizer read the data.
    Without ``evaluation`` no predictions are judged. ``settings`` names the batch sizes and lengths.
    `recover` makes the tables of the entries.

    Raises:
        UsageError: a precision is unknown.
        DeviceError: a precision that was asked for by name cannot be done on this device.
        ModelError: no precision could be measured.
        MeterError: the meter was lost.

    """
    names, skipped = chosen_precisions(settings.precisions, loaded.device)

    def keep(entry: Mapping[str, Any]) -> None:
        journal({"stage": STAGE, **entry})

    keep({"header": {"settings": {**asdict(settings), "seed": loading.seed}}})
    for entry in skipped:
        keep({"skipped": entry})
    own = variants.as_variant(loaded)
    loaded_already = {loaded.precision: own} if own is not None and loaded.precision in names else {}
    here = replace(loading, device=str(loaded.device), device_map=None, devices=(), tensor_parallel=False)
    sizes = [
        variants.estimated_bytes(reference, name, device=here.device, trust_remote_code=loading.trust_remote_code)
        for name in names
        if name not in loaded_already
    ]
    model_cache = ModelCache(
        lambda name: variants.load_variant(reference, name, here, calibration=_calibration(evaluation)),
        loaded.device,
        together=fit_together(sizes, free_bytes(loaded.device)),
        given=loaded_already,
    )
    context = BenchmarkContext(settings, loaded, evaluation, meter, model_cache, keep, progress, loading.seed)
    if not model_cache.together:
        keep({"note": reason("models-loaded-in-turn")})
    candidates = Candidates(context)
    measurable = candidates.cells(by_preference(names))
    if not measurable:
        failures = "; ".join(f"{name}: {why.words}" for name, why in candidates.failures.items())
        raise ModelError(f"no precision could be benchmarked ({failures})")
    Trials(context, sorted(measurable, key=lambda cell: names.index(cell.precision))).run()
    model_cache.clear()


def chosen_precisions(requested: Sequence[str], device: torch.device) -> tuple[list[str], list[dict[str, str]]]:
    """Return the precisions to measure, and with their reasons those that ``auto`` leaves out.

    Raises:
        UsageError: a name is unknown.
        DeviceError: one that was asked for by name cannot be done on this device.

    """
    automatic = tuple(requested) == AUTO
    names, skipped = list[str](), list[dict[str, str]]()
    for name in dict.fromkeys(USUAL[device.type] if automatic else requested):
        why = variants.unsupported(name, device)
        if why is None:
            names.append(name)
        elif automatic:
            skipped.append({"precision": name, "reason": why})
        else:
            raise DeviceError(f"{name} cannot be measured here: {words(why)}")
    return names, skipped


def _calibration(evaluation: Evaluation | None) -> tuple[Mapping[str, Any], ...]:
    """Return a few batches, evenly over the lengths by which they are ordered."""
    batches = () if evaluation is None else evaluation.batches
    number = min(CALIBRATION_BATCHES, len(batches))
    return tuple(batches[(2 * index + 1) * len(batches) // (2 * number)] for index in range(number))


def recover(entries: Entries) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Make the rows of benchmark_results.csv and benchmark.json of journalled entries, however many there are."""
    own = [entry for entry in entries if entry.get("stage") == STAGE]

    def values(key: str) -> list[Any]:
        return [entry[key] for entry in own if key in entry]

    header: Mapping[str, Any] = next(iter(values("header")), {})
    baseline = next(iter(values("baseline")), None)
    predictions = {entry["precision"]: _against(entry, baseline) for entry in values("prediction")}
    rows = [_with_predictions(row, predictions.get(row["precision"])) for row in values("row")]
    others = sorted({bystander for names in values("bystanders") for bystander in names})
    idle_w = [value for value in values("idle_w") if value is not None]
    document = {
        "settings": header.get("settings", {}),
        "baseline": baseline,
        "models": values("model"),
        "skipped": values("skipped"),
        "cells": cells(_in_order(rows), baseline, others),
        "predictions": list(predictions.values()),
        "idle_w": sum(idle_w) / len(idle_w) if idle_w else None,
        "notes": [*values("note"), *others],
        "trials": rows,
    }
    return rows, document


def _against(entry: Mapping[str, Any], baseline: str | None) -> dict[str, Any]:
    """Return a prediction without its comparison, where that is with another precision than the rest's."""
    if entry.get("against") in {None, baseline}:
        return dict(entry)
    return {**entry, "difference": None, "kl": None, "agreement": None}


def _in_order(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the rows as a reader expects them, whatever order they were shuffled into."""
    known = {name: number for number, name in enumerate(variants.VARIANTS)}

    def place(row: Mapping[str, Any]) -> tuple[Any, ...]:
        precision = known.get(row["precision"], len(known))
        return row["sequence_length"], row["batch_size"], precision, row["trial"]

    return sorted(rows, key=place)


def _with_predictions(row: Mapping[str, Any], judged: Mapping[str, Any] | None) -> dict[str, Any]:
    if judged is None or judged["value"] is None:
        return dict(row)
    value = judged["value"]["value"]
    if judged["metric"] == "perplexity":
        return {**row, "perplexity": value}
    correct, examples = judged["correct"], judged["examples"]
    return {**row, "accuracy": value, "num_correct": correct, "num_samples_accuracy": examples}
