"""Compare ways to measure the energy of one component, on the same components, in one process on a GPU.

    python tests/bench/methods.py --out results

Methods: ours (windows between ticks); the counter at start and end of CLEAR's fixed number of calls; windows of
Zeus, where it is installed; power sampled by ``nvidia-smi``. All are compared with one tick-aligned window of
20 s. ``--quick --device cpu`` runs the script on a modelled meter, to see that it works.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import bench_tables as tables
import bench_ways as ways
import torch
from bench_loads import Bench, FixedLoad, Spec

from energyscope.errors import EnergyscopeError
from energyscope.metering.choice import open_meter
from energyscope.reasons import words
from energyscope.replay.replayer import Replayer
from energyscope.stages.facts import device_facts, environment, gpu_uuid

COMPONENTS = (
    "llama-3.2-1b:128:mlp:cuda-graph",
    "distilbert:128:attention:cuda-graph",
    "llama-3.2-1b:1:attention:cuda-graph",
    "llama-3.2-1b:128:norm:cuda-graph",
    "distilbert:128:mlp:eager",
)
KINDS = {
    "llama-3.2-1b": ("attention", "mlp", "norm", "lm_head", "layer"),
    "distilbert": ("attention", "mlp", "norm", "classifier", "layer"),
}
QUICK_COMPONENTS = ("tiny-llama:16:mlp:eager", "tiny-distilbert:16:attention:eager")
METHODS = ("ours", "clear", "sensitivity", "zeus", "nvidia-smi")
SENSITIVITY = (100, 500, 1000, 5000, 10_000)  # as the CLEAR study suggests
SENSITIVITY_LIMIT_S = 60.0
ZEUS_WINDOWS_S = ((0.5, 10), (1.0, 10), (2.0, 5))
SMI_WINDOWS_S = (2.0, 5)
PREHEAT_S = 3.0
REWARM_S = 1.0
FAILURES = (EnergyscopeError, ways.NoValueError, RuntimeError)  # the last: CUDA's; other components go on


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder for methods.{csv,json,md}")
    parser.add_argument("--repetitions", type=int, default=10, help="independent values of ours")
    parser.add_argument("--reference-s", type=float, default=20.0)
    parser.add_argument("--components", help="comma-separated model:tokens:kind[:execution], or all")
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--full", type=int, default=2, help="components that get Zeus, nvidia-smi, sensitivity")
    parser.add_argument("--clear-calls", type=int, default=10_000)
    parser.add_argument("--clear-trials", type=int, default=20)
    parser.add_argument("--budget-s", type=float, default=420.0, help="start no component after this")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--quick", action="store_true", help="small models and numbers: does the script work?")
    options = parser.parse_args(words)
    if options.quick:
        options.repetitions, options.reference_s = 2, 1.0
        options.clear_calls, options.clear_trials = 100, 2
    return options


def specs_of(options: argparse.Namespace) -> list[Spec]:
    """Return the components to measure."""
    if options.components == "all":
        return [Spec(m, n, kind, "cuda-graph") for m, kinds in KINDS.items() for n in (1, 128) for kind in kinds]
    default = QUICK_COMPONENTS if options.quick else COMPONENTS
    words = options.components.split(",") if options.components else default
    return [Spec.parse(word) for word in words]


class Comparison:
    """The methods on one component after another; rows are kept as they come."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.device = torch.device(options.device)
        self.uuid = gpu_uuid(self.device)
        self.bench = Bench(self.device)
        self.rows: list[dict[str, Any]] = []
        self.sensitivity: list[dict[str, Any]] = []

    def component(self, spec: Spec, methods: Sequence[str]) -> None:
        """Measure one component; a method that gives no value leaves a row with the reason."""
        try:
            self._by_all(spec, methods)
        except FAILURES as error:
            self.rows.append(tables.skipped_row(str(spec), "all", str(error)))

    def _by_all(self, spec: Spec, methods: Sequence[str]) -> None:
        with self.bench.round(spec) as round_:
            reference = self._ours(spec, round_) if "ours" in methods else None
            load = FixedLoad(round_, self.device, spec.execution)
            if self.uuid is not None:
                load.warm(REWARM_S)
            steps: dict[str, Callable[[Spec, FixedLoad, float | None], None]] = {
                "clear": self._clear, "sensitivity": self._sensitivity, "zeus": self._zeus,
                "nvidia-smi": self._smi,
            }  # fmt: skip
            for method in [method for method in methods if method in steps]:
                try:
                    steps[method](spec, load, reference)
                except FAILURES as error:
                    self.rows.append(tables.skipped_row(str(spec), method, str(error)))

    def _ours(self, spec: Spec, round_: Sequence[Any]) -> float | None:
        """Take our own values, and the reference between them, so that a drift is none of their distance.

        Our sampler runs during these only. A component that runs into the power cap within 20 s is given pauses
        in its reference: in the model it would not run into it, nor does it in windows of half a second.
        """
        replayer = Replayer(self.device, execution=spec.execution)
        half = self.options.repetitions // 2
        with open_meter("auto", gpu_uuid=self.uuid) as meter:
            if not meter.modelled:
                replayer.run(round_, PREHEAT_S)
            replay = ways.Replay(meter, replayer, round_)
            values = [ways.ours(replay) for _ in range(half)]
            single = [ways.one_window(replay) for _ in range(half)]
            begin = time.monotonic()
            window, paused = ways.reference(replay, self.options.reference_s)
            seconds = time.monotonic() - begin
            values += [ways.ours(replay) for _ in range(self.options.repetitions - half)]
            single += [ways.one_window(replay) for _ in range(self.options.repetitions - half)]
        if window.energy_mj is None:
            self.rows.append(tables.skipped_row(str(spec), tables.REFERENCE, words(window.reason) or "no value"))
            return None
        name = f"{tables.REFERENCE}, with pauses" if paused else tables.REFERENCE
        self.rows.append(tables.reference_row(str(spec), name, window.energy_mj, seconds))
        self.rows.append(tables.row(str(spec), tables.OURS, values, window.energy_mj))
        self.rows.append(tables.row(str(spec), tables.OURS_ONE, single, window.energy_mj))
        return window.energy_mj

    def _clear(self, spec: Spec, load: FixedLoad, reference: float | None) -> None:
        values = self._trials(load, self.options.clear_calls)
        self.rows.append(tables.row(str(spec), tables.CLEAR, values, reference))

    def _trials(self, load: FixedLoad, calls: int) -> list[ways.Value]:
        counter = ways.energy_counter(self._gpu())
        load.prepare(calls)
        return [ways.counter_difference(counter, load, calls) for _ in range(self.options.clear_trials)]

    def _sensitivity(self, spec: Spec, load: FixedLoad, reference: float | None) -> None:
        """Repeat CLEAR's own experiment: how the spread of its trials falls with N."""
        self._gpu()
        for calls in SENSITIVITY:
            expected_s = load.prepare(calls) * calls * self.options.clear_trials
            if expected_s > SENSITIVITY_LIMIT_S:
                found = tables.skipped_row(str(spec), tables.CLEAR, f"would take {expected_s:.0f} s")
            else:
                found = tables.row(str(spec), tables.CLEAR, self._trials(load, calls), reference)
            self.sensitivity.append({"calls": calls, **found})

    def _zeus(self, spec: Spec, load: FixedLoad, reference: float | None) -> None:
        self._gpu()
        monitor = ways.zeus_monitor()
        for seconds, repetitions in ZEUS_WINDOWS_S:
            calls = self._calls(load, seconds)
            values = [ways.zeus_window(monitor, load, calls) for _ in range(repetitions)]
            self.rows.append(tables.row(str(spec), f"Zeus {seconds:g} s", values, reference))

    def _smi(self, spec: Spec, load: FixedLoad, reference: float | None) -> None:
        seconds, repetitions = SMI_WINDOWS_S
        with ways.SmiPower(self._gpu()).watching() as power:
            calls = self._calls(load, seconds)
            values = [ways.smi_window(power, load, calls) for _ in range(repetitions)]
        self.rows.append(tables.row(str(spec), f"nvidia-smi {seconds:g} s", values, reference))

    def _calls(self, load: FixedLoad, seconds: float) -> int:
        """Return how many calls fill some seconds, from a trial long enough to be sure."""
        calls = max(1, round(0.1 / load.prepare(1000)))
        return max(1, round(seconds / load.prepare(calls)))

    def _gpu(self) -> str:
        if self.uuid is None:
            raise ways.NoValueError("it needs an NVIDIA GPU")
        return self.uuid


