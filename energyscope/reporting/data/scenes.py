"""The moments of an inference that a run profiled, each with its own tree, books and findings."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from energyscope.reporting import text
from energyscope.reporting.data.closure import ClosureRow, closures
from energyscope.reporting.data.columns import EnergyView, energy_views
from energyscope.reporting.data.efficiency import EfficiencyRow, efficiency_rows, efficiency_sentences
from energyscope.reporting.data.energy import EnergyData, energy_data
from energyscope.reporting.data.execution import name_of
from energyscope.reporting.data.findings import NOTHING, Findings, energy_findings
from energyscope.reporting.data.flow import FlowNode, energy_flow
from energyscope.reporting.data.given import whole
from energyscope.reporting.data.icicle import IcicleNode, energy_icicle
from energyscope.reporting.data.trust import Trust, trust_of
from energyscope.reporting.figure import Table
from energyscope.runs.compare_surroundings import clock_of
from energyscope.runs.intervals import Interval, interval
from energyscope.runs.method import execution_of
from energyscope.runs.tree import EnergyTree, energy_tree

if TYPE_CHECKING:
    from energyscope.reporting.data.growth import Growth
    from energyscope.reporting.data.launching import Launching
    from energyscope.runs.store import Run

PREFILL, DECODE = "prefill", "decode"
MODEL_ONLY = "model only"
MIDDLE = "the middle of the traced generation"
WHOLE = "whole"  # the layers of a scene of which only the model was measured


@dataclass(frozen=True)
class SceneData:
    """One moment: a pass over the prompt, or one step of decoding at a context.

    ``tokens`` are read (prefill) or made (decode) by it, over the whole batch; energies are in mJ and times in us
    per pass or step. ``tree`` has only its root where the model alone was measured, as ``detailed`` says;
    ``middle`` is the step in the middle of the traced generation, of which that is so. ``twice``: the run has
    moments in another ``execution`` as well, so that each one's must be told; ``clock_mhz`` is the median of its
    passes.
    """

    name: str
    phase: str
    context: int | None
    execution: str
    twice: bool
    clock_mhz: float | None
    kv_cache: str | None
    layers: str | None
    tokens: int | None
    modelled: bool
    tree: EnergyTree
    energy: EnergyData
    flow: FlowNode | None
    icicle: IcicleNode | None
    views: list[EnergyView]
    efficiency: list[EfficiencyRow]
    efficiency_said: list[str]
    trust: Trust
    findings: Findings
    closure: ClosureRow | None
    middle: bool

    @property
    def anchor(self) -> str:
        """Its name where only letters, digits and hyphens may stand."""
        return "scene-" + re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-")

    @property
    def unit(self) -> str:
        """What its energies are of."""
        return "step" if self.phase == DECODE else "pass"

    @property
    def title(self) -> str:
        """What it is called in headings and tables."""
        length = "" if self.context is None else f"{self.context:,}"
        if self.phase == DECODE:
            plain = f"A decode step, {length} tokens in the cache" if length else "A decode step"
        else:
            plain = f"The pass over the prompt, {length} tokens" if length else "The pass over the prompt"
        return f"{plain}, {name_of(self.execution)}" if self.twice else plain

    @property
    def title_in_tables(self) -> str:
        """Its title, which also says why a moment stands there whose components were not measured."""
        return f"{self.title}: {MIDDLE}" if self.middle else self.title

    @property
    def short(self) -> str:
        """What it is called where there is little room: ``"prefill, 128 tokens"``, ``"decode at 64, eager"``."""
        return f"{self.moment}, {name_of(self.execution)}" if self.twice else self.moment

    @property
    def moment(self) -> str:
        """Its short name whatever its execution."""
        if self.context is None:
            return self.phase
        return f"decode at {self.context:,}" if self.phase == DECODE else f"{self.phase}, {self.context:,} tokens"

    @property
    def detailed(self) -> bool:
        """Whether its components were measured, and not the model alone."""
        return self.layers != WHOLE and len(self.tree.nodes) > 1

    @property
    def own_layers(self) -> bool:
        """Whether some layer was measured by itself, so that layers can be compared."""
        return any(not cell.reused for cell in self.energy.layers)

    @property
    def per_token(self) -> Interval | None:
        """Energy (mJ) for each token that it reads or makes."""
        model = self.energy.model
        return model.scaled(1 / self.tokens) if model and self.tokens else None

    @property
    def time_us(self) -> Interval | None:
        """How long it takes."""
        return interval(self.tree.root.number("time_us")) if self.tree.root else None

    @property
    def power_w(self) -> float | None:
        """Mean power while it runs again and again."""
        return self.tree.root.number("power_w") if self.tree.root else None

    @property
    def static_mj(self) -> float | None:
        """Idle power times its time."""
        return self.tree.root.number("static_mj") if self.tree.root else None

    @property
    def dynamic_mj(self) -> float | None:
        """Its energy beyond that."""
        return self.tree.root.number("dynamic_mj") if self.tree.root else None


def scenes_data(run: Run) -> list[SceneData]:
    """Return the moments in the order in which they were profiled; none of a run that knows no scenes."""
    scenes = [scene for entry in run.scenes if (scene := _scene(run, entry)) is not None]
    twice = len({scene.execution for scene in scenes}) > 1
    return [replace(scene, twice=twice) for scene in scenes]


def _scene(run: Run, entry: Mapping[str, Any]) -> SceneData | None:
    own = run.scene(str(entry["name"]))
    if own.energy is None or own.energy.empty:
        return None
    tree = energy_tree(own.energy)
    efficient = efficiency_rows(tree)
    context, phase = whole(entry.get("context_length")), str(entry.get("phase"))
    batch = whole((run.document.get("settings") or {}).get("batch_size"))
    return SceneData(
        name=str(entry["name"]),
        phase=phase,
        context=context,
        execution=execution_of(own.document),
        twice=False,
        clock_mhz=clock_of(own.document),
        kv_cache=entry.get("kv_cache"),
        layers=entry.get("layers"),
        tokens=_tokens(phase, context, batch),
        modelled=run.modelled,
        tree=tree,
        energy=energy_data(tree, own.energy),
        flow=energy_flow(tree) if tree.root and tree.model_energy else None,
        icicle=energy_icicle(tree),
        views=energy_views(tree),
        efficiency=efficient,
        efficiency_said=efficiency_sentences(efficient),
        trust=trust_of(own, tree),
        findings=energy_findings(tree, own) if len(tree.nodes) > 1 else NOTHING,
        closure=next((row for row in closures(own.document) if row.name == "model"), None),
        middle=phase == DECODE and entry.get("layers") == WHOLE and context == _middle(run),
    )


def _middle(run: Run) -> int | None:
    """Return the context at the middle of the traced generation; None where none was traced."""
    settings = (run.generation or {}).get("settings") or {}
    prompt, new = whole(settings.get("prompt_tokens")), whole(settings.get("new_tokens"))
    return None if prompt is None or new is None else middle_of(prompt, new)


def middle_of(prompt: int, new: int) -> int:
    """Return the context at the middle of a generation of so many tokens."""
    return prompt + new // 2


def _tokens(phase: str, context: int | None, batch: int | None) -> int | None:
    if batch is None:
        return None
    if phase == DECODE:
        return batch
    return None if context is None else batch * context


def scenes_findings(
    scenes: Sequence[SceneData], grown: Growth | None, launched: Sequence[Launching] = ()
) -> list[str]:
    """Return what launching costs, what takes most in the first moment and in the first decode step, what makes
    that rough, and what else is known of each; last, what the context adds.
    """
    first = scenes[0]
    step = next((scene for scene in scenes[1:] if scene.phase == DECODE and scene.detailed), None)
    shown = [first] + ([step] if step else [])
    launching = [one.said for one in launched if one.said][:2]
    largest = [_said(scene, one) for scene in shown for one in scene.findings.largest]
    warnings = [_said(scene, one) for scene in shown for one in scene.findings.warnings]
    further = [_said(scene, one) for scene in shown for one in scene.findings.further[:1]]
    return launching + largest + warnings + further + (grown.said[:1] if grown else [])


def _said(scene: SceneData, sentence: str) -> str:
    return f"{_raised(scene.short)}: {_lowered(sentence)}"


def _raised(name: str) -> str:
    return name[0].upper() + name[1:]


def _lowered(sentence: str) -> str:
    """Begin a sentence as it goes on after a colon; abbreviations keep their capitals."""
    return sentence if sentence[1:2].isupper() else sentence[0].lower() + sentence[1:]


def scene_table(scenes: Sequence[SceneData]) -> Table:
    """Return the table of all scenes as text: a line for each, with what a pass or a step of it costs."""
    columns = ["moment", "energy of a pass or step", "energy per token", "time", "power", "static share",
               "closure"]  # fmt: skip
    return Table(columns, [_line(scene) for scene in scenes])


def _line(scene: SceneData) -> list[str]:
    model, static = scene.energy.model, scene.static_mj
    share = static / model.value if model and static is not None and model.value > 0 else None
    closed = "not judged" if scene.detailed else MODEL_ONLY
    return [
        scene.title_in_tables,
        text.with_limits(model, "mJ"),
        text.with_limits(scene.per_token, "mJ"),
        text.quantity(scene.time_us.value if scene.time_us else None, "us"),
        text.quantity(scene.power_w, "W"),
        text.percent(share),
        text.percent_with_limits(scene.closure.energy) if scene.closure else closed,
    ]
