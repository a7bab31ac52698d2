"""Tables beside the scatter of energy and impact: advice, within kinds, null models, predictors.

Each is None where correlation.json has nothing of it, as those of older versions do not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from energyscope.reporting import text
from energyscope.reporting.figure import Table
from energyscope.runs.intervals import Interval, finite, interval

DASH = "\u2013"
_MOST_NAMED = 2  # components, up to which a sentence names each
TITLES = {"pearson": "Pearson", "spearman": "Spearman", "kendall": "Kendall"}


@dataclass(frozen=True)
class Panel:
    """A table with its title, the sentence above it and the one below; ``numbers`` are columns set to the right.

    ``bold`` are the cells (row, column) whose interval excludes zero; ``folded`` says that it opens on demand, as
    ``rest``, a second table, always does.
    """

    name: str
    title: str
    table: Table
    numbers: frozenset[int] = frozenset()
    bold: frozenset[tuple[int, int]] = frozenset()
    before: str = ""
    after: str = ""
    folded: bool = False
    rest: Table | None = None


def advice_panel(document: Mapping[str, Any]) -> Panel | None:
    """Return what to do about each component; where nothing is advised at all, why not."""
    entries = list(document.get("advice") or [])
    if not entries:
        return None
    given = [entry for entry in entries if entry.get("advice")]
    withheld = [entry for entry in entries if not entry.get("advice")]
    rows = [[str(one["component"]), str(one["advice"]), str(one["quadrant"]), str(one["why"])] for one in given]
    rest = [[str(one["component"]), str(one["quadrant"]), str(one["withheld_because"])] for one in withheld]
    before = ""
    if not given:
        before = f"No advice is given: {_withheld(withheld)}."
    elif withheld:
        before = (
            f"Given for {len(given)} of {text.count(len(entries), 'component')}, withheld from {len(withheld)}."
        )
    warning = next((str(one["warning"]) for one in entries if one.get("warning")), "")
    return Panel(
        name="advice",
        title=f"What to do, by {document.get('advice_column') or document.get('impact')}",
        table=Table(["component", "advice", "quadrant", "why"], rows),
        before=" ".join(part for part in (before, warning) if part),
        after="Advice needs a closure of the model's energy within 93 to 107 %, an energy of grade A or B, and a "
        "quadrant. What several changes do together has to be measured.",
        rest=Table(["component", "quadrant", "withheld because"], rest) if rest else None,
    )


def _withheld(entries: Sequence[Mapping[str, Any]]) -> str:
    """Say why advice is withheld: each reason with the components it holds for, most first."""
    holds: dict[str, list[str]] = {}
    for one in entries:
        holds.setdefault(str(one["withheld_because"]), []).append(str(one["component"]))
    found = sorted(holds.items(), key=lambda item: -len(item[1]))
    return "; ".join(
        f"for {text.listed(names) if len(names) <= _MOST_NAMED else text.count(len(names), 'component')}, {reason}"
        for reason, names in found
    )


def within_panel(document: Mapping[str, Any]) -> Panel | None:
    """Return the correlations within each kind, and over all kinds with each centred on its own mean."""
    section = document.get("within_kinds") or {}
    kinds = list(section.get("kinds") or [])
    adjusted = [one for one in document.get("adjusted") or [] if one.get("method") == "spearman"]
    if not kinds and not adjusted:
        return None
    rows: list[list[str]] = []
    bold: set[tuple[int, int]] = set()
    for one in adjusted:
        value = _interval(one)
        if value is not None and value.excludes(0.0):
            bold.add((len(rows), 4))
        said = coefficient(value, one.get("reason"))
        rows.append(["all, each kind centred", str(one["n"]), DASH, DASH, said, p_text(one["p_value"]), DASH])
    for entry in kinds:
        found = next((one for one in entry["correlations"] if one["method"] == "spearman"), None)
        value = _interval(found) if found else None
        if value is not None and value.excludes(0.0):
            bold.add((len(rows), 4))
        reason = str((found or entry).get("reason")).partition(" (Q =")[0]  # which has a column of its own
        rows.append([
            str(entry["kind"]), str(entry["n"]), _differences(entry["energy"]), _differences(entry["impact"]),
            coefficient(value, f"not tested: {reason}"), p_text(found["p_value"]) if found else DASH,
            p_text(found["p_holm"]) if found else DASH,
        ])  # fmt: skip
    columns = ["kind", "n", "energy differs", "impact differs", "Spearman [95 %]", "permutation p", "p, Holm"]
    rule = str(section.get("rule") or "")
    return Panel(
        name="within-kinds",
        title="Within kinds",
        table=Table(columns, rows),
        numbers=frozenset({1, 5, 6}),
        bold=frozenset(bold),
        before="A correlation over pooled kinds may come from the kinds alone and may reverse within each of them "
        "(Simpson's paradox). It has no permutation p, since points of one kind are not independent; "
        "its interval is that of resamples that draw kinds first, then points within them. Where each kind is "
        "centred, points are drawn and exchanged within their kind only.",
        after=f"{rule[:1].upper()}{rule[1:]}." if rule else "",
    )


def null_panel(document: Mapping[str, Any]) -> Panel | None:
    """Return the null models beside what was measured."""
    entries = list(document.get("nulls") or [])
    if not entries:
        return None
    rows: list[list[str]] = []
    bold: set[tuple[int, int]] = set()
    for one in entries:
        difference = interval(one["difference"], one["difference_ci_low"], one["difference_ci_high"])
        if difference is not None and difference.excludes(0.0):
            bold.add((len(rows), 5))
        measured = interval(one["measured"], one["measured_ci_low"], one["measured_ci_high"])
        unknown = one.get("reason") if one["value"] is None else None
        rows.append([
            str(one["predictor"]), str(one["target"]), str(one["n"]), coefficient(_interval(one), unknown),
            coefficient(measured, DASH), coefficient(difference, DASH),
            str(one["better"] or ("neither shown" if difference else DASH)),
        ])  # fmt: skip
    columns = ["null model", "ranks", "n", "Spearman", "energy with impact", "difference of sizes", "better"]
    return Panel(
        name="null-models",
        title="Would a count have said the same?",
        table=Table(columns, rows),
        numbers=frozenset({2}),
        bold=frozenset(bold),
        before="Null models need no measurement: parameters, matrix work and least traffic of each component, as "
        "predictors of its impact and of its energy, beside what energy and impact say of each other.",
        after="Difference: positive where the null model ranks better; its 95 % interval is of the same resamples "
        "of both (paired), which draw kinds first, then points within them. Bold: it excludes zero.",
    )


def predictor_panel(document: Mapping[str, Any]) -> Panel | None:
    """Return the rank agreement of cheap predictors with the measured impact."""
    entries = list(document.get("predictors") or [])
    if all(_interval(one) is None for one in entries):
        return None
    rows: list[list[str]] = []
    bold: set[tuple[int, int]] = set()
    for one in entries:
        value = _interval(one)
        if value is not None and value.excludes(0.0):
            bold.add((len(rows), 3))
        inside = finite(one.get("within_kinds"))
        rows.append([
            str(one["predictor"]), str(one["impact"]), str(one["n"]), coefficient(value, one.get("reason")),
            DASH if inside is None else f"{inside:+.2f}", str(one.get("expected") or DASH),
        ])  # fmt: skip
    columns = ["predictor", "measured impact", "n", "Spearman [95 %]", "within kinds", "expected sign"]
    return Panel(
        name="predictors",
        title="Do cheap predictors rank alike?",
        table=Table(columns, rows),
        numbers=frozenset({2, 4}),
        bold=frozenset(bold),
        after="Over the deepest components that have both. Within kinds: ranks centred on their kind's mean, "
        "which leaves what the predictor knows beyond telling kinds apart. Bold: the interval excludes zero.",
        folded=len(rows) > 12,
    )


def coefficient(value: Interval | None, reason: object = None) -> str:
    """Write a coefficient with its interval, or why there is none."""
    if value is None:
        return str(reason or text.UNKNOWN)
    if value.low is None or value.high is None:
        return f"{value.value:+.2f}"
    return f"{value.value:+.2f} [{value.low:+.2f}, {value.high:+.2f}]"


def p_text(p_value: float | None) -> str:
    """Write a p-value; small ones as an upper limit, since a permutation test cannot resolve them."""
    if p_value is None:
        return "not tested"
    return "< 0.001" if p_value < 0.001 else f"{p_value:.3f}"


def panels(document: Mapping[str, Any], *, related: bool = True) -> Sequence[Panel]:
    """Return the tables that a document has something for, in the order of the page.

    Where energy and impact are not ``related``, since points are too few, those on their correlation say nothing.
    """
    makers = (within_panel, null_panel, predictor_panel) if related else (predictor_panel,)
    found = (make(document) for make in makers)
    return [panel for panel in found if panel is not None]


def _interval(entry: Mapping[str, Any]) -> Interval | None:
    return interval(entry.get("value"), entry.get("ci_low"), entry.get("ci_high"))


def _differences(entry: Mapping[str, Any]) -> str:
    q, p_value = finite(entry.get("q")), finite(entry.get("p_value"))
    if q is None or p_value is None:
        return str(entry.get("reason") or text.UNKNOWN)
    return f"Q {q:.3g} / {entry['df']}, p {p_text(p_value)}"
