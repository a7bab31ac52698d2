"""The head of the page: banners, what was varied, the numbers most readers came for."""

from __future__ import annotations

from collections.abc import Sequence

from energyscope.reporting import text
from energyscope.reporting.data.headline import Banner, Metric, metric
from energyscope.reporting.data.method import Fact
from energyscope.reporting.laws import names
from energyscope.reporting.laws.document import (
    Found,
    fitted,
    holds_zero,
    item,
    main_group,
    measured_groups,
    whole_of,
)
from energyscope.reporting.laws.law_words import further_flags
from energyscope.runs.intervals import finite

_VARIED = (("model", "Models"), ("phase", "Phases"), ("precision", "Precisions"),
           ("execution", "Executions"), ("kv_cache", "KV caches"), ("board", "Boards"),
           ("meter", "Meters"), ("weights", "Weights"))  # fmt: skip

_MODELLED = (
    "No power sensor was read for some or all of these cells: their joules are time multiplied by stated watts,"
    " so these are laws of time, not of power."
)
_RANDOM = (
    "Models have their true shape but no trained weights. Energy depends on the values to some degree, laws too."
)
_PLAIN = ("kv_cache", "meter", "weights")


def banners(document: Found) -> list[Banner]:
    """Return what a reader must know before any number."""
    found = []
    if document.get("modelled"):
        found.append(Banner("MODELLED", _MODELLED))
    if "random" in (document.get("weights") or ()):
        found.append(Banner("RANDOM WEIGHTS", _RANDOM))
    return found


def models(document: Found) -> list[str]:
    """Return the models that were measured, in the order of the sources."""
    return list(dict.fromkeys(str(one["model"]) for one in document.get("sources") or () if one.get("model")))


def subtitle(document: Found) -> str:
    """Say in one line what was measured where and when."""
    sources = document.get("sources") or ()
    devices = list(dict.fromkeys(names.boards(document).values()))
    created = str(document.get("created") or "").replace("T", " ").removesuffix("Z")
    groups, missing = len(document.get("groups") or ()), len(document.get("not_measured") or ())
    amount = f"{text.count(len(sources), 'cell')} in {text.count(groups, 'group')}"
    lacking = f"{missing} not measured" if missing else ""
    parts = [text.listed(devices), amount, lacking, created]
    return " \u00b7 ".join(part for part in parts if part)


def facts(document: Found) -> list[Fact]:
    """Return what was varied and what was held, field by field."""
    sources = document.get("sources") or ()
    named = names.boards(document)
    found = []
    for field, title in _VARIED:
        values = [one.get(field) for one in sources]
        told = (
            str(value) if field in _PLAIN else names.value_of(field, value, named)
            for value in values
            if value is not None
        )
        shown = list(dict.fromkeys(told))
        if shown:
            alone = {"Boards": "Board", "Weights": "Weights"}.get(title, title.removesuffix("s"))
            found.append(Fact(title if len(shown) > 1 else alone, text.listed(shown, 8)))
    for field, title in (("batch_size", "Batch size"), ("tokens", "Tokens")):
        numbers = [one.get(field) for one in sources if one.get(field) is not None]
        if numbers:
            found.append(Fact(f"{title}s" if field == "batch_size" and len(set(numbers)) > 1 else title,
                              f"{names.span(numbers)}{_several(numbers)}"))  # fmt: skip
    return found


def _several(numbers: Sequence[object]) -> str:
    amount = len(set(numbers))
    return f" ({amount} values)" if amount > 3 else ""


def metrics(document: Found) -> list[Metric]:
    """Return the headline numbers: the main group's two terms and its held-out medians."""
    group = main_group(document)
    found: list[Metric] = []
    if group:
        law = fitted((whole_of(group) or {}).get("two_term")) or {}
        fixed, marginal = item(law.get("fixed_mj")), item(law.get("marginal_pj_per_flop"))
        several = len(measured_groups(document)) > 1
        label = names.full_label(group, names.boards(document)) if several else ""
        if marginal:
            modelled = "MODELLED" if document.get("modelled") else ""
            details = [one for one in (modelled or label, *further_flags(law)) if one]
            note = "; ".join(details)
            if holds_zero(marginal):
                slope = f"k {text.with_limits(marginal, 'pJ/FLOP')}, which holds 0"
                found.append(Metric("Growth with FLOPs", "not shown", slope, note))
            else:
                found.append(metric("Each further FLOP costs", marginal, "pJ", note))
        if fixed:
            vague = "; cannot be told from nothing" if holds_zero(fixed) else ""
            found.append(metric("Before the first FLOP", fixed, "mJ", f"of the whole model{vague}"))
        held = group.get("held_out") or {}
        for name, what in (("whole", "of the whole model"), ("components", "of the components")):
            known = held.get(name)
            if known and finite(known.get("median")) is not None:
                found.append(Metric(f"Error {what}", text.percent(known["median"]), _median_of(held, name)))
    return found


def _median_of(held: Found, name: str) -> str:
    """Say of what the median of left-out cells is: of components, each cell has an error for each of them."""
    known, amount = held[name], int(held[name].get("cells") or 0)
    by = f" by {known.get('by')}" if len(held.get("ways") or ()) > 1 else ""
    if name == "whole":
        return f"median of {text.count(amount, 'cell')} left out{by}"
    return f"median of {text.count(amount, 'error')}: of each component in each cell left out{by}"
