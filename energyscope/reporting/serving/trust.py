"""Whether the numbers can be trusted: loads that were held out, all other loads, and what disturbed them."""

from __future__ import annotations

from energyscope import format as fmt
from energyscope.reporting.section import Content
from energyscope.reporting.serving.served import SERVER, Server, asked_by
from energyscope.reporting.table import Column, Table


@SERVER.section(3, "trust", "Can I trust this?")
def section(server: Server) -> Content:
    """Return measured and predicted energies, every load, and notes."""
    document = server.run.document
    notes = [
        *server.run.serving["notes"],
        *((document.get("serving") or {}).get("notes") or []),
        *(document.get("warnings") or []),
    ]
    return Content({"notes": notes}, (), {"held-out": held_out_table(server), "loads": loads_table(server)})


@SERVER.section(4, "method", "Method")
def method(server: Server) -> Content:
    """Return how the numbers came about, and what was asked."""
    document = server.run.document
    endpoint = (document.get("serving") or {}).get("endpoint") or {}
    settings = document.get("settings") or {}
    sensor = document.get("sensor") or {}
    facts = [
        ("Server", endpoint.get("url")),
        ("Model", endpoint.get("model")),
        ("API", endpoint.get("api")),
        ("GPU", (document.get("device") or {}).get("name")),
        ("Meter", sensor.get("meter")),
        ("Prompt", settings.get("prompt_tokens")),
        ("Answer", settings.get("new_tokens")),
        ("Seed", settings.get("seed")),
        ("Client's processor time", fmt.quantity((document.get("serving") or {}).get("client_cpu_s"), "s")),
        ("Command", document.get("command")),
    ]
    return Content({"facts": [(name, value) for name, value in facts if value not in {None, ""}]})


def held_out_table(server: Server) -> Table:
    """Return the loads that nothing was fitted to."""
    columns = [
        Column("load", "Held-out load"),
        Column("measured", "Measured", "J"),
        Column("predicted", "Predicted", "J"),
        Column("error", "Error", "change"),
    ]
    rows = [{**part, "measured": part["measured_j"], "predicted": part["predicted_j"]} for part in server.held_out]
    return Table(columns, rows, "Loads that nothing was fitted to")


def loads_table(server: Server) -> Table:
    """Return every load."""
    columns = [
        Column("load", "Load"),
        Column("asked", "Who asks"),
        Column("requests", "Answered", "count"),
        Column("failed", "Failed", "count"),
        Column("prompt_tokens", "Prompt", "count"),
        Column("new_tokens", "Answer", "count"),
        Column("request", "Per request", "J"),
        Column("clock_mhz", "SM clock", "MHz"),
        Column("temperature_c", "Temperature", "\u00b0C"),
        Column("quality", "Grade", "grade"),
        Column("reasons", "Remarks", "reasons"),
    ]
    return Table(columns, [{**row, "asked": asked_by(row)} for row in server.loads], "Loads")
