"""What follows from the energy table, one sentence with numbers for each finding."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from energyscope.books.closure import CLOSED, UNCERTAIN
from energyscope.reporting import text
from energyscope.reporting.data.closure import closures, missing_time
from energyscope.reporting.data.energy import KindEnergy, energy_by_block, energy_by_kind
from energyscope.reporting.data.passes import drift_sentence

if TYPE_CHECKING:
    from energyscope.runs.store import Run
    from energyscope.runs.tree import EnergyTree

KIND_TITLES = {
    "embedding": "The embedding",
    "rotary": "The rotary embedding",
    "norm": "The norms",
    "attention": "The attention blocks",
    "attention.query": "The query projections",
    "attention.key": "The key projections",
    "attention.value": "The value projections",
    "attention.qkv": "The fused query/key/value projections",
    "attention.output": "The attention output projections",
    "attention.core": "The attention products",
    "attention.cache": "The cache updates",
    "mlp": "The MLP blocks",
    "mlp.up": "The MLP up projections",
    "mlp.gate": "The MLP gate projections",
    "mlp.down": "The MLP down projections",
    "mlp.activation": "The MLP activations",
    "router": "The routers",
    "experts": "The experts",
    "lm_head": "The LM head",
    "pooler": "The pooler",
    "classifier": "The classifier",
    "layer": "The layers",
}
_VERDICTS = {
    CLOSED: "The books close only within a wide interval",
    UNCERTAIN: "Whether the books close cannot be told",
}
_WORTH_A_WORD = 0.1  # of the model's energy, so that a third kind is named
_SINGULAR = {"embedding", "rotary", "lm_head", "pooler", "classifier"}


class Findings(NamedTuple):
    """Sentences on an energy table: the largest kinds, what makes these rough (open books, drift), what else."""

    largest: list[str]
    warnings: list[str]
    further: list[str]

    @property
    def said(self) -> list[str]:
        """Up to three of them, in this order."""
        return [*self.largest, *self.warnings, *self.further][:3]


NOTHING = Findings([], [], [])


def energy_findings(tree: EnergyTree, run: Run) -> Findings:
    """Return what follows from the table; ``further`` tells of glue and of static energy."""
    kinds = energy_by_kind(tree)
    components = [entry for entry in energy_by_block(tree) if entry.share]
    largest = [_largest(components, modelled=run.modelled)] if components else []
    further = _outside(kinds, modelled=run.modelled) + (_static(tree) if not run.modelled else [])
    return Findings(largest, [*_open_books(run, tree), *_drifted(run)], further)


def _largest(components: list[KindEnergy], *, modelled: bool) -> str:
    first = components[0]
    energy = "modelled energy (that is, of its time)" if modelled else "energy"
    verb = "takes" if first.kind in _SINGULAR else "take"
    sentence = f"{title(first.kind)} {verb} {text.percent_with_limits(first.share)} of the model's {energy}"
    sentence += _weak(first)
    if len(components) > 1:
        verb = "follows" if components[1].kind in _SINGULAR else "follow"
        sentence += f"; {_with(components[1], f' {verb}')}"
    if len(components) > 2 and components[2].share and components[2].share.value >= _WORTH_A_WORD:
        sentence += f", {_with(components[2])}"
    return sentence + "."


def _with(entry: KindEnergy, verb: str = "") -> str:
    name = title(entry.kind)[0].lower() + title(entry.kind)[1:]
    return f"{name}{verb} with {text.percent_with_limits(entry.share)}{_weak(entry)}"


def _weak(entry: KindEnergy) -> str:
    """Say how much of a kind is not to be relied on, and how much is not in its sum."""
    lacking = f"{entry.missing} without a value left out" if entry.missing else ""
    weak = f"{entry.invalid} of {entry.count} below grade C" if entry.invalid else ""
    said = ", ".join(one for one in (weak, lacking) if one)
    return f" ({said})" if said else ""


def _outside(kinds: list[KindEnergy], *, modelled: bool) -> list[str]:
    glue = next((entry for entry in kinds if entry.role == "glue" and entry.share), None)
    named = {entry.kind for entry in kinds if entry.role == "component"}
    if glue is None or glue.share is None or glue.share.value < 0.03:
        return []
    energy = "modelled energy" if modelled else "energy"
    sentence = (
        f"{text.percent_with_limits(glue.share)} of the {energy} is glue: residual additions, mask building "
        "and launch overhead between the components"
    )
    if any(kind.startswith("attention.") for kind in named) and not named & {"attention", "attention.core"}:
        sentence += ", and the attention products, which are no module of their own"
    return [f"{sentence}."]


def _static(tree: EnergyTree) -> list[str]:
    root = tree.root
    static = root.number("static_mj") if root else None
    if root is None or static is None or root.energy is None or root.energy.value <= 0:
        return []
    share = text.percent(static / root.energy.value)
    return [f"{share} of the energy is static: it is spent on keeping the device awake while the model runs."]


def _open_books(run: Run, tree: EnergyTree) -> list[str]:
    whole = next((row for row in closures(run.document) if row.name == "model"), None)
    if whole is None or (whole.advisable and whole.state != UNCERTAIN):
        return []
    parts = "the components and the glue" if whole.with_glue else "the components, without glue,"
    verdict = _VERDICTS.get(str(whole.state), "The books do not close")
    outside = "" if whole.advisable else ", outside 93-107 %"
    return [
        (
            f"{verdict}: {parts} add up to {text.percent_with_limits(whole.energy)} of the measured "
            f"model{outside}, so shares are rough.{missing_time(whole, host_bound=_waits(tree))}"
        )
    ]


def _waits(tree: EnergyTree) -> bool:
    """Tell whether launching from the host sets the whole model's pace; False where the run does not say."""
    return tree.root is not None and tree.root.flag("host_bound") is True


def _drifted(run: Run) -> list[str]:
    return [drift_sentence(run.document)] if (run.document.get("drift") or {}).get("significant") else []


def title(kind: str) -> str:
    """Return how a sentence speaks of all components of a kind."""
    return KIND_TITLES.get(kind, f"The components of kind {kind}")
