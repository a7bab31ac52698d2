"""A section is registered once; navigation, page, tables and the closing line follow."""

from __future__ import annotations

from energyscope.reporting.section import Content, Figure, Page, figures, tables
from energyscope.reporting.table import Column, Table

TABLE = Table([Column("a", "A")], [{"a": "x"}])


def page():
    """A page with a section that is there, one that is not, and one that no option would measure."""
    made: Page[str] = Page("made")

    @made.section(1, "first", "First")
    def first(subject):
        return Content({"subject": subject}, [Figure.of("one", "One", object(), TABLE)], {"table": TABLE})

    made.section(3, "third", "Third")(lambda _: None)
    made.section(4, "fourth", "Fourth", "--stages fourth", applies=lambda subject: subject != "run")(
        lambda _: None
    )
    made.section(2, "second", "Second", "--stages second")(lambda _: None)
    return made


def test_what_has_content_is_shown_in_order():
    """GIVEN three sections of which one has content, THEN it alone is shown, with its figures and tables."""
    shown = page().shown("run")
    assert [item.section.name for item in shown] == ["first"]
    assert [section.name for section in page().sections] == ["first", "second", "third", "fourth"]
    assert shown[0].content.data == {"subject": "run"}
    assert [figure.name for figure in figures(shown)] == ["one"]
    assert tables(shown) == {"table": TABLE}


def test_what_was_not_measured_is_named_with_its_option():
    """GIVEN sections without content, THEN only those that an option measures, and that apply, are missing."""
    made = page()
    assert made.missing("run", made.shown("run")) == {"second": "--stages second"}
