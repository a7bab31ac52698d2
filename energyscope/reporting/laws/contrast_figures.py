"""The charts of contrasts: the same subject and shape under two executions or two precisions."""

from __future__ import annotations

from collections.abc import Sequence

from energyscope.reporting import text
from energyscope.reporting.charts import theme
from energyscope.reporting.figure import Figure, Table
from energyscope.reporting.laws import names
from energyscope.reporting.laws.document import DECODE, REMAINDERS, WHOLE, Found, item
from energyscope.reporting.laws.plot import Dot, Plot, draw

_SPOKEN = {"CUDA graph": "CUDA graphs", "eager": "eager execution"}
_MOST = 7  # subjects of a chart
_KEY = ("field", "first", "second", "model", "phase", "precision", "execution", "board", "kv_cache", "lacking")


def contrast_groups(document: Found) -> list[list[Found]]:
    """Return the contrasts that one chart shows together: one pair of settings, model and phase."""
    found: dict[tuple[str, ...], list[Found]] = {}
    for one in document.get("contrasts") or ():
        found.setdefault(tuple(str(one.get(name)) for name in _KEY), []).append(one)
    return list(found.values())


def pair(one: Found) -> tuple[str, str]:
    """Return the two settings that a contrast sets beside each other, in words."""
    field = str(one.get("field"))
    first, second = (names.value_of(field, one.get(name), {}) for name in ("first", "second"))
    return _SPOKEN.get(first, first), _SPOKEN.get(second, second)


def older_said(one: Found) -> str:
    """Say which setting of a contrast was measured before something was mended, and what; else nothing."""
    found = one.get("lacking") or {}
    sides = [name for side, name in zip(("first", "second"), pair(one), strict=True) if found.get(side)]
    why = "; ".join(dict.fromkeys(reason for reason in found.values() if reason))
    return f"Measured by an older method, which this ratio holds: {text.listed(sides)} ({why})." if sides else ""


def contrast_figures(document: Found) -> list[Figure]:
    """Return a chart for each pair of settings."""
    groups = contrast_groups(document)
    several = len({(one[0].get("model"), one[0].get("phase")) for one in groups}) > 1
    made = [_figure(document, group, index, named=several) for index, group in enumerate(groups)]
    return [figure for figure in made if figure]


def _figure(document: Found, found: Sequence[Found], index: int, *, named: bool) -> Figure | None:
    subjects = _subjects(found)
    phase = found[0].get("phase")
    along_tokens = len({one["tokens"] for one in found}) >= len({one["batch_size"] for one in found})
    prefill = phase != DECODE
    dots, rows = [], []
    for one in found:
        ratio = item(one.get("ratio"))
        if ratio is None or ratio.value <= 0:
            continue
        name, at = names.subject_name(one["subject"]), names.shape_name(one, phase)
        rows.append([name, at, text.with_limits(ratio, "")])
        if one["subject"] in subjects:
            x = one["batch_size"] * one["tokens"] if prefill else one["tokens" if along_tokens else "batch_size"]
            line = one["batch_size"] if prefill or along_tokens else one["tokens"]
            dots.append(Dot(name, float(x), ratio, text.with_limits(ratio, ""), at, str(line)))
    if not dots:
        return None
    first, second = pair(found[0])
    axis = "Tokens of a pass" if prefill else "Tokens of context" if along_tokens else "Batch"
    where = f" ({found[0].get('model')}, {phase})" if named else ""
    word, older = names.energy_word(document), older_said(found[0])
    where += ", by an older method" if older else ""
    summary = f"{word} with {first} over {second} by subject and shape{where}"
    hidden = len({one["subject"] for one in found}) - len(subjects)
    return Figure(
        name=f"contrast-{index}",
        section="contrasts",
        title=f"{word}: {first} over {second}{where}",
        caption=f"{word} with {first} divided by {second}, of the same subject and shape; 95 % intervals. Above "
        f"the dashed line, {first} takes more.{f' {hidden} more in the numbers.' if hidden else ''}"
        + (f" {older}" if older else ""),
        summary=summary,
        chart=draw(
            Plot(
                (axis, f"Ratio, {first} / {second}"),
                {names.subject_name(one): theme.colour(one) for one in subjects},
                dots,
                x="doublings",
                y="log",
                joined=True,
                reference=1.0,
                height=300,
            ),
            summary,
        ),
        table=Table(["subject", "shape", f"{first} / {second} [95 %]"], rows),
    )


def _subjects(found: Sequence[Found]) -> list[str]:
    """Return the subjects to draw: the whole first, then parts in the document's order."""
    known = [one for one in dict.fromkeys(str(one["subject"]) for one in found) if one not in REMAINDERS]
    known.sort(key=lambda name: name != WHOLE)
    return known[:_MOST]
