"""Add executed FLOPs to the recorded cells of a study that has none, and make its laws again.

    python tools/executed_flops.py reports/scaling-h200 reports/clear-study-h200

FLOPs are counted again from each cell's model, shape and precision, without weights; the nominal count must be the
recorded one, of every kind. Which attention kernel ran follows from the cell's settings:

- prefills in CUDA graphs of method 0 were given an attention mask, so that their kernels skipped nothing;
- in FP32, grouped heads may have been left to PyTorch's math backend: executed FLOPs of what holds attention stay
  unknown;
- all else is as counted, by a fused kernel that skips what a causal mask hides.
"""

from __future__ import annotations

import csv
import json
import shlex
import sys
from collections.abc import Iterator, Mapping
from math import isclose
from pathlib import Path
from typing import Any

from energyscope.grouping import group_by
from energyscope.reporting.scaling.page import write_laws_page
from energyscope.runs.laws import write_laws
from energyscope.runs.method import revision_of
from energyscope.runs.schema import ENERGY_FILE, LAWS_JSON, RUN_FILE
from energyscope.scaling.cells import Shape
from energyscope.scaling.shape_work import PassShape, Skeleton
from energyscope.stages.laws import document_of, gather

COLUMN = "executed_flops"
Row = dict[str, str]


def main(studies: list[str]) -> None:
    """Complete the tables of each study, then make its laws again from the recorded commands."""
    for study in map(Path, studies):
        for path in sorted(study.glob(f"cells/*/*/{ENERGY_FILE}")):
            complete(path)
        for path in sorted(study.glob(f"*/{LAWS_JSON}")):
            renew(path)


def complete(path: Path) -> None:
    """Add the column to one energy table; its other texts stay as they are.

    Raises:
        SystemExit: what is counted now is not what was recorded.

    """
    document = json.loads((path.parent / RUN_FILE).read_text(encoding="utf-8"))
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        row.setdefault(COLUMN, "")
    for (phase, precision, execution, batch, tokens), alike in group_by(rows, _setting).items():
        asked = PassShape(phase, int(batch), int(tokens), precision)
        works = Skeleton(document["model"]["name"], precision).work(asked, document["settings"]["granularity"])
        masked = phase == "prefill" and execution == "cuda-graph" and not revision_of(document)
        for row, flops in executed(alike, works, path, masked=masked):
            row[COLUMN] = "" if flops is None else str(flops)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def executed(
    rows: list[Row], works: Mapping[str, Shape], path: Path, *, masked: bool
) -> Iterator[tuple[Row, float | None]]:
    """Yield the executed FLOPs of each row: all components of a kind skip the same share.

    Counts may differ by a millionth: other versions of transformers make rotary positions by other operations.
    """
    for kind, alike in group_by(rows, lambda row: row["kind"]).items():
        work, nominal = works[kind], [float(row["flops"]) for row in alike]
        if not isclose(sum(nominal), work.flops, rel_tol=1e-6) or work.executed_flops is None:
            raise SystemExit(f"{path}: {kind} has {sum(nominal)} FLOPs, and {work.flops} are counted now")
        share = 1.0 if masked or not work.flops else work.executed_flops / work.flops
        known = share == 1.0 or alike[0]["precision"] != "fp32"
        for row, flops in zip(alike, nominal, strict=True):
            yield row, float(round(flops * share)) if known else None


def renew(path: Path) -> None:
    """Make laws again, by the command that the document states."""
    recorded: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    measured = shlex.split(recorded["command"])[2:]
    sources = measured[: measured.index("--name")]
    document = document_of(gather(sources), recorded["name"], path.parent, recorded["command"])
    write_laws(path.parent, document)
    write_laws_page(path.parent)


def _setting(row: Row) -> tuple[str, ...]:
    return tuple(row[name] for name in ("phase", "precision", "execution", "batch_size", "context_length"))


if __name__ == "__main__":
    main(sys.argv[1:])
