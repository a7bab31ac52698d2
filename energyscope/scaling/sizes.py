"""Models of several sizes: joules per token, parameter and FLOP, and each predicted from the others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter

import numpy as np

from energyscope.grouping import group_by
from energyscope.intervals import Interval, difference, ratio, serialize, total
from energyscope.metering.ticks import Array
from energyscope.reasons import Reason, reason
from energyscope.scaling.cell_selection import one_granularity
from energyscope.scaling.cells import (
    RESIDUAL,
    UNEXPLAINED,
    WHOLE,
    Entry,
    Observation,
    by_subject,
    common_parts,
    joined_deviations,
    own_deviation,
    shape_of,
    with_whole,
)
from energyscope.scaling.efficiency import MJ_PER_J, mean_of, tokens_of
from energyscope.scaling.held_out import LeftOut, errors_of
from energyscope.scaling.law import PJ_PER_MJ, sum_of_parts
from energyscope.scaling.law_choice import ChosenLaw, choose, leave_out_by
from energyscope.scaling.least_squares import line
from energyscope.scaling.time_law import rates_by_pass

ALIKE = ("phase", "precision", "execution", "kv_cache", "board", "limit", "meter", "method")
LEAST = 3  # models that an exponent with an interval needs
ONE = Interval(1.0, 1.0, 1.0)


def sizes(observations: Sequence[Observation]) -> list[Entry]:
    """Return the models measured alike at one shape, two at least, ordered by parameters, as plain data.

    A model of unknown size stays in the rows, with None. Energies are per token that a pass works on.
    ``exponent`` is the slope of log(J per token) over log(parameters), of three models at least,
    with Student's 95 % interval; else None with a ``reason``. ``shares`` are of the measured whole and add up to 1
    with overhead and unexplained; an observation without all of its parts has none.
    """
    known = [observation for observation in observations if observation.parameters and observation.layers]
    counts = {observation.model: (observation.parameters, observation.layers) for observation in known}
    entries = []
    for setting, alike in _alike(observations, (*ALIKE, "batch_size", "tokens")):
        models = group_by(alike, attrgetter("model"))
        if len(models) < 2:
            continue
        rows = [_row(measured, *counts.get(model, (None, None))) for model, measured in models.items()]
        rows.sort(key=lambda row: (row["parameters"] is None, row["parameters"] or 0, row["model"]))
        exponent, why = _exponent(rows, models)
        entries.append({**setting, "rows": rows, "exponent": serialize(exponent), "reason": why})
    return entries


def sizes_held_out(observations: Sequence[Observation]) -> list[Entry]:
    """Return how far off each model is when it is predicted from all others measured alike in `ALIKE`.

    The laws are those that a prediction of another model takes: chosen among the others' cells alone, by leaving
    out models, or lengths where there is one other model only. Entries are by left-out model, subject and law:
    the whole by its own law, by the sum over parts, and each component. ``median`` and ``worst`` are of absolute
    relative errors; ``errors`` are (predicted - measured) / measured by cell. Two models at least.
    """
    entries = []
    for setting, measured in _alike(observations, ALIKE):
        alike, _ = one_granularity(measured)
        models = sorted({observation.model for observation in alike})
        for model in models if len(models) > 1 else ():
            entries += [setting | {"left_out": model} | entry for entry in _left_out(alike, model)]
    return entries


def _alike(
    observations: Iterable[Observation], fields: Sequence[str]
) -> Iterable[tuple[Entry, list[Observation]]]:
    """Yield the observations whose whole is known by what they have in common."""
    groups = group_by(with_whole(observations), lambda observation: tuple(map(observation.value, fields)))
    for values, alike in groups.items():
        yield dict(zip(fields, values, strict=True)), alike


def _row(observations: Sequence[Observation], parameters: int | None, layers: int | None) -> Entry:
    cells = [observation.cells[WHOLE] for observation in observations]
    energy, time_us = mean_of(cells)
    tokens, flops = tokens_of(cells[0]), cells[0].flops
    per_parameter = energy.scaled(PJ_PER_MJ / tokens / parameters) if parameters else None
    return {
        "model": observations[0].model,
        "parameters": parameters,
        "layers": layers,
        "weights": observations[0].weights,
        "energy_mj": serialize(energy),
        "energy_per_token_mj": serialize(energy.scaled(1 / tokens)),
        "pj_per_parameter_token": serialize(per_parameter),
        "pj_per_flop": serialize(energy.scaled(PJ_PER_MJ / flops)) if flops else None,
        "time_us": time_us,
        "power_w": energy.value / time_us * MJ_PER_J,
        "shares": _shares(observations),
    }


def _shares(observations: Sequence[Observation]) -> Entry:
    """Return each part's share of the whole, means over the observations that know them.

    What is unexplained is the whole less the rest, so that its share is 1 less theirs: its errors are the
    whole's own, not those of a further measurement.
    """
    known = [observation for observation in observations if observation.parts]
    if not known or any(set(observation.parts) != set(known[0].parts) for observation in known):
        return {}
    whole, _ = mean_of([observation.cells[WHOLE] for observation in known])
    measured = [part for part in known[0].parts if part != UNEXPLAINED]
    parts = {part: mean_of([observation.cells[part] for observation in known])[0] for part in measured}
    shares = {part: ratio(energy, whole) or Interval(energy.value / whole.value) for part, energy in parts.items()}
    explained = ratio(total(parts.values()), whole)
    if explained is not None:
        shares[UNEXPLAINED] = difference(ONE, explained)
    return {part: serialize(share) for part, share in shares.items()}


def _exponent(
    rows: Sequence[Entry], models: Mapping[str, Sequence[Observation]]
) -> tuple[Interval | None, Reason | None]:
    known = [row for row in rows if row["parameters"]]
    if (count := len({row["parameters"] for row in known})) < LEAST:
        return None, reason("few-sizes", sizes=count, needed=LEAST)
    energy: Array = np.log([row["energy_per_token_mj"]["value"] for row in known])
    spread = joined_deviations([_deviation(models[row["model"]]) for row in known])
    fit = line(np.log([row["parameters"] for row in known]), energy, spread)
    return (None, reason("sizes-too-alike")) if fit is None else (fit.coefficient(1), None)


def _deviation(observations: Sequence[Observation]) -> float | None:
    """Return the relative deviation of a model's mean energy by its intervals, None where one is missing."""
    own = [own_deviation(observation.cells[WHOLE]) for observation in observations]
    known = [deviation for deviation in own if deviation is not None]
    return float(np.linalg.norm(known)) / len(known) if len(known) == len(own) else None


