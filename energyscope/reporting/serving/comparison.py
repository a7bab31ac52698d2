"""Measured servers against a baseline: the first screen of their page, and what the terminal says first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from energyscope import format as fmt
from energyscope import reasons
from energyscope.comparison.compare import with_unique_names
from energyscope.comparison.conditions import BOARD, DEVICE, NAMES
from energyscope.comparison.difference import NOT_COMPARABLE, Difference
from energyscope.comparison.served import (
    EACH_TOKEN,
    FIRST_TOKEN,
    IDLE_ENGINE,
    PER_REQUEST,
    TOKENS,
    Point,
    ServedComparison,
    ServedPair,
    compare_served,
)
from energyscope.reporting.charts.plane import Axis, curves
from energyscope.reporting.comparison import differences
from energyscope.reporting.comparison.answer import MODELLED, both, chips_of
from energyscope.reporting.comparison.differences import capital
from energyscope.reporting.comparison.source import Sides, switch_of
from energyscope.reporting.page import sentence
from energyscope.reporting.run.answer import Chip, Stat
from energyscope.reporting.section import Figure, Page, View
from energyscope.reporting.serving.curve import curve_table
from energyscope.reporting.serving.served import Server, engine_of
from energyscope.reporting.table import Column, Table
from energyscope.serving.run import ServingRun

CURVES = "load-curves"
_NO_BREAK = "\u00a0"


@dataclass(frozen=True)
class ServedAgainst(Sides):
    """One other server against the baseline."""

    pair: ServedPair
    servers: tuple[Server, Server]
    workloads: Sequence[Any] = ()  # a server has none to switch between

    @property
    def points(self) -> list[Point]:
        """The loads of the user's request that both have: the baseline's best one first, then most users first."""
        best = self.servers[0].run.serving.get("knee")
        return sorted(self.pair.points, key=lambda point: (point.load != best, -(point.users or 0)))

    @property
    def point(self) -> Point | None:
        """The load at which requests are compared first."""
        return next((point for point in self.points if _of(point, PER_REQUEST)), None)

    @property
    def main_costs(self) -> list[Difference]:
        """Of a token of the longest prompts, of one generated alone and among most, and of the idle engine."""
        known = [item for item in self.pair.costs if item.change]
        prompts, answers = ([item for item in known if item.name.startswith(word)] for word in TOKENS)
        idle = [item for item in known if item.name == IDLE_ENGINE]
        return [*prompts[-1:], *answers[:1], *answers[1:][-1:], *idle]

    @cached_property
    def lead(self) -> tuple[str, Difference] | None:
        """What is compared first, with what it is of: a request where it has a verdict, else a generated token."""
        requests = ((f"request at {asked(point)}", _of(point, PER_REQUEST)) for point in self.points)
        tokens = ((item.name, item) for item in reversed(self.main_costs) if item.name != IDLE_ENGINE)
        known = [(unit, item) for unit, item in (*requests, *tokens) if item is not None and item.change]
        judged = (each for each in known if each[1].verdict != NOT_COMPARABLE)
        return next(judged, known[0] if known else None)


@dataclass(frozen=True)
class ComparedServers:
    """All servers of a comparison, the baseline first."""

    runs: tuple[ServingRun, ...]
    comparison: ServedComparison

    @classmethod
    def of(cls, runs: Iterable[ServingRun]) -> ComparedServers:
        """Compare servers."""
        apart = with_unique_names(tuple(runs))
        return cls(tuple(apart), compare_served(apart))

    @property
    def names(self) -> list[str]:
        """The names of the runs."""
        return [run.name for run in self.runs]

    @cached_property
    def others(self) -> list[ServedAgainst]:
        """Every other server against the baseline."""
        first, *others = map(Server, self.runs)
        return [
            ServedAgainst(str(place), (first.run.name, other.run.name), pair, (first, other))
            for place, (other, pair) in enumerate(zip(others, self.comparison.pairs, strict=True), 1)
        ]

    @property
    def switch(self) -> list[tuple[str, str]]:
        """The switch between other servers."""
        return switch_of(self.others)


SERVED: Page[ComparedServers] = Page("served")


@dataclass(frozen=True)
class ServedAnswer:
    """What a reader gets of one other server against the baseline in ten seconds."""

    against: ServedAgainst

    @cached_property
    def facts(self) -> dict[str, Any]:
        """The numbers of the sentences, and what they hang on."""
        against, pair = self.against, self.against.pair
        unit, lead = against.lead or (None, None)
        alone = next(
            (item for point in pair.points if point.users == 1 and (item := _of(point, PER_REQUEST))), None
        )
        named = {condition.field: condition.name for condition in pair.obstacles}
        obstacles = [
            name for field, name in named.items() if DEVICE not in named or field in {DEVICE, "sensor.meter"}
        ]
        of_lead = pair.requests if lead is not None and lead.name == PER_REQUEST else ()
        return {
            "lead": lead,
            "unit": unit,
            "baseline": against.names[0],
            "other": against.names[1],
            "modelled": [server.run.name for server in against.servers if server.run.modelled],
            "work": False,
            "eager_total": False,
            "obstacles": [*obstacles, *(condition.name for condition in of_lead)],
            "board": obstacles == [NAMES[BOARD]] and not of_lead,
            "remaining": None,  # servers carry no reference of their board
            "halves": [fmt.relative(item) for item in (lead.baseline, lead.other)] if lead else [],
            "alone": alone if alone is not lead and alone is not None and alone.relative else None,
            "latencies": any(item.change for point in pair.points for item in point.rows),
            "requests": [condition.name for condition in pair.requests],
            "lone": [remark for remark in pair.remarks if remark.code == "loads-alone"],
            "differ": [condition.name for condition in (*pair.obstacles, *pair.notes)],
            "same": len({server.run.path.resolve() for server in against.servers}) == 1,
        }

    @cached_property
    def sentence(self) -> str:
        """What a request takes less or more, and whether that is shown."""
        return sentence("compare/answer.txt.j2", facts=self.facts)

    @cached_property
    def cause(self) -> str:
        """What differs between the runs, and what of them is compared."""
        return sentence("served/cause.txt.j2", facts=self.facts)

    @cached_property
    def trust(self) -> str:
        """How far the verdict can be relied on."""
        return sentence("compare/trust.txt.j2", facts=self.facts)

    @cached_property
    def stats(self) -> list[Stat]:
        """Energy and latencies of a request, energy of a generated token, and the idle engine."""
        point = self.against.point
        titles = {PER_REQUEST: "Request", FIRST_TOKEN: "First token", EACH_TOKEN: "Each token"}
        rows = [(point, item) for item in point.rows if item.name in titles] if point else []
        named = [(f"{titles[item.name]}, {asked(point)}", item) for point, item in rows]
        named += [(capital(item.name), item) for item in self.against.main_costs[-2:]]
        return [Stat(label, both(item, item.unit), hint=_hint(item)) for label, item in named]

    def record(self) -> dict[str, str]:
        """Return the answer for a machine."""
        other = self.against.pair.other
        return {"other": other, "sentence": self.sentence, "cause": self.cause, "trust": self.trust}

    def curve(self, *names: str) -> Table:
        """Return the user's request at each load that both have; of some quantities where they are named."""
        rows = [
            _row(item, asked=asked(point).replace(" ", _NO_BREAK))
            for point in self.against.pair.points
            for item in point.rows
            if not names or item.name in names
        ]
        return _table(self.against, rows, "Requests", asked=len(names) != 1)

    def costs(self, items: Sequence[Difference]) -> Table:
        """Return what tokens and the idle engine cost, of some of their differences."""
        rows = [_row(item, name=_title(item.name)) for item in items]
        return _table(self.against, rows, "Tokens and the idle engine")


