"""What the page says first: sentences with numbers, all of them computed from the document."""

from __future__ import annotations

from collections.abc import Sequence

from energyscope.reporting import text
from energyscope.reporting.laws import names
from energyscope.reporting.laws.contrast_figures import contrast_groups, older_said, pair
from energyscope.reporting.laws.document import DECODE, WHOLE, Found, item, main_group
from energyscope.reporting.laws.law_words import law_said, ratio_said, times
from energyscope.reporting.laws.left_out_sizes import left_out_words
from energyscope.runs.intervals import Interval, finite
from energyscope.runs.intervals import ratio as quotient

MOST = 5


def findings(document: Found) -> list[str]:
    """Return at most five sentences: the law, its ratios, how it foretells, contrasts, efficiency, sizes."""
    group = main_group(document)
    made = [
        law_said(document, group) if group else "",
        ratio_said(document, group) if group else "",
        foretold_said(document),
        contrast_said(document, widest(document)),
        efficiency_said(document),
        sizes_said(document),
    ]
    found = [sentence for sentence in made if sentence]
    return found if len(found) <= MOST else found[1:]


def foretold_said(document: Found) -> str:
    """Say with what errors left-out cells are foretold, over all groups and ways of leaving out."""
    groups = [_ways(group.get("held_out") or {}) for group in document.get("groups") or ()]
    wholes, parts = (
        [one[name] for ways in groups for one in ways if finite((one.get(name) or {}).get("median")) is not None]
        for name in ("whole", "components")
    )
    said = [
        f"{_range(found)}{_worst(found)} for {what}"
        for found, what in ((wholes, "the whole model"), (parts, "its components"))
        if found
    ]
    if not said:
        return ""
    left_out = {str(one.get("by")) for one in [*wholes, *parts]}
    what = names.WAYS.get(left_out.pop(), "cells") if len(left_out) == 1 else "cells"
    told = sum(any(one.get("whole") for one in ways) for ways in groups)
    several = f", over {told} groups" if told > 1 else ""
    return f"Left-out {what} are foretold with a median error of {' and '.join(said)}{several}."


def _ways(held: Found) -> Sequence[Found]:
    """Return what became of each way of leaving out; an older document has one alone."""
    return held.get("ways") or [held]


def _range(found: Sequence[Found]) -> str:
    known = sorted(one["median"] for one in found)
    low, high = text.percent(known[0]), text.percent(known[-1])
    return low if low == high else f"{low.removesuffix(' %')} to {high}"


def _worst(found: Sequence[Found]) -> str:
    known = [worst for one in found if (worst := finite(one.get("worst"))) is not None]
    return f" (worst {text.percent(max(known))})" if known else ""


def widest(document: Found) -> Sequence[Found]:
    """Return the contrasts of the pair of settings that differ most in the whole model."""
    groups = contrast_groups(document)
    return max(groups, key=lambda group: max((_gap(one) for one in group), default=0.0), default=[])


def _gap(one: Found) -> float:
    ratio = item(one.get("ratio"))
    if one.get("subject") != WHOLE or ratio is None or ratio.value <= 0:
        return 0.0
    return max(ratio.value, 1 / ratio.value)


def contrast_said(document: Found, found: Sequence[Found], subject: str = WHOLE) -> str:
    """Say what one setting costs against another over the shapes, of one subject."""
    known = [(ratio, one) for one in found if one["subject"] == subject and (ratio := item(one.get("ratio")))]
    if not known:
        return ""
    known.sort(key=lambda pair: pair[0].value)
    first, second = pair(found[0])
    phase = found[0].get("phase")
    name = f"the {names.subject_name(subject)}"
    ends = known if len(known) == 1 else [known[0], known[-1]]
    said = " to ".join(f"{times(ratio)} ({names.shape_name(one, phase)})" for ratio, one in ends)
    of = (
        f" of {found[0]['model']}"
        if len({one.get("model") for one in document.get("contrasts") or ()}) > 1
        else ""
    )
    told = f"With {first}, {name}{of} takes {said} the {names.joules(document)} that it takes with {second}."
    return " ".join([told, *filter(None, [older_said(found[0])])])


