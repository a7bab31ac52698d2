"""The load curve: joules of a request, latency and throughput, by how many ask."""

from __future__ import annotations

from typing import Any

from energyscope.reporting.charts.bars import bars
from energyscope.reporting.charts.plane import Axis, curves
from energyscope.reporting.section import Content, Figure
from energyscope.reporting.serving.served import SERVER, Server, asked_by
from energyscope.reporting.table import Column, Table

ENERGY, THROUGHPUT = "request-energy", "request-throughput"


@SERVER.section(1, "curve", "Load curve")
def section(server: Server) -> Content | None:
    """Return the loads of the user's request."""
    if not server.curve:
        return None
    table = curve_table(server)
    known = Table(table.columns, [row for row in table.rows if row["request"] is not None])
    figures = []
    if known:
        energy = bars(known, "asked", "request", work="work")
        caption = "Solid: work. Pale: its share of the idle engine's power."
        figures.append(Figure.of(ENERGY, "Energy of a request", energy, known, caption))
        pace = curves(known, Axis("requests_per_s"), Axis("request"), series="kind")
        caption = "Each point is a number of users, or a rate."
        figures.append(Figure.of(THROUGHPUT, "Energy by throughput", pace, known, caption))
    return Content({"knee": _knee(server)}, figures, {"curve": table})


def _knee(server: Server) -> dict[str, Any] | None:
    """Return the load beyond which throughput hardly grows; ``last`` where more users were not tried."""
    of_users = [row for row in server.curve if row["users"] is not None]
    row = next((row for row in of_users if row["load"] == server.run.serving.get("knee")), None)
    return row and {"asked": asked_by(row), "last": row is of_users[-1]}


def curve_table(server: Server) -> Table:
    """Return the loads of the user's request as a table."""
    columns = [
        Column("asked", "Who asks"),
        Column("request", "Per request", "J", "energy of one request, idle share included"),
        Column("work", "Work", "J", "beyond the idle engine's power", rank=3),
        Column("idle", "Idle share", "J", "the idle engine's power, by requests per second", rank=4),
        Column("token", "Per new token", "J", "energy of a request by the tokens of its answer", rank=2),
        Column("requests_per_s", "Requests/s", ""),
        Column("tokens_per_s", "Tokens/s", "", rank=5),
        Column("ttft_p50", "First token", "s", "time to the first token, median", rank=1),
        Column("ttft_p99", "First, 99 %", "s", "time to the first token, 99th percentile", rank=6),
        Column("tpot_p50", "Each token", "s", "time per token after the first, median", rank=1),
        Column("tpot_p99", "Each, 99 %", "s", "time per token, 99th percentile", rank=7),
        Column("late_p99", "Sent late", "s", "after a request was due, 99th percentile", rank=8),
        Column("power_w", "Power", "W", rank=8),
        Column("kwh", "kWh/M tokens", "", "for a million new tokens", rank=9),
        Column("money", "Money/M tokens", "", "by --price", rank=9),
        Column("co2e_kg", "kg CO2e/M tokens", "", "by --carbon", rank=9),
        Column("quality", "Grade", "grade"),
    ]
    return Table(columns, [_row(server, row) for row in server.curve], "Load curve")


def _row(server: Server, row: dict[str, Any]) -> dict[str, Any]:
    budget = (server.run.serving.get("million_tokens") or {}).get(row["load"]) or {}
    shown = {
        "asked": asked_by(row),
        "idle": row["idle_j"],
        "token": row["token_j"],
        "kind": "at rates" if row["users"] is None else "users",
        **{name: row[f"{name}_s"] for name in ("ttft_p50", "ttft_p99", "tpot_p50", "tpot_p99", "late_p99")},
    }
    return {**row, **shown, **budget}
