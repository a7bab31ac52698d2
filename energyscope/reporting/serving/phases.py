"""What a token costs: of prompts by their length, of answers by how many are written together."""

from __future__ import annotations

from energyscope.reporting.charts.plane import Axis, curves
from energyscope.reporting.section import Content, Figure
from energyscope.reporting.serving.served import SERVER, Server
from energyscope.reporting.table import Amount, Column, Table
from energyscope.serving.design import PROMPT

TOKENS = "token-energy"
CAUSE_NAMES = {
    "time": "engine loaded and idle",
    "active": "engine with a request, beyond that",
    "requests": "each prompt, however short",
    "prompt": "each token of a prompt",
    "steps": "each decode step",
    "tokens": "each token generated in it",
    "context": "each of these per 1000 tokens it looks back at",
}


@SERVER.section(2, "phases", "Prompt and answer")
def section(server: Server) -> Content | None:
    """Return the energy of tokens, and what it is made of."""
    if not server.costs:
        return None
    rows = phase_rows(server)
    prompts = Table(phase_columns(), [row for row in rows if row["phase"] == PROMPT], "Prompt tokens")
    answers = Table(phase_columns(), [row for row in rows if row["phase"] != PROMPT], "Generated tokens")
    figures = []
    if len(answers.rows) > 1:
        chart = curves(answers, Axis("together"), Axis("token"), series="kind")
        caption = "The weights are read once for all answers of a step."
        figures.append(Figure.of(TOKENS, "Energy of a generated token", chart, answers, caption))
    tables = {"prompt-tokens": prompts, "generated-tokens": answers, "costs": costs_table(server)}
    return Content({}, figures, tables)


def phase_columns() -> list[Column]:
    """Return the columns of both phases."""
    return [
        Column("users", "Users", "count"),
        Column("prompt_tokens", "Prompt", "count", "tokens of a prompt"),
        Column("context", "Context", "count", "tokens that a new one looks back at, on average", rank=1),
        Column("together", "Answers a step", "", "that get a token in one decode step, on average", rank=1),
        Column("token", "Per token", "J", "beyond the idle engine's power"),
        Column("tokens", "Tokens measured", "count", rank=2),
        Column("quality", "Grade", "grade"),
    ]


def phase_rows(server: Server) -> list[dict[str, object]]:
    """Return the rows of both phases."""
    return [{**phase, "kind": phase["phase"]} for phase in server.phases]


def costs_table(server: Server) -> Table:
    """Return what one unit of each cause costs."""
    columns = [Column("name", "Of what"), Column("cost", "Costs", "J"), Column("quality", "Grade", "grade")]
    rows = [
        {
            **cost,
            "name": CAUSE_NAMES.get(cost["cause"], cost["cause"]),
            "cost": Amount.of(cost["cost"], "W" if cost["unit"] == "W" else "J"),
        }
        for cost in server.costs
    ]
    notes = ["Where the engine never waits, seconds at work are in the costs of what it does in them."]
    return Table(columns, rows, "What it is made of", notes)