def asked(point: Point) -> str:
    """Return who asked at a load."""
    return point.load.removeprefix("requests at ") if point.users is None else fmt.count(point.users, "user")


def _table(
    against: ServedAgainst, rows: Sequence[dict[str, Any]], title: str, *, asked: bool | None = None
) -> Table:
    """Return differences with their change; ``asked``: the load stands before the quantity, else in its place."""
    name, ratio, first, second, *verdicts = differences.table(against, rows, title).columns
    who = Column("asked", "Who asks")
    heads = [name] if asked is None else [who, name] if asked else [who]
    whys = {row["reason"] for row in rows}
    why = [Column("reason", "Why not", "reasons", rank=5)] if len(whys) > 1 else []
    notes = [f"{differences.NOT_COMPARABLE}: {reasons.words(each)}." for each in whys if each and not why]
    return Table([*heads, first, second, differences.CHANGE, ratio, *verdicts, *why], rows, title, notes)


def leads(source: ComparedServers) -> Table:
    """Return what each other server takes first of all."""
    rows = [
        differences.row(item, name=f"{against.names[1]}, per {unit}")
        for against in source.others
        for unit, item in ([against.lead] if against.lead else [])
    ]
    return differences.table(source.others[0], rows, f"Energy against {source.names[0]}", "Run")


def chips(source: ComparedServers) -> list[Chip]:
    """Return what was measured and where; what differs between the runs is marked."""
    documents = [run.document for run in source.runs]
    values = [
        [str((document.get("device") or {}).get("name") or "") for document in documents],
        [str((document.get("model") or {}).get("name") or "") for document in documents],
        [engine_of(document) for document in documents],
    ]
    return chips_of(source.names, values, {MODELLED: [run.modelled for run in source.runs]})


def figures(source: ComparedServers) -> list[Figure]:
    """Return the load curves of both servers, a view for each other one."""
    views = [view for against in source.others for view in _curves(against)]
    caption = "Each point is a number of users; band: 95 % intervals."
    return [Figure(CURVES, "Energy of a request by users", views, caption)] if views else []


def _curves(against: ServedAgainst) -> Iterator[View]:
    columns, rows = [Column("run", "Run"), Column("users", "Users", "count")], []
    for name, server in zip(against.names, against.servers, strict=True):
        table = curve_table(server)
        rows += [{**row, "run": name} for row in table.rows if row["users"] is not None and row["request"]]
        shown = ("request", "token", "requests_per_s", "ttft_p50", "tpot_p50", "quality")
        columns[2:] = [table.column(key) for key in shown]
    if rows:
        table = Table(columns, rows, "Load curves")
        chart = curves(table, Axis("users", log=True), Axis("request", log=True), series="run")
        yield View(chart, table, {"other": against.key})


def _of(point: Point, name: str) -> Difference | None:
    return next((item for item in point.rows if item.name == name and item.change), None)


def _row(item: Difference, **more: Any) -> dict[str, Any]:
    """Return a difference as a row, with the reason where its verdict does not say it."""
    row = differences.row(item, **more)
    return {**row, "reason": item.reason if row["verdict"] == differences.NOT_COMPARABLE else None}


def _title(name: str) -> str:
    """Return the name of a cost, which breaks before its load alone."""
    what, bracket, load = capital(name).partition(" (")
    return what + bracket + load.replace(" ", _NO_BREAK)


def _hint(item: Difference) -> str:
    return " and ".join(fmt.measured(side, item.unit) for side in (item.baseline, item.other))
