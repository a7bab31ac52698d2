"""The top of a report: banners that cannot be missed, and the numbers that most readers came for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from energyscope.books.closure import CLOSED, UNCERTAIN
from energyscope.reporting import text
from energyscope.reporting.data.closure import ClosureRow, closures
from energyscope.reporting.data.devices import together
from energyscope.reporting.data.execution import TRIGGERED, execution_of
from energyscope.reporting.data.stages import unfinished
from energyscope.runs.compare_normalised import tokens_of
from energyscope.runs.intervals import Interval, finite, interval

if TYPE_CHECKING:
    from energyscope.runs.store import Run
    from energyscope.runs.tree import EnergyTree, Node


@dataclass(frozen=True)
class Banner:
    """A warning above everything else: ``title`` in capitals, then what it means."""

    title: str
    text: str


@dataclass(frozen=True)
class Metric:
    """One headline number. ``detail`` is its interval or what it is made of; ``note`` what it means.

    ``badge`` is a word that judges it and ``tone`` how it is coloured: ``good``, ``warn`` or ``plain``; a tone
    without a badge makes one of the value.
    """

    label: str
    value: str
    detail: str = ""
    note: str = ""
    badge: str = ""
    tone: str = ""


def banners(run: Run) -> list[Banner]:
    """Return what a reader must know before any number."""
    found = []
    if run.modelled:
        watts = finite((run.document.get("sensor") or {}).get("watts"))
        stated = f"{text.number(watts)} W" if watts is not None else "watts that were stated"
        found.append(
            Banner(
                "MODELLED",
                f"No power sensor was read. Every joule here is time multiplied by {stated}, so energy "
                "shares are time shares, and advice on joules is advice on time.",
            )
        )
    if (run.document.get("model") or {}).get("weights") == "random":
        found.append(
            Banner(
                "RANDOM WEIGHTS",
                "The model has its true shape but no trained weights. Energy depends on the values to some "
                "degree, and predictions mean nothing, so impact was not measured.",
            )
        )
    if execution_of(run).sampling == TRIGGERED:
        found.append(
            Banner(
                "TRIGGERED SAMPLING",
                "Each component was read in passing, once in each pass, and never replayed: what is shorter than "
                "the meter's tick has no energy.",
            )
        )
    found += [Banner("INCOMPLETE RUN", sentence) for sentence in unfinished(run.document).values()]
    return found + [Banner("WARNING", str(one)) for one in run.document.get("warnings") or []]


def headline(run: Run, tree: EnergyTree | None) -> list[Metric]:
    """Return the headline numbers in the order in which they are shown, those of missing stages left out."""
    root = tree.root if tree else None
    document = run.document
    found = _energy(root, run) if root else []
    closure = _closure(document)
    if closure:
        found.append(closure)
    if tree and tree.nodes:
        found.append(grades(tree, root))
    return found + predictions(document)


def _energy(root: Node, run: Run) -> list[Metric]:
    document, modelled = run.document, run.modelled
    unit, each = "per forward pass", "pass"
    if root.row.get("phase") == "decode":
        context = finite(root.row.get("context_length"))
        unit, each = "per decode step" + (f" at {context:,.0f} tokens" if context else ""), "step"
    word = "Modelled energy" if modelled else "Energy"
    found = [metric(f"{word} {unit}", root.energy, "mJ", execution_of(run).title)]
    tokens = tokens_of(document, root)
    if root.energy and tokens:
        per_thousand = root.energy.scaled(1000 / tokens)
        said = f"{text.count(round(tokens), 'token')} a {each}"
        found.append(metric(f"{word} per 1,000 tokens", per_thousand, "mJ", said))
    found.append(metric(f"Latency {unit}", interval(root.number("time_us")), "us"))
    power = interval(root.number("power_w"))
    found.append(metric("Stated power" if modelled else "Mean power", power, "W", together(document)))
    if not modelled:
        found.append(_split(root))
    return found


def metric(label: str, item: Interval | None, unit: str, note: str = "") -> Metric:
    """Return a value with its 95 % interval as a headline number."""
    if item is None:
        return Metric(label, text.UNKNOWN, note=note)
    detail = f"95 % interval {text.amount_limits(item, unit)}" if item.known else ""
    return Metric(label, text.quantity(item.value, unit), detail, note)


def _split(root: Node) -> Metric:
    static, dynamic = root.number("static_mj"), root.number("dynamic_mj")
    if static is None or dynamic is None or not root.energy or root.energy.value <= 0:
        return Metric("Static share", text.UNKNOWN)
    share = text.percent(static / root.energy.value)
    detail = f"{text.quantity(static, 'mJ')} static, {text.quantity(dynamic, 'mJ')} dynamic"
    return Metric("Static share", share, detail, "idle power times time")


def _closure(document: dict[str, Any]) -> Metric | None:
    whole = next((row for row in closures(document) if row.name == "model"), None)
    return None if whole is None else closure_metric(whole)


def closure_metric(whole: ClosureRow) -> Metric:
    """Return how far the parts of the model add up to it."""
    note = "parts and glue" if whole.with_glue else "parts, without glue"
    said = "whether they close cannot be told" if whole.state == UNCERTAIN else whole.state
    note += f", {said}" if said else ""
    note += "" if whole.advisable else "; outside 93-107 %"
    value = text.percent_with_limits(whole.energy).partition(" [")[0]
    return Metric("Closure", value, _limits_of_share(whole.energy), note, *_judged(whole))


def _judged(whole: ClosureRow) -> tuple[str, str]:
    """Return the badge of a closure and its tone."""
    if whole.state == UNCERTAIN:
        return "uncertain", "plain"
    if whole.state is None:
        return "not judged", "plain"
    return whole.state, "good" if whole.state == CLOSED and whole.advisable else "warn"


def _limits_of_share(item: Interval) -> str:
    written = text.percent_with_limits(item)
    return f"95 % interval {written[written.index('[') :]}" if "[" in written else ""


def grades(tree: EnergyTree, root: Node | None) -> Metric:
    """Return the whole model's grade, and how many components have which."""
    detail = "of the whole model"
    if len(tree.nodes) > 1:
        detail += f"; of its {counted(tree.nodes)}"
    return grade_metric(grade_of(root), detail)


