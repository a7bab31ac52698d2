"""The whole model foretold twice: as the sum over its parts, and by its own law."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from energyscope.runs.intervals import total
from energyscope.scaling.cell import Work
from energyscope.scaling.prediction import Law, NoLaw, Prediction

SUM = "sum over parts"


@dataclass(frozen=True)
class WholePrediction:
    """One shape of the whole model; ``parts`` are by subject.

    ``missing`` says why a part, or the whole's own law, is not told. ``summed`` is None unless every part is told:
    a part is not the sum.
    """

    summed: Prediction | None
    own: Prediction | None
    parts: dict[str, Prediction]
    missing: dict[str, str]


def predict_whole(
    laws: Mapping[str, Law | NoLaw], works: Mapping[str, Work], own: Law | NoLaw, work: Work
) -> WholePrediction:
    """Foretell the whole from the laws and the work of its parts (by subject), and from its own law and work."""
    parts, missing = {}, {}
    for subject, law in laws.items():
        if isinstance(law, NoLaw):
            missing[subject] = law.reason
        elif subject not in works:
            missing[subject] = "its work is not known"
        else:
            parts[subject] = law.predict(works[subject])
    told = summed(list(parts.values()), own.subject) if parts and not missing else None
    if isinstance(own, NoLaw):
        missing[own.subject] = own.reason
        return WholePrediction(told, None, parts, missing)
    return WholePrediction(told, own.predict(work), parts, missing)


def summed(parts: Sequence[Prediction], subject: str) -> Prediction:
    """Add the predictions of parts that do not overlap, as independent of each other.

    Times add up too where all are known: components run one after the other. Their laws' errors are not quite
    independent (they share a board and its clocks), so that the sum's interval is rather too narrow: held-out
    cells show by how much.
    """
    times = [part.time_us for part in parts if part.time_us is not None]
    why = "; ".join(f"{part.subject}: {part.why}" for part in parts if part.why)
    return Prediction(
        subject=subject,
        law=SUM,
        energy_mj=total(part.energy_mj for part in parts),
        time_us=total(times) if len(times) == len(parts) else None,
        extrapolated=any(part.extrapolated for part in parts),
        why=why or None,
    )
