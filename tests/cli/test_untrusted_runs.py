"""Directories of others: whatever is spoilt in a file, commands end in one line that says which file it is."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cell_builder import build_swept

from energyscope.runs import schema
from energyscope.runs.checking import MOST_ITEMS

REPORTS = Path(__file__).parent.parent.parent / "reports"
RUN, GENERATION, SERVER = "llama-1b-width-h100", "llama-3.2-1b-generation-h200", "serving-h200"
LAWS, SWEPT = "scaling-h200/lengths", "swept"
FILES = [
    (RUN, schema.RUN_FILE, "closure"), (RUN, schema.BENCHMARK_JSON, "cells"), (RUN, schema.PLAN_JSON, "workloads"),
    (RUN, schema.CORRELATION_FILE, "points"), (RUN, schema.ENERGY_FILE, "energy_mj"),
    (RUN, schema.IMPACT_FILE, "value"), (RUN, schema.MERGED_FILE, "batch_size"),
    (RUN, schema.TRACE_FILE, "energy_mj"), (RUN, schema.BENCHMARK_FILE, "throughput"),
    (GENERATION, schema.GENERATION_JSON, "phases"), (GENERATION, schema.ALTERNATIVES_JSON, "rows"),
    (SERVER, schema.RUN_FILE, "sensor"), (SERVER, schema.SERVING_JSON, "costs"),
    (SERVER, schema.SERVING_FILE, "seconds"), (LAWS, schema.LAWS_JSON, "groups"),
    (SWEPT, schema.SWEEP_FILE, "cells"),
]  # fmt: skip
COMMANDS = {
    RUN: [("show",), ("report",), ("compare", RUN), ("export", "--format", "metrics")],
    GENERATION: [("show",), ("report",), ("compare", GENERATION), ("export", "--format", "model-card")],
    SERVER: [("show",), ("report",), ("compare", SERVER), ("export", "--format", "parquet")],
    LAWS: [("report",)], SWEPT: [("laws",), ("sweep", "--resume")],
}  # fmt: skip


def _empty(_: bytes, __: str) -> bytes:
    return b""


def _binary(_: bytes, __: str) -> bytes:
    return bytes(range(256)) * 8


def _nested(content: bytes, key: str) -> bytes:
    """Put a list of objects, or in a table a text, where something else should be."""
    return _changed(content, key, [[{"value": 1}]], b'"{""value"": 1}"')


def _infinite(content: bytes, key: str) -> bytes:
    return _changed(content, key, float("inf"), b"inf")


def _endless(content: bytes, key: str) -> bytes:
    return _changed(content, key, [0] * (MOST_ITEMS + 1), b"1" * (MOST_ITEMS + 1))


def _lacking(content: bytes, key: str) -> bytes:
    """Take a key away, or the name of a column."""
    if not content.lstrip().startswith(b"{"):
        return content.replace(key.encode(), b"mine", 1)
    return json.dumps({name: value for name, value in json.loads(content).items() if name != key}).encode()


def _changed(content: bytes, key: str, value: Any, cell: bytes) -> bytes:
    """Return a document with another value of a key, or a table with another first cell of a column."""
    if content.lstrip().startswith(b"{"):
        return json.dumps({**json.loads(content), key: value}).encode()
    header, row, *others = content.splitlines(keepends=True)
    cells = row.split(b",")
    cells[header.rstrip().split(b",").index(key.encode())] = cell
    return b"".join([header, b",".join(cells), *others])


CORRUPTIONS = (_empty, _binary, _nested, _infinite, _endless, _lacking)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with one of each kind, as they ship, and a small sweep."""
    root = tmp_path_factory.mktemp("untrusted")
    for name in (RUN, GENERATION, SERVER, LAWS):
        shutil.copytree(REPORTS / name, root / name, ignore=shutil.ignore_patterns("*.html", "*.parquet"))
    build_swept(root / SWEPT)
    return root


@pytest.mark.parametrize("corrupt", CORRUPTIONS, ids=lambda corrupt: corrupt.__name__.strip("_"))
@pytest.mark.parametrize(("kind", "file", "key"), FILES, ids=lambda part: str(part).split("/")[-1])
def test_a_spoilt_file_is_one_line(
    root: Path, command: Any, kind: str, file: str, key: str, corrupt: Callable[[bytes, str], bytes]
) -> None:
    """GIVEN a file that is spoilt in some way THEN each command that reads it ends with one line on the file."""
    path = root / kind / file
    kept = path.read_bytes()
    path.write_bytes(corrupt(kept, key))
    optional = corrupt is _lacking and (file == schema.RUN_FILE)
    try:
        for word, *others in COMMANDS[kind]:
            run = [kind] if word != "sweep" else []
            done = command(word, *others, *([kind] if word == "sweep" else run), "--root", ".", cwd=root)
            line = done.stderr
            assert "internal error" not in line
            assert "Traceback" not in line
            if not optional:
                assert (done.returncode, line.count("\n")) == (1, 1), (word, line)
                assert file in line, (word, line)
    finally:
        path.write_bytes(kept)
