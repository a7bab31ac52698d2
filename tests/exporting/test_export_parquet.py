"""Parquet: the tables of a run as pyarrow reads them, with units beside the columns."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest
from generation_builder import Inference, build_inference
from page_gallery import ENDS_SCRIPT, hostile_run
from run_builder import Shape, build_run
from served_builder import build_served

from energyscope.errors import RunError, UsageError
from energyscope.exporting import export
from energyscope.exporting.parquet import unit_of


def unit(table, column: str) -> bytes | None:
    return (table.schema.field(column).metadata or {}).get(b"unit")


def test_components_with_units(tmp_path):
    """GIVEN a run THEN the table is that of its components, each quantity with its unit, texts without."""
    run = build_run(tmp_path / "run", Shape(layers=2, impact=False))
    path = export(run, "parquet").path
    assert path == run.path / "components.parquet"
    table = pq.read_table(path)
    frames = table.to_pandas(), run.energy
    read, written = (frame.astype(object).where(frame.notna(), None).to_dict() for frame in frames)
    assert read == written
    units = {"energy_mj": b"mJ", "energy_ci_low_mj": b"mJ", "time_us": b"us", "power_w": b"W", "flops": b"FLOP",
             "weight_bytes": b"bytes", "clock_mhz": b"MHz", "context_length": b"tokens"}  # fmt: skip
    assert {column: unit(table, column) for column in units} == units
    assert [unit(table, column) for column in ("component", "quality", "windows", "passes", "ticks")] == [None] * 5
    assert table.schema.metadata[b"joules"] == b"measured"
    assert table.schema.metadata[b"energyscope"].decode() == run.document["energyscope"]


@pytest.mark.parametrize(
    ("column", "expected"),
    [("tokens_per_s", "1/s"), ("tokens_per_joule", "1/J"), ("energy_delay_product_js", "J s"),
     ("p95_latency", "s"), ("temperature_c", "degrees Celsius"), ("total_energy_j", "J"), ("before_s", "s"),
     ("model_size_mb", "10^6 bytes"), ("value", None), ("share_of_total", None), ("reasons", None)],
)  # fmt: skip
def test_units_by_name(column, expected):
    """A rate is not taken for what its name ends with, nor a count for a time."""
    assert unit_of(column) == expected


def test_other_tables(tmp_path):
    """GIVEN --table THEN it is that table, in a file of its name; one that a run lacks is one line."""
    run = build_inference(tmp_path / "run", Inference(layers=1))
    written = export(run, "parquet", table="trace")
    assert written.path.name == "trace.parquet"
    table = pq.read_table(written.path)
    assert table.column("power_w").to_pylist() == pytest.approx(run.trace["power_w"].tolist())
    with pytest.raises(RunError, match="has no table of impact"):
        export(run, "parquet", table="impact")
    with pytest.raises(UsageError, match="did you mean 'components'"):
        export(run, "parquet", table="component")
    with pytest.raises(UsageError, match="--table is for parquet"):
        export(run, "metrics", table="trace")
    served = build_served(tmp_path / "server")
    loads = pq.read_table(export(served, "parquet", table="loads").path)
    assert unit(loads, "request_j") == b"J"
    assert loads.num_rows == len(served.loads)


def test_names_of_others_are_kept_as_data(tmp_path):
    """GIVEN hostile names THEN cells hold them as they are, and the file's metadata as text."""
    run = hostile_run(tmp_path / "run", ENDS_SCRIPT)
    table = pq.read_table(export(run, "parquet").path)
    assert table.column("component").to_pylist() == run.energy["component"].tolist()
    assert table.schema.metadata[b"device"].decode() == ENDS_SCRIPT
