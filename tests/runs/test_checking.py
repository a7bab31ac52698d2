"""What files of a run may hold: whatever their declarations do not allow is found, with its place."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import MISSING, fields
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_type_hints

import pandas as pd
import pytest

from energyscope.metering.activity import Activity
from energyscope.metering.window import Window
from energyscope.runs import documents, schema
from energyscope.runs.checking import MOST_ITEMS, NOT_NEGATIVE, document_flaw, table_flaw
from energyscope.runs.files import read_table
from energyscope.serving.curve import LoadRow
from energyscope.settings.benchmark import BenchmarkSettings
from energyscope.settings.run import RunSettings
from energyscope.settings.serving import ServingSettings

REPORTS = Path(__file__).parent.parent.parent / "reports"
DOCUMENTS = {
    schema.RUN_FILE: documents.RunDocument, schema.GENERATION_JSON: documents.GenerationDocument,
    schema.ALTERNATIVES_JSON: documents.AlternativesDocument, schema.BENCHMARK_JSON: documents.BenchmarkDocument,
    schema.CORRELATION_FILE: documents.CorrelationDocument, schema.PLAN_JSON: documents.PlanDocument,
    schema.LAWS_JSON: documents.LawsDocument, schema.SERVING_JSON: documents.ServingDocument,
}  # fmt: skip
ROWS = {
    schema.ENERGY_FILE: schema.EnergyRow, schema.IMPACT_FILE: schema.ImpactRow, schema.TRACE_FILE: schema.TraceRow,
    schema.BENCHMARK_FILE: schema.BenchmarkRow, schema.MERGED_FILE: schema.EnergyRow, schema.SERVING_FILE: LoadRow,
}  # fmt: skip
FILES = {name: sorted(REPORTS.rglob(name)) for name in (*DOCUMENTS, *ROWS)}


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", DOCUMENTS)
def test_what_was_written_is_what_is_declared(name: str) -> None:
    """GIVEN every document that ships, of all versions THEN nothing is wrong with it."""
    assert FILES[name]
    assert [flaw for path in FILES[name] if (flaw := document_flaw(read(path), DOCUMENTS[name]))] == []


@pytest.mark.parametrize("settings", [RunSettings, ServingSettings, BenchmarkSettings])
def test_each_setting_is_declared(settings: type) -> None:
    """GIVEN what can be asked for THEN the declaration of run.json says of what kind it is."""
    kind = documents.SettingsOfBenchmark if settings is BenchmarkSettings else documents.Settings
    assert {field.name for field in fields(settings)} <= get_type_hints(kind).keys()


@pytest.mark.parametrize("written", [Window, Activity])
def test_each_value_of_a_window_is_declared(written: type) -> None:
    """GIVEN what a journal keeps of a window THEN each key is declared, with a kind that takes what is written."""
    declared = get_type_hints(getattr(documents, written.__name__))
    takes = {float: {float, int}, int: {int}, str: {str}, documents.Activity: {Activity}, NoneType: set()}
    for name, kind in get_type_hints(written).items():
        kinds = set(get_args(kind) or (kind,)) - {NoneType}
        allowed = set().union(*(takes[each] for each in get_args(declared[name]) or (declared[name],)))
        assert kinds <= allowed, name


def places(value: Any, place: str = "") -> Iterator[tuple[Any, Any, str]]:
    """Yield each object or list of a document with a key in it and the place of that; of lists, the first item."""
    keys = list(value) if isinstance(value, dict) else [0] if isinstance(value, list) and value else []
    for key in keys:
        inner = f"{place}[0]" if key == 0 else f"{place}.{key}" if place else key
        yield value, key, inner
        yield from places(value[key], inner)


def altered(value: Any) -> Iterator[Any]:
    """Yield what can stand in the place of a value and is of no file of a run."""
    if isinstance(value, float | int) and not isinstance(value, bool):
        yield from (float("nan"), float("inf"), float("-inf"), {"value": {"value": 1}})
    elif isinstance(value, list):
        yield from ([None] * (MOST_ITEMS + 1), 3, {"0": value})
    elif isinstance(value, dict):
        yield from ([value], "text")
    else:
        yield from ([[value]], *([] if value is None else [{"0": value}]))


@pytest.mark.parametrize("name", DOCUMENTS)
def test_each_value_of_a_document_is_checked(name: str) -> None:
    """GIVEN any declared value that is replaced by one of another kind THEN the flaw names its place."""
    path, kind = min(FILES[name], key=lambda file: file.stat().st_size), DOCUMENTS[name]
    document, undeclared = read(path), []
    for holder, key, place in list(places(document)):
        kept = holder[key]
        for other in altered(kept):
            holder[key] = other
            if place not in (document_flaw(document, kind) or ""):
                undeclared.append(place)
        holder[key] = kept
        if isinstance(kept, int) and not isinstance(kept, bool) and key in NOT_NEGATIVE:
            holder[key] = -1
            assert f"{place} is -1, which is below 0" in (document_flaw(document, kind) or "")
            holder[key] = kept
    assert sorted(set(undeclared)) == [], "of no declared kind"
    assert document_flaw(document, kind) is None


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_required_key_is_missed(name: str) -> None:
    """GIVEN a document without one of its required keys THEN the flaw names the key."""
    document = read(min(FILES[name], key=lambda file: file.stat().st_size))
    for key in DOCUMENTS[name].__required_keys__:
        without = {other: value for other, value in document.items() if other != key}
        assert document_flaw(without, DOCUMENTS[name]) == f"it lacks {key}"


@pytest.mark.parametrize("name", ROWS)
def test_tables_that_ship_are_what_is_declared(name: str) -> None:
    """GIVEN every table that ships THEN it is read."""
    others = float | None if name == schema.MERGED_FILE else Any
    assert FILES[name]
    assert all(read_table(path, (), ROWS[name], others) is not None for path in FILES[name])


@pytest.mark.parametrize("name", ROWS)
def test_each_cell_of_a_table_is_checked(name: str) -> None:
    """GIVEN a column with a text, infinity or nothing where a number must be THEN its line is said."""
    frame = read_table(min(FILES[name], key=lambda file: file.stat().st_size), (), ROWS[name])
    assert frame is not None
    frame = frame.head(3).reset_index(drop=True)
    for column in (column for column in frame if column in ROWS[name].__dataclass_fields__):
        number = {"float", "int"} & set(str(ROWS[name].__dataclass_fields__[column].type).split(" | "))
        for bad in ("half", float("inf"), -1.0 if column in NOT_NEGATIVE else float("-inf")) if number else ():
            spoilt = frame.assign(**{column: pd.Series([None, bad, None], dtype=object)})
            field = ROWS[name].__dataclass_fields__[column]
            line = "line 2" if "None" not in str(field.type) and field.default is MISSING else "line 3"
            assert f"{line}: {column} " in (table_flaw(spoilt, ROWS[name]) or ""), (column, bad)


@pytest.mark.parametrize(
    ("value", "flaw"),
    [
        ({"idle_w": None, "watts": 2e34}, None),
        ({"idle_w": 10**400}, "which no number of a run is"),
        ({"host_domains": {"0": "package-0"}}, "sensor.host_domains is an object, and not a list"),
        ({"later": json.loads("[" * 300 + "]" * 300)}, "is nested deeper than anything in a run"),
    ],
    ids=["large and unknown", "larger than a float", "of another kind", "nested"],
)
def test_a_document_is_as_unknown_large_and_deep_as_runs_are(value: dict[str, Any], flaw: str | None) -> None:
    """GIVEN values that runs may have THEN they pass; GIVEN what Python fails at THEN it is said."""
    found = document_flaw({"schema": 1, "sensor": value}, documents.RunDocument)
    assert (found is None) if flaw is None else flaw in str(found)


@pytest.mark.parametrize(
    ("entry", "flaw"),
    [
        ({"subject": "node:model", "pass": 0, "window": {"energy_mj": 1.0}}, "window lacks time_us"),
        ({"window": {"energy_mj": 1.0, "time_us": 1.0}}, "it lacks pass, subject"),
        ({"pass": "first"}, "pass is 'first', and not a whole number"),
        ({"generation": {"begin_s": 0.0, "tokens_s": {}, "end_s": 1.0}}, "generation.tokens_s is an object"),
        ({"ticks": [[[0.0, float("nan")]]]}, "ticks[0][0][1] is nan"),
        ({"row": {"precision": "fp32"}}, "row lacks "),
    ],
)
def test_entries_of_a_journal_are_checked(entry: dict[str, Any], flaw: str) -> None:
    """GIVEN an entry that is not what its keys say THEN that is told."""
    assert flaw in (document_flaw(entry, documents.of_entry(entry)) or "")
