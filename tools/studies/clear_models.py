"""CLEAR's kinds of models (arXiv 2510.02810) on Hopper: `reports/clear-models-h100/measured.csv`, and its tables.

    python tools/studies/clear_models.py SWEEPS    # makes measured.csv of the sweeps in a folder

`SWEEPS` holds for each model `NAME-graph-fp16`, `NAME-graph-fp32` and `NAME-eager-fp16` (`NAME-graph-bf16` where
FP16 cannot be captured), as `reports/clear-models-h100/measure.sh` makes them: a run for each length, of which
this keeps one line.
"""

from __future__ import annotations

import csv
import json
import math
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from studies.common import REPORTS, percent

from energyscope.intervals import Interval
from energyscope.reporting.table import Amount, Column, Table

FILE = REPORTS / "clear-models-h100/measured.csv"
ENCODER, DECODER, BOTH, MIXTURE = "encoder", "decoder", "encoder-decoder", "mixture of experts"
MODELS = {
    "albert-base-v2": ENCODER, "albert-large-v2": ENCODER, "bert-base": ENCODER, "bert-large": ENCODER,
    "roberta-base": ENCODER, "roberta-large": ENCODER, "distilbert": ENCODER, "distilroberta-base": ENCODER,
    "qwen2.5-3b": DECODER, "llama-3.2-3b": DECODER, "gemma-3-4b": DECODER, "phi-3-mini": DECODER,
    "t5-base": BOTH, "bart-base": BOTH, "gpt-oss-20b": MIXTURE,
}  # fmt: skip
IN_GRAPHS, IN_GRAPHS_BF16 = "graph-fp16", "graph-bf16"
ONLY_BF16 = {"gpt-oss-20b"}  # in graphs
LARGEST = 128  # tokens
PARTS = ("attention", "mlp", "norm")
RELIABLE_MJ = 5.0  # from which on CLEAR states a spread
INVALID, NOISY = "invalid", "too noisy"
Line = Mapping[str, Any]


# --- from runs to lines -------------------------------------------------------------------------------------


def collect(sweeps: Path) -> list[dict[str, Any]]:
    """Return a line for every finished cell of every model's sweeps."""
    lines = []
    for model in MODELS:
        for how in (IN_GRAPHS, IN_GRAPHS_BF16, "graph-fp32", "eager-fp16"):
            folder = sweeps / f"{model}-{how}"
            if not (folder / "sweep.json").exists():
                continue
            for cell in json.loads((folder / "sweep.json").read_text())["cells"]:
                if cell["state"] == "done":
                    execution, precision = how.split("-")
                    lines.append({"model": model, "execution": execution, "precision": precision,
                                  "tokens": cell["tokens"], **_cell(folder / _name(cell)),
                                  **_law(folder)})  # fmt: skip
    return lines


def _name(cell: Line) -> str:
    return f"{cell['precision']}-b{cell['batch_size']}-s{cell['tokens']}"


