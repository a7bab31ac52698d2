"""Components removed together: a kind in all layers, and pairs of layers, beside the sums of single removals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from energyscope.relating.joint import ALIKE, LESS, METRIC, MORE, Joint, joint_effects
from energyscope.relating.leaves import SKIP, valid_impact
from energyscope.reporting import text
from energyscope.reporting.data.impact_words import limited_text, method_title
from energyscope.runs.intervals import Interval, finite, interval

if TYPE_CHECKING:
    import pandas as pd

MOST_SAID = 3
_MEANING = {
    MORE: "Together these do more than their single removals add up to, so the layers stand in for each other: "
    "removed alone, each seems less important than all of them are",
    LESS: "Together these do less than their single removals add up to, as changes that saturate or undo each "
    "other do; nothing shows that the layers stand in for each other",
    ALIKE: "Together these are not told from the sum of their single removals: nothing shows that the layers "
    "stand in for each other",
}


@dataclass(frozen=True)
class Together:
    """One joint removal: its KL (nats) and the sum of those of its parts; ``verdict`` compares the two.

    ``name`` is the kind as the heat maps call it, ``kind`` as it is; ``reason`` says why a verdict or a sum is
    missing.
    """

    name: str
    kind: str
    component: str
    method: str
    parts: list[str]
    effect: Interval
    single: Interval | None
    verdict: str | None
    reason: str | None


@dataclass(frozen=True)
class LayerPair:
    """Two layers left out together, with the numbers of the layers (``first`` < ``second``) and their names.

    A layer left out by itself, which the diagonal shows, has itself for the other and no verdict.
    """

    first: int
    second: int
    components: list[str]
    effect: Interval
    single: Interval | None
    verdict: str | None


@dataclass(frozen=True)
class JointData:
    """Joint removals; ``pairs`` includes the single layers, and is empty where no two were left out together."""

    kinds: list[Together]
    pairs: list[LayerPair]
    said: list[str]

    @property
    def method(self) -> str | None:
        """The method that is drawn: the first by which kinds were removed together."""
        return self.kinds[0].method if self.kinds else None


def joint_data(frame: pd.DataFrame, labels: dict[str, str]) -> JointData:
    """Gather the joint removals of an impact table; ``labels`` are what single components are called."""
    found = joint_effects(frame)
    layers = _layers(frame)
    known = dict(zip(frame["component"].astype(str), frame["kind"].astype(str), strict=True))
    kinds = [_together(joint, known[joint.component], labels) for joint in found if "+" not in joint.component]
    pairs = [pair for joint in found if "+" in joint.component and (pair := _pair(joint, layers)) is not None]
    single = _single_layers(frame, layers) if pairs else []
    return JointData(kinds, [*single, *pairs], [*_kinds_said(kinds), *_pairs_said(pairs)])


def _together(joint: Joint, kind: str, labels: dict[str, str]) -> Together:
    name = next((labels[part] for part in joint.parts if part in labels), joint.component)
    return Together(name, kind, joint.component, joint.method, joint.parts, *_values(joint), joint.reason)


def _values(joint: Joint) -> tuple[Interval, Interval | None, str | None]:
    effect = Interval(joint.joint, joint.joint_ci_low, joint.joint_ci_high)
    return effect, interval(joint.single_sum, joint.sum_ci_low, joint.sum_ci_high), joint.verdict


def _pair(joint: Joint, layers: dict[str, int]) -> LayerPair | None:
    parts = sorted((part for part in joint.parts if part in layers), key=lambda part: layers[part])
    if len(parts) != 2:
        return None
    first, second = (layers[part] for part in parts)
    return LayerPair(first, second, parts, *_values(joint))


def _layers(frame: pd.DataFrame) -> dict[str, int]:
    rows = frame[frame["kind"] == "layer"]
    numbers = zip(rows["component"], rows["layer"], strict=True)
    return {str(name): int(layer) for name, cell in numbers if (layer := finite(cell)) is not None}


def _single_layers(frame: pd.DataFrame, layers: dict[str, int]) -> list[LayerPair]:
    alone = valid_impact(frame, f"{SKIP}:{METRIC}")
    known = [(str(name), interval(*limits)) for name, *limits in alone.itertuples()]
    return [
        LayerPair(layers[name], layers[name], [name], effect, None, None)
        for name, effect in known
        if name in layers and effect is not None
    ]


def _kinds_said(kinds: list[Together]) -> list[str]:
    """Say of the first method's joint removals which do more, less or as much as the single ones."""
    first = [item for item in kinds if item.method == kinds[0].method]
    said = []
    for verdict, meaning in _MEANING.items():
        chosen = [item for item in first if item.verdict == verdict]
        if chosen:
            chosen.sort(key=lambda item: -item.effect.value)
            words = [f"{item.name} {_against(item.effect, item.single)}" for item in chosen]
            said.append(f"{method_title(first[0].method).capitalize()} in all layers. {meaning}: {_most(words)}.")
    return said


def _pairs_said(pairs: list[LayerPair]) -> list[str]:
    decided = [pair for pair in pairs if pair.verdict is not None]
    if not decided:
        return []
    more = [pair for pair in decided if pair.verdict == MORE]
    ways = ", ".join(
        f"{sum(pair.verdict == verdict for pair in decided)} {words}"
        for verdict, words in ((MORE, "more"), (LESS, "less"), (ALIKE, "not told from it"))
    )
    said = f"Of {text.count(len(decided), 'pair')} of layers left out together, beside the sum of the two: {ways}."
    if more:
        more.sort(key=lambda pair: pair.effect.value / pair.single.value if pair.single else 0, reverse=True)
        words = [f"layers {pair.first} and {pair.second} {_against(pair.effect, pair.single)}" for pair in more]
        said += f" These stand in for each other: {_most(words)}."
    return [said]


def _most(words: list[str]) -> str:
    left = len(words) - MOST_SAID
    return "; ".join(words[:MOST_SAID]) + (f"; and {left} more" if left > 0 else "")


def _against(effect: Interval, single: Interval | None) -> str:
    return f"KL {limited_text(effect, METRIC)} against {limited_text(single, METRIC)}"
