"""A table of a run as Parquet, each column with its unit in the metadata of its field."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from energyscope.errors import UsageError, did_you_mean
from energyscope.exporting import COMPONENTS, nothing
from energyscope.runs.files import write_bytes
from energyscope.runs.store import Run

if TYPE_CHECKING:
    import pandas as pd

    from energyscope.serving.run import ServingRun

OF_ENDS = {  # of columns' names, the first that fits
    "_per_s": "1/s", "_per_joule": "1/J", "_js": "J s", "_mj": "mJ", "_j": "J", "_us": "us", "_s": "s", "_w": "W",
    "_mhz": "MHz", "_c": "degrees Celsius", "_gb": "10^9 bytes", "_mb": "10^6 bytes", "bytes": "bytes",
    "flops": "FLOP", "latency": "s", "throughput": "1/s", "context_length": "tokens", "sequence_length": "tokens",
    "_tokens": "tokens",
}  # fmt: skip


def write(run: Run | ServingRun, table: str, path: Path) -> None:
    """Write a table to a file.

    Raises:
        UsageError: there is no such table.
        RunError: the run has not got it.

    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    tables = _tables(run)
    if table not in tables:
        raise UsageError(f"--table {table} is none of a run{did_you_mean(table, tables)}")
    frame = tables[table]
    if frame is None or frame.empty:
        raise nothing(run, f"table of {table}", "--table")
    content = pa.Table.from_pandas(frame, preserve_index=False)
    units = [(field, unit_of(field.name)) for field in content.schema]
    fields = [field.with_metadata({"unit": unit}) if unit else field for field, unit in units]
    schema = pa.schema(fields, metadata={**(content.schema.metadata or {}), **_facts(run)})
    buffer = BytesIO()
    pq.write_table(content.cast(schema), buffer, compression="zstd")
    write_bytes(path, buffer.getvalue())


def unit_of(column: str) -> str | None:
    """Return the unit of a column, by how its name ends; None where it has none, or its metric says it."""
    return next((unit for end, unit in OF_ENDS.items() if column.endswith(end)), None)


def _tables(run: Run | ServingRun) -> dict[str, pd.DataFrame | None]:
    if not isinstance(run, Run):
        return {"loads": run.loads}
    return {
        COMPONENTS: run.energy,
        "impact": run.impact,
        "merged": run.merged,
        "trace": run.trace,
        "benchmark": run.trials,
        "windows": run.windows().reset_index(),
    }


def _facts(run: Run | ServingRun) -> dict[str, str]:
    """Return what the run is, for the metadata of the file."""
    document = run.document
    facts = {
        "run": run.name,
        "energyscope": document.get("energyscope"),
        "device": (document.get("device") or {}).get("name"),
        "meter": (document.get("sensor") or {}).get("meter"),
        "joules": "MODELLED: time x stated watts" if run.modelled else "measured",
    }
    return {name: str(value) for name, value in facts.items() if value is not None}
