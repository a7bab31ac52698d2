"""From a run's journal to its tables: at the end of a stage, and after an interruption."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from energyscope.accounting import records
from energyscope.accounting import triggered as triggered_books
from energyscope.accounting.aggregate import Attribution
from energyscope.errors import DataError
from energyscope.impact.examples import unpack, write_examples
from energyscope.reasons import Reason, reason
from energyscope.runs import schema
from energyscope.runs.store import RunStore, load_run
from energyscope.stages import profile

Entries = Sequence[Mapping[str, Any]]


def write_benchmark(store: RunStore, entries: Entries) -> bool:
    """Write the table of trials and what follows from them; False if no trial was finished."""
    from energyscope.stages.benchmark import recover

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


def write_profile(store: RunStore, entries: Entries) -> bool:
    """Write the energy table, the closure and the passes of every scene; False if nothing was finished."""
    finished = {name: ours for name, ours in profile.by_scene(entries).items() if _measured(ours)}
    if not finished:
        return False
    scenes = {name: _attribution(ours) for name, ours in finished.items()}
    everything = [entry for ours in finished.values() for entry in ours]
    sensor = store.document.get("sensor", {})
    idle_w = records.idle_power(everything)
    warnings = [*store.document.get("warnings", []), *profile.notes_of(everything)]
    warnings += records.bystanders_of(everything)
    described = [{"name": name, **_scene(finished[name], attribution)} for name, attribution in scenes.items()]
    store.update(
        **{key: described[0][key] for key in ("closure", "differential", "passes", "drift")},
        scenes=described,
        sensor={**sensor, "idle_w": sensor.get("idle_w") if idle_w is None else idle_w},
        warnings=list(dict.fromkeys(warnings)),
    )
    rows = [row for attribution in scenes.values() for row in attribution.rows]
    store.write_rows(schema.ENERGY_FILE, rows, schema.ENERGY_COLUMNS)
    return True


def write_generation(store: RunStore, entries: Entries) -> bool:
    """Write the phases of the traced generations, marks in the trace's time; False if none was begun."""
    from energyscope.stages.generate import recover

    document = recover(entries)
    if document is None:
        return False
    firsts = [mark["begin_s"] for mark in document["marks"][:1]]
    origin = store.document.get("trace_origin_s") or min(firsts, default=0.0)
    shifted = [
        {key: [one - origin for one in value] if isinstance(value, list) else value - origin
         for key, value in mark.items()}
        for mark in document["marks"]
    ]  # fmt: skip
    store.write_json(schema.GENERATION_JSON, {**document, "marks": shifted})
    store.update()
    return True


def write_alternatives(store: RunStore, entries: Entries) -> bool:
    """Write what changing one thing at a time would do; False if no alternative was begun."""
    from energyscope.stages.alternatives import recover

    document = recover(entries)
    if document is None:
        return False
    store.write_json(schema.ALTERNATIVES_JSON, document)
    store.update()
    return True


def _measured(ours: Entries) -> bool:
    """Tell whether anything of a scene was measured before the run ended."""
    kind = "reads" if triggered_books.is_triggered(ours) else "window"
    return any(kind in entry for entry in ours)


def _attribution(ours: Entries) -> Attribution:
    return triggered_books.recover(ours) if triggered_books.is_triggered(ours) else profile.recover(ours)


def _scene(ours: Entries, attribution: Attribution) -> dict[str, Any]:
    """Return what run.json says of a scene beside its rows."""
    header = next(entry["header"] for entry in ours if "header" in entry)
    triggered = triggered_books.is_triggered(ours)
    return {
        **{key: header.get(key) for key in ("phase", "context_length", "kv_cache", "layers", "execution")},
        "closure": attribution.closure,
        "differential": attribution.differential,
        "passes": [] if triggered else records.passes_of(ours),
        "drift": None if triggered else profile.anchors_drift(ours),
    }


def write_impact(store: RunStore, entries: Entries) -> bool:
    """Write the impact table; False if no ablation was finished, or if the stage declared them all void."""
    if any("void" in entry for entry in entries):
        return False
    ours = [entry for entry in entries if entry.get("stage") == "ablate" and entry["rows"]]
    if not ours:
        return False
    latest = {_key(entry): entry for entry in ours}  # a resumed run may have measured one again
    rows = [row for entry in latest.values() for row in entry["rows"]]
    store.write_rows(schema.IMPACT_FILE, rows, schema.IMPACT_COLUMNS)
    examples = [(*key, unpack(entry["examples"])) for key, entry in latest.items() if entry.get("examples")]
    if examples:
        judged = store.document.get("workload", {}).get("evaluation") or {}
        write_examples(store.path / schema.EXAMPLES_FILE, examples, judged.get("order"))
    store.update()
    return True


def _key(entry: Mapping[str, Any]) -> tuple[str, str]:
    """Return the changed component and the method; all rows of an entry have the latter in common."""
    row = entry["rows"][0]
    return str(row["component"]), str(row["method"])


def write_correlation(store: RunStore, *, seed: int) -> Reason | None:
    """Write the merged table and the correlation; return why not, where a table is missing."""
    from energyscope.stages.correlate import correlate, default_impact, merge

    run = load_run(store.path)
    if run.energy is None or run.impact is None:
        return reason("nothing-to-relate", missing="energy" if run.energy is None else "impact")
    merged = merge(run.energy, run.impact)
    store.write_rows(schema.MERGED_FILE, merged.to_dict("records"), schema.ENERGY_COLUMNS)
    try:
        column = default_impact(run.impact)
    except DataError:  # predictors only
        return reason("nothing-to-relate", missing="impact")
    document = correlate(
        run.energy,
        run.impact,
        impact_column=column,
        modelled=run.modelled,
        seed=seed,
        closure=((run.document.get("closure") or {}).get("model") or {}).get("energy"),
    )
    store.write_json(schema.CORRELATION_FILE, document)
    return None


def recover_correlation(store: RunStore, _: Entries) -> bool:
    """Relate the recovered tables, where that was asked for; False if one is missing."""
    settings = store.document.get("settings") or {}
    if "correlate" not in settings.get("stages", ()):
        return False
    return write_correlation(store, seed=int(settings.get("seed", 0))) is None