def contrasts_said(document: Found) -> list[str]:
    """Return a sentence for each pair of settings, and between precisions one for the norms."""
    found = []
    for group in contrast_groups(document):
        found.append(contrast_said(document, group))
        if group[0].get("field") == "precision":
            found.append(contrast_said(document, group, "norm"))
    return [sentence for sentence in found if sentence]


def efficiency_said(document: Found) -> str:
    """Say by what factor tokens per joule rise, in the comparison in which they do so most."""
    rises = [(rise, one) for one in document.get("efficiency") or () if (rise := _rise(one))]
    if not rises:
        return ""
    rise, one = max(rises, key=lambda pair: (pair[1]["along"] == "batch_size", pair[0][0].value))
    factor, low, high = rise
    along = str(one["along"])
    batches = along == "batch_size"
    of_tokens = f"{low:,} to {high:,} tokens of {'context' if one.get('phase') == DECODE else 'length'}"
    over = f"batch {low:,} to {high:,}" if batches else of_tokens
    knee = (one.get("knee") or {}).get(along)
    told = f"; knee at {knee:,}" if knee is not None else ""
    same = [other for other in document["efficiency"] if other["along"] == along]
    label = names.labels(same, names.boards(document)) if names.varying(same) else [""] * len(same)
    held = f"at {text.count(int(one['fixed']), 'token')}" if batches else f"at batch {one['fixed']:,}"
    setting = ", ".join(part for part in (label[same.index(one)], held) if part)
    joule = "modelled joule" if document.get("modelled") else "joule"
    return f"Tokens per {joule} {_moves(factor, 'rise')} from {over} ({setting}){told}."


def _moves(factor: Interval, up: str) -> str:
    """Say by what factor something changes, or that it cannot be told to change."""
    if factor.known and not factor.excludes(1.0):
        return f"cannot be told to change ({times(factor)})"
    return f"{up if factor.value >= 1 else 'fall to'} {times(factor)}"


def _rise(one: Found) -> tuple[Interval, int, int] | None:
    known = [(int(row[one["along"]]), value) for row in one.get("rows") or ()
             if (value := item(row.get("tokens_per_j"))) and value.value > 0]  # fmt: skip
    known.sort(key=lambda pair: pair[0])
    factor = quotient(known[-1][1], known[0][1]) if len(known) > 1 else None
    return None if factor is None else (factor, known[0][0], known[-1][0])


def sizes_said(document: Found) -> str:
    """Say how joules per token grow with parameters, and how well a left-out size is foretold."""
    found = [one for one in document.get("sizes") or () if len(one.get("rows") or ()) > 1]
    held = left_out_words(document)
    if not found:
        return f"{held[:1].upper()}{held[1:]}." if held else ""
    one = max(found, key=lambda one: (item(one.get("exponent")) is not None, one["batch_size"] * one["tokens"]))
    exponent, shape = item(one.get("exponent")), names.shape_name(one, one.get("phase"))
    first, last = one["rows"][0], one["rows"][-1]
    if exponent:
        grows = f"grow as parameters to the power of {text.with_limits(exponent, '')}"
    else:
        pairs = [item(row.get("energy_per_token_mj")) for row in (first, last)]
        if not (pairs[0] and pairs[1] and pairs[0].value > 0):
            return f"{held[:1].upper()}{held[1:]}." if held else ""
        factor = quotient(pairs[1], pairs[0])
        grows = "" if factor is None else _moves(factor, "grow")
    return (
        f"{names.joules(document).capitalize()} per token {grows} from {first['model']} to {last['model']} "
        f"({one.get('phase')}, {shape}){f'; {held}' if held else ''}."
    )
