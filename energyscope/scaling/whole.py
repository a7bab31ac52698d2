"""The whole model foretold as the sum over its parts."""

from __future__ import annotations

from collections.abc import Sequence

from energyscope.intervals import total
from energyscope.reasons import Reason, join, reason
from energyscope.scaling.prediction import LawName, Prediction

SUM: LawName = "sum-over-parts"
NAMES = {"glue": "overhead"}  # of subjects, in reasons


def of_part(subject: str, why: str) -> Reason:
    """Return a reason that holds for one part."""
    return reason("of-part", part=NAMES.get(subject, subject), why=why)


def summed(parts: Sequence[Prediction], subject: str) -> Prediction:
    """Add the predictions of parts that do not overlap, as independent of each other.

    Times add up too where all are known: components run one after the other. Their laws' errors are not quite
    independent (they share a board and its clocks), so that the sum's interval is rather too narrow: held-out
    cells show by how much.
    """
    times = [part.time_us for part in parts if part.time_us is not None]
    why = join(of_part(part.subject, part.why) for part in parts if part.why)
    return Prediction(
        subject=subject,
        law=SUM,
        energy_mj=total(part.energy_mj for part in parts),
        time_us=total(times) if len(times) == len(parts) else None,
        extrapolated=any(part.extrapolated for part in parts),
        why=why or None,
    )
