"""Report: the run's page, where the machine that measures can draw it."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

from energyscope.reasons import Reason, reason
from energyscope.runs.schema import REPORT_FILE

if TYPE_CHECKING:
    from energyscope.stages.context import Context

DRAWING = ("altair", "vl_convert", "jinja2")


def missing_packages() -> list[str]:
    """Return the packages that pages are drawn with and that are not installed."""
    return [name for name in DRAWING if importlib.util.find_spec(name) is None]


def run(context: Context) -> Reason | None:
    """Write the page; return why it cannot be drawn."""
    if missing := missing_packages():
        return reason("cannot-draw", packages=missing)
    from energyscope.reporting.run.page import write_report

    context.progress("report", REPORT_FILE, 0, 1)
    context.store.stage("report", "done")  # the page shows this state
    write_report(context.store.path)
    return None
