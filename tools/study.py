"""Set published figures beside those of our runs: renew the tables of the pages in `reports` from recorded data.

    python tools/study.py            # rewrites each table between <!-- study: NAME --> and <!-- end -->
    python tools/study.py --check    # changes nothing; fails where a page differs from the data

The studies are in `studies`: one of DistilBERT and GPT-2 on a Tesla T4, CLEAR, and our own runs of one command.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from studies import clear, clear_models, machines, repeatability, t4
from studies.common import REPORTS

from energyscope.reporting.print.drawing import draw
from energyscope.reporting.print.files import encoded
from energyscope.reporting.table import Column, Table

TABLES: Mapping[str, Callable[[], Table | str]] = {
    "totals": t4.totals,
    "shares batch 1": lambda: t4.shares("distilbert-h200"),
    "shares batch 32": lambda: t4.shares("distilbert-32x128-h200"),
    "precisions": t4.precisions,
    "correlations": t4.correlations,
    "matrices": t4.matrix_links,
    "capture": clear.capture,
    "spread": clear.spread,
    "per FLOP": clear.per_flop,
    "norms": clear.norms,
    "CLEAR claims": clear_models.claims,
    "CLEAR models": clear_models.models,
    "CLEAR lengths": clear_models.lengths,
    "CLEAR others": clear_models.others,
    "machines": machines.machines,
    "repeatability H100": lambda: repeatability.repeatability("repeatability-h100"),
    "repeatability H200": lambda: repeatability.repeatability("repeatability-h200"),
    "sums H100": lambda: repeatability.sums("repeatability-h100"),
    "sums H200": lambda: repeatability.sums("repeatability-h200"),
}
FOLDERS = (".", "published-study", "clear-study-h200", "clear-models-h100", "scaling-h200")
PAGES = [REPORTS / folder / "README.md" for folder in (*FOLDERS, "repeatability-h100", "repeatability-h200")]
_PLACE = re.compile(r"(<!-- study: (.+?) -->\n).*?(<!-- end -->)", re.DOTALL)


def markdown(table: Table | str) -> str:
    """Write a table as Markdown."""
    if isinstance(table, str):
        return table
    lines = [[column.title for column in table.columns], ["---"] * len(table.columns)]
    lines += [_cells(table.columns, row) for row in table.rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _cells(columns: Sequence[Column], row: Mapping[str, Any]) -> list[str]:
    texts = (column.text(row.get(column.key)) for column in columns)
    return [f"`{text}`" if column.unit == "code" else text for column, text in zip(columns, texts, strict=True)]


def renewed(page: str) -> str:
    """Return a page with its tables made anew."""
    return _PLACE.sub(lambda place: f"{place[1]}\n{markdown(TABLES[place[2]]())}\n{place[3]}", page)


def main(words: Sequence[str]) -> None:
    """Renew the pages and their figures, or with ``--check`` name the pages that differ from the data."""
    texts = {page: renewed(page.read_text(encoding="utf-8")) for page in PAGES}
    stale = [str(page) for page, text in texts.items() if text != page.read_text(encoding="utf-8")]
    if "--check" in words:
        sys.exit(f"differ from their data: {', '.join(stale)}" if stale else 0)
    for page, text in texts.items():
        page.write_text(text, encoding="utf-8")
    (REPORTS / "clear-study-h200/spread.svg").write_bytes(clear.spread_chart())
    for name, (_, sheet) in t4.matrices().items():
        if sheet is not None:
            (REPORTS / f"published-study/{name}.png").write_bytes(encoded(draw(sheet, "paper"), "png", 100))


if __name__ == "__main__":
    main(sys.argv[1:])
