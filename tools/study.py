"""Set the study's published shares beside those of our runs: prints the tables of reports/study as Markdown.

    python tools/study.py reports/distilbert-h200 reports/distilbert-32x128-h200

The study gives shares of six groups of DistilBERT's modules, by time, of a board of another kind. For each run the
groups' measured energy is given as a share of these six together (which is what the study's shares are of), as a
share of the measured model with its 95 % interval, and what attribution by time would have given.
"""

from __future__ import annotations

import sys

from energyscope import format as fmt
from energyscope.intervals import Interval, ratio
from energyscope.runs.store import load_run
from energyscope.runs.tree import EnergyTree, energy_tree, sum_column, sum_energy

# DistilBERT, SST-2, Tesla T4, FP32; energy in proportion to time; batch size and length are not stated.
PUBLISHED = {"FFN up": 37.05, "FFN down": 30.65, "attention projections (q, k, v)": 23.07,
             "attention output": 7.44, "norms": 1.48, "embeddings": 0.27}  # fmt: skip
KINDS = {
    "FFN up": ("mlp.up",),
    "FFN down": ("mlp.down",),
    "attention projections (q, k, v)": ("attention.query", "attention.key", "attention.value"),
    "attention output": ("attention.output",),
    "norms": ("norm",),
    "embeddings": ("embedding",),
}


def main(paths: list[str]) -> None:
    """Print a table for each run."""
    for path in paths:
        run = load_run(path)
        if run.energy is None:
            raise SystemExit(f"{path} has no energy table")
        tree = energy_tree(run.energy)
        workload = run.document["workload"]
        print(f"**{run.name}**: batch {workload['batch_size']}, {workload['sequence_length']} tokens, ", end="")
        print(f"{fmt.measured(tree.model_energy, 'mJ')} a pass\n")
        print("| group | study, by time | of the six | of the model [95 %] | by time, of the six |")
        print("|---|---|---|---|---|")
        for line in lines(tree):
            print("| " + " | ".join(line) + " |")
        print()


def lines(tree: EnergyTree) -> list[list[str]]:
    """Return a line for each group of the study."""
    nodes = {name: [node for node in tree.leaves if node.kind in kinds] for name, kinds in KINDS.items()}
    energies = {name: sum_energy(group) or Interval(0.0) for name, group in nodes.items()}
    times = {name: sum_column(group, "time_us") or 0.0 for name, group in nodes.items()}
    of_six, time_of_six = sum(energy.value for energy in energies.values()), sum(times.values())
    model = tree.model_energy
    return [
        [
            name,
            f"{PUBLISHED[name]:.1f} %",
            f"{energies[name].value / of_six:.1%}".replace("%", " %"),
            "-" if model is None else fmt.measured(ratio(energies[name], model), "share"),
            f"{times[name] / time_of_six:.1%}".replace("%", " %"),
        ]
        for name in KINDS
    ]


if __name__ == "__main__":
    main(sys.argv[1:])