def _left_out(observations: Sequence[Observation], model: str) -> list[Entry]:
    """Return the entries of one model: whole, sum over parts, then its components."""
    left_out = [observation for observation in observations if observation.model == model]
    others = [observation for observation in observations if observation.model != model]
    cells = by_subject(others)
    by = leave_out_by(cells[WHOLE], new_model=True)
    rates = rates_by_pass(cell for own in cells.values() for cell in own if cell.subject not in RESIDUAL)
    laws = {subject: choose(own, by, pooled=True, rates=rates) for subject, own in cells.items()}
    chosen = {subject: law for subject, law in laws.items() if isinstance(law, ChosenLaw)}
    measured = by_subject(left_out)
    predicted = {
        subject: [LeftOut(cell, law.predict(cell)) for cell in measured.get(subject, ())]
        for subject, law in chosen.items()
    }
    parts, _ = common_parts([*others, *left_out])
    entries = [predicted.pop(WHOLE, []), _sums(left_out, parts, chosen), *predicted.values()]
    return [_errors(pairs) for pairs in entries if pairs]


def _sums(
    observations: Sequence[Observation], parts: Sequence[str], chosen: Mapping[str, ChosenLaw]
) -> list[LeftOut]:
    """Predict the whole as the sum over its parts, where each of them has a law."""
    if not parts or any(part not in chosen for part in parts):
        return []
    pairs = []
    for cells in (observation.cells for observation in observations if observation.parts):
        predictions = [chosen[part].predict(cells[part]) for part in parts]
        pairs.append(LeftOut(cells[WHOLE], sum_of_parts(predictions, WHOLE)))
    return pairs


def _errors(pairs: Sequence[LeftOut]) -> Entry:
    return {
        "subject": pairs[0].cell.subject,
        "law": pairs[0].prediction.law,
        **errors_of(pairs).summary,
        "extrapolated": any(pair.prediction.extrapolated for pair in pairs),
        "errors": [shape_of(pair.cell) | {"relative": pair.error} for pair in pairs],
    }
