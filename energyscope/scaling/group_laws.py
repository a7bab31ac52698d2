"""Laws of one group: cells of one model that differ in batch and tokens only, so that laws may join them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from energyscope.intervals import Interval, ratio, serialize
from energyscope.reasons import Reason, reason
from energyscope.scaling.cells import RESIDUAL, WHOLE, Cell, Entry, Observation, by_subject, shape_of
from energyscope.scaling.held_out import By, LeftOut, errors_of
from energyscope.scaling.law import Law, LawName, NoLaw
from energyscope.scaling.law_choice import LawEvaluation, evaluate
from energyscope.scaling.linearity import per_flop, per_flop_ratio, straightness

ONE_CELL = reason("one-cell")
PAIRS = (("attention", "mlp"), ("attention", "lm_head"), ("lm_head", "mlp"))
ROLES = ("whole", "part", "residual", "group")
REGIMES = ("launch", "compute", "memory")
WHERE_FITTED: dict[LawName, str] = {"two-term-in-bytes": "by_bytes", "constant": "constant"}


def group_laws(observations: Sequence[Observation]) -> Entry:
    """Return the laws of observations that differ in batch and tokens only; with one shape, why there are none.

    Subjects are in the order whole, parts, overhead and unexplained, groups; within each, the costliest first.
    """
    cells = {subject: by_work(own) for subject, own in by_subject(observations).items()}
    roles = {subject: _role(subject, observations, cells) for subject in cells}
    cells = dict(sorted(cells.items(), key=lambda item: _order(roles[item[0]], item[1])))
    why = ONE_CELL if len({observation.key for observation in observations}) < 2 else None
    evaluated = {subject: LawEvaluation({}) if why else evaluate(own) for subject, own in cells.items()}
    parts = [evaluated[subject] for subject in cells if roles[subject] == "part"]
    return {
        "reason": why,
        "subjects": [_subject(own, roles[name], evaluated[name], why) for name, own in cells.items()],
        "held_out": _held_out(evaluated, parts, why),
        "ratios": [
            _ratio(first, second, observations, evaluated)
            for first, second in PAIRS
            if first in evaluated and second in evaluated
        ],
    }


def _role(subject: str, observations: Sequence[Observation], subjects: Collection[str]) -> str:
    """Return what a subject is: a part must be one in all observations that know their parts and have it.

    Where none knows (overhead was not measured), layers and kinds that hold others by their names are groups.
    """
    if subject == WHOLE:
        return "whole"
    if subject in RESIDUAL:
        return "residual"
    having = [observation for observation in observations if observation.parts and subject in observation.cells]
    if having:
        return "part" if all(subject in observation.parts for observation in having) else "group"
    holds = subject == "layer" or any(other.startswith(f"{subject}.") for other in subjects)
    return "group" if holds else "part"


def _order(role: str, cells: Sequence[Cell]) -> tuple[int, int, float]:
    subject, energy = cells[0].subject, sum(cell.energy_mj for cell in cells) / len(cells)
    return ROLES.index(role), RESIDUAL.index(subject) if subject in RESIDUAL else 0, -energy


def by_work(cells: Sequence[Cell]) -> list[Cell]:
    """Return cells in the order of their FLOPs; those with the same, by bytes, batch and tokens."""
    return sorted(cells, key=lambda cell: (cell.flops, cell.bytes, cell.batch_size, cell.tokens))


def _subject(cells: Sequence[Cell], role: str, evaluated: LawEvaluation, no_law: Reason | None) -> Entry:
    """Return the entry of a subject, whose cells are in the order of `by_work`; ``no_law``: why there is none."""
    subject, laws = cells[0].subject, evaluated.laws
    two_term = laws.get("two-term") or NoLaw(subject, no_law or _no_line(cells, laws))
    roofline = laws.get("roofline-floor") or NoLaw(subject, no_law or _no_roofline(cells, laws))
    return {
        "subject": subject,
        "role": role,
        "points": [_point(cell) for cell in cells],
        "two_term": _law(two_term),
        **straightness(cells, two_term.reason if isinstance(two_term, NoLaw) else None),
        "roofline": _law(roofline),
        "held_out": [_law_errors(evaluated, name, by) for name, by in evaluated.held_out],
        "best": evaluated.best,
        **{key: _law(laws[name]) for name, key in WHERE_FITTED.items() if name in laws},
    }


def _point(cell: Cell) -> Entry:
    """Return a cell; overhead and what is unexplained do no FLOPs of their own, and have no J/FLOP."""
    return {
        **shape_of(cell),
        "flops": cell.flops,
        "nominal_flops": cell.flops if cell.nominal_flops is None else cell.nominal_flops,
        "bytes": cell.bytes,
        "calls": cell.calls,
        "energy_mj": serialize(cell.energy),
        "time_us": cell.time_us,
        "static_mj": cell.static_mj,
        "pj_per_flop": None if cell.subject in RESIDUAL else serialize(per_flop(cell)),
    }


def _law(law: Law | NoLaw) -> Entry:
    """Return a law's coefficients, R2 of lines, times of rooflines, residuals and flags; or why there is none."""
    if isinstance(law, NoLaw):
        return {"reason": law.reason}
    entry: Entry = {term.name: serialize(law.coefficients.get(term.name)) for term in law.form.terms}
    if law.form.grows_with:
        entry["r2"] = law.r2
    regimes: Entry = {}
    if law.time is not None:
        entry = {"law": law.name, "static_w": law.static_w, **entry}
        entry |= {name: serialize(getattr(law.time, name)) for name in ("launch_us", "tflops", "gb_per_s")}
        regimes = {"regimes": [REGIMES[regime] for regime in law.time.regimes]}
    return {**entry, "residuals": list(law.residuals), **regimes, "flags": list(law.flags)}