def compare(options: argparse.Namespace, say: Callable[[str], None]) -> dict[str, Any]:
    """Run the comparison and return its document: rows, speed-ups, sensitivity and where it ran."""
    run = Comparison(options)
    begin = time.monotonic()
    wanted = options.methods.split(",")
    for number, spec in enumerate(specs_of(options)):
        spent = time.monotonic() - begin
        if spent > options.budget_s:
            reason = f"the budget of {options.budget_s:g} s was spent"
            run.rows.append(tables.skipped_row(str(spec), "all", reason))
            continue
        say(f"{spent:6.0f} s  {spec}")
        simple = [method for method in wanted if method in ("ours", "clear")]
        run.component(spec, wanted if number < options.full else simple)
        _save(options.out, run, begin)
    return _save(options.out, run, begin)


def _save(out: Path, run: Comparison, begin: float) -> dict[str, Any]:
    """Write what is known so far: a session on a shared GPU may end at any time."""
    gains = tables.speed_ups(run.rows)
    document = {
        "device": device_facts(run.device),
        "environment": environment(),
        "seconds": time.monotonic() - begin,
        "rows": run.rows,
        "speed_ups": gains,
        "sensitivity": run.sensitivity,
    }
    document["markdown"] = tables.markdown(run.rows, gains, run.sensitivity)
    tables.write(out, document, document["markdown"])
    return document


def main() -> None:
    """Run the comparison; the table is printed last."""
    options = arguments()

    def say(line: str) -> None:
        sys.stderr.write(line + "\n")
        sys.stderr.flush()

    with ExitStack() as stack:
        stack.callback(say, f"results are in {options.out}")
        document = compare(options, say)
    sys.stdout.write(document["markdown"])
    if all(row["reason"] is not None for row in (*document["rows"], *document["sensitivity"])):
        sys.exit(1)


if __name__ == "__main__":
    main()
