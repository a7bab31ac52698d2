"""Benchmark: the whole model at each precision, batch size and length, in shuffled blocks of trials.

Over the host's clock:

    load, try and judge every precision | idle | block 1: each cell once, shuffled | idle | block 2: ...

A cell is one precision at one batch size and length; a trial of it is a warm-up and a timed loop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from energyscope.benchmarking.context import BenchmarkContext
from energyscope.benchmarking.model_cache import ModelCache, fit_together
from energyscope.benchmarking.summary import by_preference, cells
from energyscope.errors import DeviceError, ModelError
from energyscope.loading import LoadedModel, variants
from energyscope.loading.devices import free_bytes
from energyscope.loading.options import LoadSettings
from energyscope.loading.variants import Variant
from energyscope.metering.group import MeterGroup
from energyscope.progress import Progress, silent
from energyscope.reasons import Reason, reason, words
from energyscope.runs import schema
from energyscope.runs.store import RunStore, read_journal
from energyscope.settings.benchmark import AUTO, USUAL, BenchmarkSettings
from energyscope.stages.candidates import STAGE, Candidates
from energyscope.stages.context import Context, Entries, metered
from energyscope.stages.session import Journal
from energyscope.stages.trials import Trials, whole_blocks
from energyscope.unknown import mean

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
                sequence_lengths=settings.benchmark.sequence_lengths or (workload.length,),
            ),
            settings.model,
            settings.loading(settings.precision, context.loaded.devices),
            journal=context.store.journal,
            progress=context.progress,
            earlier=[entry for entry in read_journal(context.store.path) if entry.get("stage") == STAGE],
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
    earlier: Entries = (),
) -> None:
    """Measure a model at every precision on started meters; each finished trial goes to ``journal`` at once.

    ``loaded`` is the run's model: it serves as its own precision, and its tokenizer read the data. Without
    ``evaluation`` no predictions are judged. ``settings`` names the batch sizes and lengths.
    `recover` makes the tables of the entries. ``earlier`` entries are those of a benchmark that was cut off: its
    whole blocks stay where the same cells can be measured now; models are tried and judged again.

    Raises:
        UsageError: a precision is unknown.
        DeviceError: a precision that was asked for by name cannot be done on this device.
        ModelError: no precision could be measured.
        MeterError: the meter was lost.

    """
    names, skipped = chosen_precisions(settings.precisions, loaded.device)

    def keep(entry: Mapping[str, Any]) -> None:
        journal({"stage": STAGE, **entry})

    found: list[Mapping[str, Any]] = [{"header": {"settings": {**asdict(settings), "seed": loading.seed}}}]
    found += [{"skipped": entry} for entry in skipped]
    model_cache = _model_cache(loaded, names, evaluation, reference, loading)
    context = BenchmarkContext(
        settings, loaded, evaluation, meter, model_cache, found.append, progress, loading.seed
    )
    if not model_cache.together:
        found.append({"note": reason("models-loaded-in-turn")})
    candidates = Candidates(context)
    measurable = candidates.cells(by_preference(names))
    if not measurable:
        failures = "; ".join(f"{name}: {why.words}" for name, why in candidates.failures.items())
        raise ModelError(f"no precision could be benchmarked ({failures})")
    finished = whole_blocks(earlier, measurable)
    if earlier:
        keep({schema.BEGUN_AGAIN: True, **({schema.KEPT_BEFORE: finished + 1} if finished else {})})
    for entry in found:
        keep(entry)
    ordered = sorted(measurable, key=lambda cell: names.index(cell.precision))
    Trials(replace(context, keep=keep), ordered, finished).run()
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


def _model_cache(
    loaded: LoadedModel, names: Sequence[str], evaluation: Evaluation | None, reference: str, loading: LoadSettings
) -> ModelCache:
    """Return the models of all precisions; the run's own model serves as its own precision."""
    device, own = loaded.device, variants.as_variant(loaded)
    given = {loaded.precision: own} if own is not None and loaded.precision in names else {}
    estimated_bytes = partial(
        variants.estimated_bytes,
        device=str(device),
        trust_remote_code=loading.trust_remote_code,
        adapter=loading.adapter,
    )
    sizes = [estimated_bytes(reference, name) for name in names if name not in given]
    return ModelCache(
        partial(_load, reference=reference, loading=loading, device=device, evaluation=evaluation),
        device,
        together=fit_together(sizes, free_bytes(device)),
        given=given,
    )


def _load(
    precision: str, *, reference: str, loading: LoadSettings, device: torch.device, evaluation: Evaluation | None
) -> Variant:
    """Return the model in a precision, on the device of the benchmark."""
    at_device = replace(loading, device=str(device), device_map=None, devices=(), tensor_parallel=False)
    return variants.load_variant(reference, precision, at_device, calibration=_calibration(evaluation))


def _calibration(evaluation: Evaluation | None) -> tuple[Mapping[str, Any], ...]:
    """Return a few batches, evenly over the lengths by which they are ordered."""
    batches = () if evaluation is None else evaluation.batches
    number = min(CALIBRATION_BATCHES, len(batches))
    return tuple(batches[(2 * index + 1) * len(batches) // (2 * number)] for index in range(number))


def recover(entries: Entries) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Make the rows of benchmark_results.csv and benchmark.json of journalled entries, however many there are."""
    own = [entry for entry in entries if entry.get("stage") == STAGE]
    begin = max((place for place, entry in enumerate(own) if "header" in entry), default=0)
    own = [entry for place, entry in enumerate(own) if place >= begin or "pass" in entry]  # see `whole_blocks`

    def values(key: str) -> list[Any]:
        return [entry[key] for entry in own if key in entry]

    header: Mapping[str, Any] = next(iter(values("header")), {})
    baseline = next(iter(values("baseline")), None)
    uncompared = {"difference": None, "kl": None, "agreement": None}
    predictions = {  # one that was compared with another precision than the rest loses its comparison
        entry["precision"]: entry if entry.get("against") in {None, baseline} else {**entry, **uncompared}
        for entry in values("prediction")
    }
    rows = [{**row, **_prediction_columns(predictions.get(row["precision"]))} for row in values("row")]
    bystanders = sorted({bystander for names in values("bystanders") for bystander in names})
    document = {
        "settings": header.get("settings", {}),
        "baseline": baseline,
        "models": values("model"),
        "skipped": values("skipped"),
        "cells": cells(sorted(rows, key=_place), baseline, bystanders),
        "predictions": list(predictions.values()),
        "idle_w": mean(values("idle_w")),
        "notes": [*dict.fromkeys(values("note")), *bystanders],
        "trials": rows,
    }
    return rows, document


def _prediction_columns(prediction: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a row's columns on predictions that a precision's entry fills."""
    if prediction is None or prediction["value"] is None:
        return {}
    value = prediction["value"]["value"]
    if prediction["metric"] == "perplexity":
        return {"perplexity": value}
    return {
        "accuracy": value,
        "num_correct": prediction["correct"],
        "num_samples_accuracy": prediction["examples"],
    }


def _place(row: Mapping[str, Any]) -> tuple[int, int, int, int]:
    """Return the place of a shuffled trial in the order in which a reader expects it."""
    order = list(variants.VARIANTS)
    precision = row["precision"]
    number = order.index(precision) if precision in order else len(order)
    return row["sequence_length"], row["batch_size"], number, row["trial"]