def _no_line(cells: Sequence[Cell], laws: Mapping[LawName, object]) -> Reason:
    return reason("constant-energy", cells=len(cells)) if "constant" in laws else reason("no-flops")


def _no_roofline(cells: Sequence[Cell], laws: Mapping[LawName, object]) -> Reason:
    if cells[0].subject in RESIDUAL:
        return reason("no-work-of-its-own")
    return _no_line(cells, laws) if "constant" in laws else reason("no-static-power")


def _law_errors(evaluated: LawEvaluation, name: LawName, by: By) -> Entry:
    held_out = evaluated.held_out[name, by]
    errors = held_out.errors
    why = None if errors.cells else held_out.reason or next(iter(held_out.failed), reason("no-cell-left-out"))
    return {"law": name, "by": by, **errors.summary, "reason": why}


def _held_out(
    evaluated: Mapping[str, LawEvaluation], parts: Sequence[LawEvaluation], no_law: Reason | None
) -> Entry:
    """Return the errors over all components and of the whole; ``ways`` has each way apart.

    Cells that were left out took no part in choosing the law that predicted them.
    """
    whole = [evaluated[WHOLE]] if WHOLE in evaluated else []

    def errors(by: By | None) -> Entry:
        return {"components": _errors(parts, by), "whole": _errors(whole, by)}

    main = errors(next((laws.by for laws in evaluated.values() if laws.by), None))
    ways = dict.fromkeys(by for laws in evaluated.values() for by in laws.nested)
    lacking = None if any(main.values()) else reason("no-cell-left-out")
    return {**main, "reason": no_law or lacking, "ways": [{"by": by, **errors(by)} for by in ways]}


def _errors(subjects: Sequence[LawEvaluation], by: By | None) -> Entry | None:
    cells: list[LeftOut] = []
    for evaluated in subjects:
        if by is not None and by in evaluated.nested:
            cells += evaluated.nested[by].cells
    return {**errors_of(cells).summary, "by": by} if cells else None


def _ratio(
    first: str, second: str, observations: Sequence[Observation], evaluated: Mapping[str, LawEvaluation]
) -> Entry:
    """Return what a FLOP of the first subject costs over one of the second: a further one, and at each shape."""
    marginals = {subject: _marginal(evaluated[subject]) for subject in (first, second)}
    why = _no_ratio(marginals)
    both = [
        (observation.cells[first], observation.cells[second])
        for observation in observations
        if first in observation.cells and second in observation.cells
    ]
    both.sort(key=lambda cells: (cells[0].flops, cells[0].batch_size))
    points = [shape_of(cells[0]) | {"ratio": serialize(per_flop_ratio(*cells))} for cells in both]
    known = [marginal for marginal in marginals.values() if marginal is not None]
    return {
        "first": first,
        "second": second,
        "marginal": None if why else serialize(ratio(*known)),
        "reason": why,
        "at": [point for point in points if point["ratio"]],
    }


def _marginal(evaluated: LawEvaluation) -> Interval | None:
    """Return k of the two-term law; None without one."""
    law = evaluated.laws.get("two-term")
    return law.coefficients["marginal_pj_per_flop"] if isinstance(law, Law) else None


def _no_ratio(marginals: Mapping[str, Interval | None]) -> Reason | None:
    """Return why there is no ratio of k: a law is missing, or a k is not positive or not significantly so."""
    known = {subject: k for subject, k in marginals.items() if k is not None}
    for code, subjects in (
        ("no-two-term-law", [subject for subject in marginals if subject not in known]),
        ("k-not-positive", [subject for subject, k in known.items() if k.value <= 0]),
        ("k-holds-zero", [subject for subject, k in known.items() if k.known and not k.excludes(0.0)]),
    ):
        if subjects:
            return reason(code, subjects=subjects)
    return None
