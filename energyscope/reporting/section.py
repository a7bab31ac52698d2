"""A page and its sections: what is shown of a subject, each registered once, from which everything else follows.

A section is a function from the page's subject (a run, laws, a comparison) to its `Content`. Its name is that of
its anchor, its template (``templates/PAGE/NAME.html.j2``) and its tables on the command line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from energyscope.reporting.table import Table

Subject = TypeVar("Subject")


@dataclass(frozen=True)
class View:
    """One drawing of a figure: an Altair ``chart`` of a ``table``, and the state of the page that it is ``when``.

    The state is what the switches say, such as ``{"phase": "prefill", "part": "work"}``.
    """

    chart: Any
    table: Table
    when: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Figure:
    """One place on a page for charts of one kind; ``name`` is unique there. The first view is shown first.

    ``caption`` says in at most 20 words what the marks mean.
    """

    name: str
    title: str
    views: Sequence[View]
    caption: str = ""

    @classmethod
    def of(cls, name: str, title: str, chart: Any, table: Table, caption: str = "") -> Figure:
        """Return a figure with one view."""
        return cls(name, title, [View(chart, table)], caption)


@dataclass(frozen=True)
class Content:
    """What a section shows: values for its template, figures with views, and by name the tables that have rows."""

    data: Mapping[str, Any] = field(default_factory=dict)
    figures: Sequence[Figure] = ()
    tables: Mapping[str, Table] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Leave out figures without views and tables without rows."""
        object.__setattr__(self, "figures", [figure for figure in self.figures if figure.views])
        object.__setattr__(self, "tables", {name: table for name, table in self.tables.items() if table})


@dataclass(frozen=True)
class Section(Generic[Subject]):
    """One section of a page: where it stands, how it is built, and got where it is missing (an ``option``)."""

    place: int
    name: str
    title: str
    build: Callable[[Subject], Content | None]
    option: str | Callable[[Subject], str]
    applies: Callable[[Subject], bool]


@dataclass(frozen=True)
class ShownSection(Generic[Subject]):
    """A section with its content."""

    section: Section[Subject]
    content: Content


class Page(Generic[Subject]):
    """A kind of page: its sections in their order."""

    def __init__(self, name: str) -> None:
        """Name the page as its folder of templates is named."""
        self.name = name
        self.sections: list[Section[Subject]] = []

    def section(
        self,
        place: int,
        name: str,
        title: str,
        option: str | Callable[[Subject], str] = "",
        applies: Callable[[Subject], bool] = lambda _: True,
    ) -> Callable[[Callable[[Subject], Content | None]], Callable[[Subject], Content | None]]:
        """Register a function as a section; it returns None where there is nothing to show.

        Sections stand in the order of their ``place``. ``option`` is what has it measured: a section without
        content is then named in the page's closing line, where it ``applies`` to the subject.
        """

        def register(build: Callable[[Subject], Content | None]) -> Callable[[Subject], Content | None]:
            self.sections.append(Section(place, name, title, build, option, applies))
            self.sections.sort(key=lambda section: section.place)
            return build

        return register

    def shown(self, subject: Subject) -> list[ShownSection[Subject]]:
        """Return the sections that have content."""
        built = ((section, section.build(subject)) for section in self.sections)
        return [ShownSection(section, content) for section, content in built if content is not None]

    def missing(self, subject: Subject, shown: Sequence[ShownSection[Subject]]) -> dict[str, str]:
        """Return the names of the sections that were not measured, with the option that has each measured."""
        present = {item.section.name for item in shown}
        options = {
            section.name: section.option(subject) if callable(section.option) else section.option
            for section in self.sections
            if section.name not in present and section.applies(subject)
        }
        return {name: option for name, option in options.items() if option}


def figures(shown: Sequence[ShownSection[Any]]) -> Iterator[Figure]:
    """Yield the figures of all sections."""
    for item in shown:
        yield from item.content.figures


def tables(shown: Sequence[ShownSection[Any]]) -> dict[str, Table]:
    """Return the tables of all sections by name."""
    return {name: table for item in shown for name, table in item.content.tables.items()}
