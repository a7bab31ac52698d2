"""How much the sampler slows replayed kernels: the same calls with the meter on and off, in turn.

    python tests/bench/polling.py --out results

At most 1 % is allowed. ``--quick --device cpu`` shows that the script works.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from bench_loads import Bench, Spec

from energyscope.diagnostics.polling import paired_change, run_loaded
from energyscope.metering.choice import open_meter
from energyscope.replay.replayer import Replayer
from energyscope.stages.facts import device_facts, gpu_uuid

COMPONENTS = ("llama-3.2-1b:128:mlp:cuda-graph", "llama-3.2-1b:1:norm:cuda-graph", "distilbert:128:layer:eager")
QUICK_COMPONENTS = ("tiny-llama:16:mlp:eager",)
PREHEAT_S = 3.0


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder for polling.{json,md}")
    parser.add_argument("--components", help="comma-separated model:tokens:kind[:execution]")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=1.5, help="of each run, with the meter and without")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args(words)
    if options.quick:
        options.rounds, options.seconds = 2, 0.3
    return options


def measure(options: argparse.Namespace, say: Callable[[str], None]) -> dict[str, Any]:
    """Return, for each component, the relative change of the time of a call with the meter on."""
    device = torch.device(options.device)
    uuid = gpu_uuid(device)
    bench = Bench(device)
    default = QUICK_COMPONENTS if options.quick else COMPONENTS
    rows = []
    for word in options.components.split(",") if options.components else default:
        spec = Spec.parse(word)
        say(str(spec))
        replayer = Replayer(device, execution=spec.execution)
        with bench.round(spec) as round_:
            replayer.run(round_, 0.1 if options.quick else PREHEAT_S)
            metered, alone = [], []
            for _ in range(options.rounds):
                with open_meter("auto", gpu_uuid=uuid):
                    metered.append(run_loaded(None, replayer, round_, options.seconds).time_us)
                alone.append(run_loaded(None, replayer, round_, options.seconds).time_us)
        change = paired_change(metered, alone)
        rows.append({"component": str(spec), **(asdict(change) if change else {})})
    return {"device": device_facts(device), "rows": rows}


def markdown(rows: Sequence[dict[str, Any]]) -> str:
    """Return the table of the changes, with their 95 % intervals."""
    lines = ["| component | time of a call with the meter on | 95 % interval |", "|---|---|---|"]
    lines += [
        f"| {row['component']} | {row['change']:+.3%} | {row['low']:+.3%} to {row['high']:+.3%} |" for row in rows
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure and write; the table is printed last."""
    options = arguments()
    document = measure(options, lambda line: sys.stderr.write(line + "\n") and None)
    options.out.mkdir(parents=True, exist_ok=True)
    text = markdown(document["rows"])
    (options.out / "polling.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    (options.out / "polling.md").write_text(text, encoding="utf-8")
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