def grade_metric(grade: str, detail: str) -> Metric:
    """Return a grade as a headline number."""
    return Metric(
        "Quality grade", grade, detail, "A is best; what does not reach C is invalid", tone=grade_tone(grade)
    )


def grade_of(root: Node | None) -> str:
    """Return the whole model's grade; a dash where it was not measured."""
    return str(root.row.get("quality")) if root else "-"


def counted(nodes: Sequence[Node]) -> str:
    """Say how many rows there are, and how many of them have which grade."""
    held = Counter(str(node.row.get("quality")) for node in nodes)
    return f"{text.count(len(nodes), 'row')}: " + ", ".join(f"{held[grade]} {grade}" for grade in sorted(held))


def grade_tone(grade: str) -> str:
    """Return how a grade is coloured: what is given advice on is good."""
    return {"A": "good", "B": "good", "-": "plain"}.get(grade, "warn")


def predictions(document: dict[str, Any]) -> list[Metric]:
    """Return how well the model predicts, where that was evaluated."""
    evaluation = (document.get("workload") or {}).get("evaluation") or {}
    found = []
    for name, value in (evaluation.get("baseline") or {}).items():
        score = finite(value)
        if score is None or name not in {"accuracy", "perplexity"}:  # the others only say of how much
            continue
        shown = text.percent(score) if name == "accuracy" else text.number(score)
        examples = f"{evaluation.get('examples')} examples" if evaluation.get("examples") else ""
        found.append(
            Metric(str(name).replace("_", " ").capitalize(), shown, examples, str(evaluation.get("source") or ""))
        )
    return found