def _cell(path: Path) -> dict[str, Any]:
    document = json.loads((path / "run.json").read_text())
    with (path / "per_layer_energy.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    whole, components = rows[0], [row for row in rows[1:] if row["level"] != "layer"]
    closure = document.get("closure", {}).get("model", {})
    spreads = [(float(row["energy_mj"]), float(row["spread_between_passes"]))
               for row in components if row["spread_between_passes"] and row["energy_mj"]]  # fmt: skip
    one_layer = [spread for _, spread in spreads]
    large = [spread for energy, spread in spreads if energy >= RELIABLE_MJ]
    line = {
        "board": document["device"]["uuid"][4:8], "grade": whole["quality"], "energy_mj": whole["energy_mj"],
        "energy_low_mj": whole["energy_ci_low_mj"], "energy_high_mj": whole["energy_ci_high_mj"],
        "time_us": whole["time_us"], "executed_flops": whole["executed_flops"],
        **{f"parts_{what}": closure.get(what) for name in ("energy", "dynamic")
           for what in (name, f"{name}_low", f"{name}_high")},
        "components": len(one_layer), "spread_most": max(one_layer, default=None),
        "spread_most_large": max(large, default=None),
    }  # fmt: skip
    for part in PARTS:
        line |= {f"{part}_{name}": value for name, value in _part(rows, part).items()}
    return line | {"reason": whole["reasons"] if whole["quality"] == "invalid" else None}


def _part(rows: Iterable[Mapping[str, str]], part: str) -> dict[str, float | None]:
    """Return the energy of all blocks of a kind, its relative half-width, and their FLOPs."""
    blocks = [row for row in rows if row["level"] == "block" and row["kind"].split(".")[0] == part]
    if not blocks or not all(row["energy_mj"] for row in blocks):
        return {"mj": None, "half": None, "flops": None}
    energies = [float(row["energy_mj"]) for row in blocks]
    halves = [float(row["energy_ci_high_mj"]) - float(row["energy_mj"]) for row in blocks]
    # layers of a kind share one measurement: their errors add up
    return {"mj": sum(energies), "half": sum(halves) / sum(energies),
            "flops": sum(float(row["executed_flops"] or 0) for row in blocks)}  # fmt: skip


def _law(folder: Path) -> dict[str, Any]:
    empty = dict.fromkeys(("e0_mj", "e0_low_mj", "e0_high_mj", "k_pj", "k_low_pj", "k_high_pj"))
    if not (folder / "laws.json").exists():
        return empty
    groups = json.loads((folder / "laws.json").read_text())["groups"]
    fits = [
        subject["two_term"] for group in groups for subject in group["subjects"] if subject["subject"] == "model"
    ]
    if not fits or "fixed_mj" not in fits[0]:  # two lengths at least
        return empty
    fixed, slope = fits[0]["fixed_mj"], fits[0]["marginal_pj_per_flop"]
    return {"e0_mj": fixed["value"], "e0_low_mj": fixed["low"], "e0_high_mj": fixed["high"],
            "k_pj": slope["value"], "k_low_pj": slope["low"], "k_high_pj": slope["high"]}  # fmt: skip


# --- from lines to tables -----------------------------------------------------------------------------------


@cache
def measured() -> dict[tuple[str, str, int], Line]:
    """Return the lines by model, execution with precision, and tokens; numbers as such, nothing as None."""
    with FILE.open(encoding="utf-8") as file:
        lines = [{name: _value(text) for name, text in line.items()} for line in csv.DictReader(file)]
    return {
        (line["model"], f"{line['execution']}-{line['precision']}", int(line["tokens"])): line for line in lines
    }


def _value(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text or None


def _at(model: str, how: str = "", tokens: int = LARGEST) -> Line | None:
    """Return a model's line, in graphs where nothing else is asked for."""
    in_graphs = IN_GRAPHS_BF16 if model in ONLY_BF16 else IN_GRAPHS
    line = measured().get((model, how or in_graphs, tokens))
    return None if line is None or line["energy_mj"] is None else line


def _energy_of(line: Line | None) -> Interval | str | None:
    """Return the energy of a pass; in words where its grade is no better than invalid."""
    return NOISY if line is not None and line["grade"] == INVALID else _interval(line, "energy", "_mj")


def _interval(line: Line | None, name: str, unit: str = "") -> Interval | None:
    ends = [None if line is None else line[f"{name}{end}{unit}"] for end in ("", "_low", "_high")]
    return None if ends[0] is None else Interval(*ends)


def _per_flop(line: Line | None, part: str) -> Interval | None:
    """Return the pJ per executed FLOP of a part."""
    if line is None or not line[f"{part}_mj"] or not line[f"{part}_flops"]:
        return None
    return _around(line[f"{part}_mj"] * 1e9 / line[f"{part}_flops"], line[f"{part}_half"])


def _around(value: float, half: float) -> Interval:
    return Interval(value, value * (1 - half), value * (1 + half))


def _quotient(first: tuple[float, float], second: tuple[float, float]) -> Interval:
    """Return the ratio of two values with relative half-widths."""
    return _around(first[0] / second[0], math.hypot(first[1], second[1]))


def attention_to_mlp(line: Line | None) -> Interval | None:
    """Return the energy per FLOP of attention over that of the MLP."""
    ratios = [_per_flop(line, part) for part in ("attention", "mlp")]
    if line is None or ratios[0] is None or ratios[1] is None:
        return None
    return _quotient((ratios[0].value, line["attention_half"]), (ratios[1].value, line["mlp_half"]))


def half_to_single(model: str, what: str) -> Interval | None:
    """Return what a model or part takes in FP16 over FP32, in graphs on one board; None where one is missing."""
    lines = [_at(model, how) for how in (IN_GRAPHS, "graph-fp32")]
    if lines[0] is None or lines[1] is None or lines[0]["board"] != lines[1]["board"]:
        return None
    values = [_energy(line, what) for line in lines]
    return None if values[0] is None or values[1] is None else _quotient(values[0], values[1])


def _energy(line: Line | None, what: str) -> tuple[float, float] | None:
    if line is None:
        return None
    if what != "model":
        return None if line[f"{what}_mj"] is None else (line[f"{what}_mj"], line[f"{what}_half"])
    return line["energy_mj"], ((line["energy_high_mj"] or math.nan) - line["energy_mj"]) / line["energy_mj"]


def _named(model: str) -> str:
    return f"{model} (BF16)" if model in ONLY_BF16 else model


def models() -> Table:
    """Return what each model takes at 128 tokens in FP16 in a graph, and what its parts add up to."""
    columns = [
        Column("model", "FP16, CUDA graph, 128 tokens"), Column("kind", ""), Column("energy", "a pass", "mJ"),
        Column("parts", "parts / model", "share"), Column("dynamic", "of dynamic energy", "share"),
        Column("spread", "most spread of a part", "share"), Column("attention", "attention, pJ/FLOP"),
        Column("mlp", "MLP, pJ/FLOP"), Column("ratio", "ratio", "ratio"),
    ]  # fmt: skip
    rows = []
    for model, kind in MODELS.items():
        line = _at(model)
        rows.append({
            "model": _named(model), "kind": kind, "energy": _energy_of(line),
            "parts": _interval(line, "parts_energy"), "dynamic": _interval(line, "parts_dynamic"),
            "spread": line and line["spread_most"], "attention": Amount.of(_per_flop(line, "attention"), ""),
            "mlp": Amount.of(_per_flop(line, "mlp"), ""), "ratio": attention_to_mlp(line),
        })  # fmt: skip
    return Table(columns, rows)


def lengths() -> Table:
    """Return the energy per executed FLOP at each length, and the law that it follows."""
    tokens = sorted({at for _, how, at in measured() if how == IN_GRAPHS})
    columns = [
        Column("model", "FP16, CUDA graph, pJ/FLOP at"), *(Column(str(at), f"{at} tokens") for at in tokens),
        Column("e0", "E0", "mJ"), Column("k", "k, pJ/FLOP"),
    ]  # fmt: skip
    rows = []
    for model in MODELS:
        row: dict[str, Any] = {"model": _named(model)}
        for at in tokens:
            line = _at(model, tokens=at)
            if line is not None and line["grade"] != INVALID:
                row[str(at)] = Amount(line["energy_mj"] * 1e9 / line["executed_flops"], unit="")
        line = _at(model)
        law = _interval(line, "k", "_pj")
        rows.append({**row, "e0": _interval(line, "e0", "_mj"), "k": Amount.of(law, "")})
    return Table(columns, rows)


def others() -> Table:
    """Return FP16 beside FP32 in graphs, and eager execution beside the graph, at 128 tokens."""
    columns = [
        Column("model", "128 tokens"), Column("single", "FP32, CUDA graph", "mJ"),
        Column("ratio", "FP16 / FP32", "ratio"), Column("norm", "norms, FP16 / FP32", "ratio"),
        Column("eager", "FP16, eager", "mJ"), Column("parts", "its parts / model", "share"),
        Column("dynamic", "of dynamic energy", "share"),
    ]  # fmt: skip
    rows = []
    for model in MODELS:
        single, eager = _at(model, "graph-fp32"), _at(model, "eager-fp16")
        rows.append({
            "model": model, "single": _energy_of(single), "ratio": half_to_single(model, "model"),
            "norm": half_to_single(model, "norm"), "eager": _energy_of(eager),
            "parts": _interval(eager, "parts_energy"), "dynamic": _interval(eager, "parts_dynamic"),
        })  # fmt: skip
    return Table(columns, rows)


def claims() -> Table:
    """Return which claims of CLEAR hold here, counted over the models that were measured."""
    lines = {model: line for model in MODELS if (line := _at(model))}
    albert = [line["parts_energy"] for model, line in lines.items() if model.startswith("albert")]
    parts = {model: line["parts_energy"] for model, line in lines.items() if line["parts_energy"]}
    shown = sum(line["parts_energy_low"] > 0.9 for line in lines.values() if line["parts_energy_low"])
    in_graphs = [
        line for (_, how, _), line in measured().items() if how.startswith("graph") and line["grade"] != INVALID
    ]
    large = [line["spread_most_large"] for line in in_graphs if line["spread_most_large"] is not None]
    below = sum(spread < 0.095 for spread in large)
    dear = {model: ratio.value for model, line in lines.items() if (ratio := attention_to_mlp(line))}
    norms = {model: ratio.value for model in MODELS if (ratio := half_to_single(model, "norm"))}
    falls = {
        model: first["energy_mj"] / first["executed_flops"] / (last["energy_mj"] / last["executed_flops"])
        for model, last in lines.items() if (first := _at(model, tokens=8)) and first["grade"] != INVALID
    }  # fmt: skip
    rows = [
        ("parts capture above 90 % of the model",
         f"{_count(parts, lambda value: value > 0.9, percent)}; the whole interval in {shown}"),
        ("ALBERT's capture is low (idle energy is high)", f"not here: {' and '.join(map(percent, albert))}"),
        ("a part's spread over the trials is below 9.5 % above 5 mJ",
         f"in {below} of {len(large)} runs in graphs (at most {percent(max(large))})"),
        ("attention takes 2 to 3 times as much per FLOP as the MLP",
         f"more in {_count(dear, lambda value: value > 1, _times)}"),
        ("norms take more in FP16 than in FP32", _count(norms, lambda value: value > 1, _times)),
        ("energy per FLOP falls with the length",
         f"{_count(falls, lambda value: value > 1, _times)}, from 8 to 128 tokens"),
    ]  # fmt: skip
    columns = [Column("claim", "CLEAR says"), Column("here", "here")]
    return Table(columns, [dict(zip(("claim", "here"), row, strict=True)) for row in rows])


def _count(values: Mapping[str, float], holds: Callable[[float], bool], write: Callable[[float], str]) -> str:
    number = sum(map(holds, values.values()))
    return f"{number} of {len(values)} models ({write(min(values.values()))} to {write(max(values.values()))})"


def _times(value: float) -> str:
    return f"{value:.2f}x"


def main(sweeps: str) -> None:
    """Write measured.csv of a folder of sweeps."""
    lines = collect(Path(sweeps))
    FILE.parent.mkdir(exist_ok=True)
    with FILE.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(lines[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: _short(value) for name, value in line.items()} for line in lines)


def _short(value: Any) -> Any:
    try:
        return f"{float(value):.6g}"
    except (TypeError, ValueError):
        return value


if __name__ == "__main__":
    main(sys.argv[1])
