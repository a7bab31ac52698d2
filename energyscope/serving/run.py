"""The run directory of a measured server: ``serving.json``, a row for each load, and its requests as Parquet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from energyscope.errors import RunError, UsageError
from energyscope.grouping import group_by
from energyscope.runs import schema
from energyscope.runs.documents import ServingDocument
from energyscope.runs.files import declared, own_file, read_json, read_table, write_bytes
from energyscope.runs.store import DEFAULT_ROOT, find_run, read_document
from energyscope.serving.curve import LoadRow
from energyscope.serving.document import VERSION
from energyscope.serving.requests import Answer, Served

if TYPE_CHECKING:
    import pandas as pd

STAGE = "serving"
COLUMNS = tuple(field.name for field in fields(LoadRow))
ADDED = ("work_low_j", "work_high_j")  # since the first runs
ANSWERS = tuple(field.name for field in fields(Answer))
MOST_REQUESTS = 2**22
MOST_OF_REQUESTS = 2**30  # bytes, unpacked


@dataclass(frozen=True)
class ServingRun:
    """A measured server as read back: run.json, serving.json, and a row for each load that asked something."""

    path: Path
    document: dict[str, Any]
    serving: dict[str, Any]
    loads: pd.DataFrame

    @property
    def name(self) -> str:
        return str(self.document.get("name", self.path.name))

    @property
    def modelled(self) -> bool:
        """Whether its joules are time x stated watts."""
        return bool((self.document.get("sensor") or {}).get("modelled"))


def is_serving(path: Path) -> bool:
    """Whether a run directory is of a server."""
    return STAGE in (read_document(path).get("stages") or {})


def refuse_server(path: Path) -> None:
    """Refuse the run of a server where one of a model is needed.

    Raises:
        UsageError: it is one.

    """
    if is_serving(path):
        known = f"`energyscope show {path}` prints it, `energyscope serving --resume {path}` goes on"
        raise UsageError(f"{path} is of a server: {known}")


def load_serving(reference: str | Path, root: Path = DEFAULT_ROOT) -> ServingRun:
    """Read the run of a server by path, name or unique prefix of a name.

    Raises:
        RunError: there is no such run, it is of something else, or it cannot be read.

    """
    path = find_run(reference, root)
    document = read_document(path)
    if STAGE not in (document.get("stages") or {}):
        raise RunError(f"{path} is no run of a server: `energyscope show {path}` prints what it is")
    serving = read_json(path / schema.SERVING_JSON)
    loads = read_table(path / schema.SERVING_FILE, [name for name in COLUMNS if name not in ADDED], LoadRow)
    if serving is None or loads is None:
        raise RunError(f"no load of {path} was finished: `energyscope serving --resume {path}` goes on")
    loads = loads.reindex(columns=list(dict.fromkeys([*loads.columns, *ADDED])))
    version = serving.get("schema")
    if not isinstance(version, int) or version > VERSION:
        raise RunError(f"{path / schema.SERVING_JSON} was written by a newer energyscope: upgrade energyscope-llm")
    declared(path / schema.SERVING_JSON, serving, ServingDocument)
    return ServingRun(path, document, serving, loads)


def read_requests(run: ServingRun, kind: str) -> dict[str, list[Answer]]:
    """Return the answers of loads of a kind that came whole, in the order in which they were sent.

    Times are from their load's begin. Empty where the file cannot be read: it may be of anybody.
    """
    import pyarrow.parquet as pq

    try:
        file = run.path / schema.REQUESTS_FILE
        if not own_file(file) or not _is_read(pq.read_metadata(file)):
            return {}
        rows = pq.read_table(file, filters=[("kind", "=", kind)]).to_pylist()
        answers = [Answer.of({name: row[name] for name in ANSWERS}) for row in rows]
        whole = [answer for answer in answers if answer.error is None and answer.chunks_s]
        return group_by(sorted(whole, key=lambda answer: answer.sent_s), lambda answer: answer.load)
    except (OSError, RunError, ValueError, TypeError, KeyError):
        return {}


def _is_read(metadata: Any) -> bool:
    """Tell whether a Parquet file holds no more than requests of a server do, once it is unpacked."""
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    unpacked = sum(group.total_byte_size for group in groups)
    return bool(metadata.num_rows <= MOST_REQUESTS and unpacked <= MOST_OF_REQUESTS)


def write_requests(path: Path, loads: Iterable[Served]) -> None:
    """Write a row for each request, with the times (s) after its load's begin, and the texts' as a list."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows: list[Mapping[str, Any]] = []
    for load in loads:
        for answer in load.answers:
            row = {**answer.document(), "kind": load.load.kind}
            row |= {name: row[name] - load.begin_s for name in ("due_s", "sent_s", "ended_s")}
            rows.append({**row, "chunks_s": [time_s - load.begin_s for time_s in answer.chunks_s]})
    buffer = BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), buffer, compression="zstd")
    write_bytes(path / schema.REQUESTS_FILE, buffer.getvalue())
