"""How well components are found by structure, in all architectures of the installed transformers.

    python tools/auto_coverage.py [causal] [masked] [sequence-to-sequence] [speech] [classification] [image]
        [--only MODEL_TYPE,...] [--verbose]

Each is built from its default configuration on the meta device. Counted are those in which 99 % of the parameters
lie in parts of a known kind (``blocks`` of a layer, and ``leaves``, the finest granularity), and those of which
one forward pass calls 99 % of the components: of all (``called``), and of those that the task's inputs lead to
(``reached``: without towers for images or sound in a pass on text, and attention to a missing encoder). Those that
miss a bar are listed with what is missing; ``beyond`` is the share of components that are not within reach.
"""

from __future__ import annotations

import argparse
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
import transformers
from transformers.models.auto import modeling_auto

from energyscope.auto import tasks
from energyscope.auto.mapping import StructureMap, map_model
from energyscope.auto.tasks import AutoTask
from energyscope.errors import EnergyscopeError

NAMES = ("causal", "classification", "sequence-to-sequence", "speech", "masked", "image")
TASKS = dict(zip(NAMES, tasks.TASKS, strict=False))
BAR = 0.99


@dataclass
class Counted:
    """One architecture: shares of its parameters in known kinds, and of its components that are called.

    ``beyond`` is the share of components that the task's inputs do not lead to.
    """

    name: str
    blocks: float = 0.0
    leaves: float = 0.0
    called: float = 0.0
    reached: float = 0.0
    beyond: float = 0.0
    trouble: str = ""

    def __str__(self) -> str:
        """One line."""
        shares = f"blocks {self.blocks:.3f}  leaves {self.leaves:.3f}  called {self.called:.3f}"
        shares += f"  reached {self.reached:.3f}  beyond {self.beyond:.3f}"
        return f"{self.name:28} {shares}  {self.trouble}"


def architectures(task: AutoTask, only: set[str]) -> Iterator[tuple[str, torch.nn.Module]]:
    """Yield each model type with its model on the meta device; what does not build is printed."""
    for name in sorted(only or getattr(modeling_auto, task.table)):
        try:
            config = transformers.AutoConfig.for_model(name)
            with torch.device("meta"):
                model = getattr(transformers, task.auto_class).from_config(config, dtype=torch.bfloat16)
        except Exception as error:  # noqa: BLE001  (what a default configuration lacks differs)
            print(f"{name:28} does not build: {str(error).splitlines()[0][:70] if str(error) else type(error)}")
            continue
        yield name, model.eval()


def counted(name: str, structure: StructureMap) -> Counted:
    components = [item for item in structure.tree.components[1:] if not (item.part and item.part.function)]
    missing, beyond = len(structure.missing), len(structure.unreached)
    called = 1 - missing / len(components)
    reached = 1 - (missing - beyond) / max(1, len(components) - beyond)
    trouble = "; ".join(
        [structure.calls.failure or "", *replace(structure.adapter, name="found").problems()]
    ).strip("; ")
    return Counted(
        name,
        structure.share_named("medium"),
        structure.share_named(),
        called,
        reached,
        beyond / len(components),
        trouble[:120],
    )


def details(structure: StructureMap) -> Iterator[str]:
    """Yield the largest parts of kind other, and what is not called."""
    sizes: Counter[str] = Counter()
    for item in structure.tree:
        if item.kind == "other":
            sizes[item.group] += sum(weight.numel() for weight in item.module.parameters())
    for group, size in sizes.most_common(5):
        yield f"    other {size / structure.parameters:.2%}  {group}"
    for group, count in list(structure.not_called.items())[:5]:
        yield f"    not called ({count})  {group}"


def survey(task: AutoTask, only: set[str], *, verbose: bool) -> list[Counted]:
    rows = []
    for name, model in architectures(task, only):
        try:
            structure = map_model(model, task)
        except EnergyscopeError as error:
            rows.append(Counted(name, trouble=str(error)))
            print(rows[-1], flush=True)
            continue
        rows.append(counted(name, structure))
        if verbose or min(rows[-1].blocks, rows[-1].leaves, rows[-1].reached) < BAR:
            print(rows[-1], *details(structure), sep="\n", flush=True)
    return rows


def main() -> None:
    """Print the counts of the tasks that were named, all by default."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tasks", nargs="*", choices=[*TASKS, []], help="default: all")
    parser.add_argument("--only", default="", help="model types, with commas between")
    parser.add_argument("--verbose", action="store_true", help="list all, not only those below a bar")
    asked = parser.parse_args()
    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()
    lines = []
    for name in asked.tasks or TASKS:
        rows = survey(TASKS[name], set(filter(None, asked.only.split(","))), verbose=asked.verbose)
        shares = [
            (what, sum(getattr(row, what) >= BAR for row in rows))
            for what in ("blocks", "leaves", "called", "reached")
        ]
        parts = ", ".join(f"{what} {count} ({count / max(1, len(rows)):.0%})" for what, count in shares)
        lines.append(
            f"{name}: {len(rows)} of {len(getattr(modeling_auto, TASKS[name].table))} build; at 99 %: {parts}"
        )
    print(*lines, sep="\n")


if __name__ == "__main__":
    main()
