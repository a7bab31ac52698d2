# ruff: noqa: E501, PLR0917
"""Synthetic runs of a whole inference: scenes, a traced generation and alternatives, of a 1B-like model's shape.

The numbers are made up: times are those of launching, of memory traffic or of matrix work, whichever is longest,
and powers lie between a waiting and a busy device.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from run_builder import differential, document, grade_work

from energyscope.runs import schema
from energyscope.runs.schema import EnergyRow
from energyscope.runs.store import Run, RunStore, load_run

HIDDEN, KV, INNER, VOCABULARY = 2048, 512, 8192, 128256
LAUNCH_US, GRAPH_US, BYTES_PER_S, FLOPS_PER_S = 26.0, 1.5, 3.4e12, 4.0e14
IDLE_W, WAITING_W, BUSY_W, STATED_W = 118.0, 165.0, 610.0, 65.0
LOOP_MJ, LOOP_US = 96.0, 610.0


@dataclass
class Inference:
    """What a synthetic inference looks like. ``contexts`` are those of the decode steps with components."""

    layers: int = 16
    prompt: int = 128
    new_tokens: int = 128
    contexts: tuple[int, ...] = (1024, 128, 8192)
    batch_size: int = 1
    kv_cache: str = "dynamic"
    prefill: bool = True
    beside_trace: bool = True  # the model's step in the middle of the traced generation
    step_as_scene: bool = False  # and that as a scene of the profile, as older runs have it
    generation: bool = True
    alternatives: bool = True
    generations: int = 9
    modelled: bool = False
    disagree: float = 1.0  # by what the traced decode energy is off
    graded_work: bool = False  # work, idle energy and shares have intervals and grades
    seed: int = 5
    executions: tuple[str, ...] = ("eager",)  # every moment is measured in each


def build_inference(path: Path, shape: Inference | None = None, **sections: Any) -> Run:
    """Write a synthetic run directory at ``path`` and read it back."""
    shape = shape or Inference()
    store = RunStore.create(path.name, path.parent)
    if shape.modelled:
        sensor = {"meter": "modelled", "modelled": True, "watts": STATED_W, "idle_w": None}
        sections["sensor"] = {**sensor, **sections.get("sensor", {})}
    sections.setdefault("model", {"name": "llama-3.2-1b", "adapter": "llama", "layers": shape.layers})
    settings = {"precision": "bf16", "phase": "auto", "batch_size": shape.batch_size, "kv_cache": shape.kv_cache,
                "sequence_length": shape.prompt, "new_tokens": shape.new_tokens,
                "execution": "both" if len(shape.executions) > 1 else shape.executions[0]}  # fmt: skip
    store.document.update(document(path.name, settings=settings, **sections))
    rows, scenes = [], []
    for phase, context, layers in _moments(shape):
        for number, execution in enumerate(shape.executions):
            of = replace(shape, executions=(execution,))
            own = scene_rows(of, phase, context, layers)
            rows += own
            scenes.append(_scene(phase, context, layers, own, of))
            scenes[-1]["name"] += f"/{execution}" if number else ""
    store.write_rows(schema.ENERGY_FILE, rows, schema.ENERGY_COLUMNS)
    store.document["scenes"] = scenes
    store.document.update({key: scenes[0][key] for key in ("closure", "differential", "passes", "drift")})
    stages = store.document["stages"]
    for name in ("ablate", "correlate"):
        stages[name] = {"state": "skipped", "reason": "not asked for", "seconds": None}
    for name, there in (("generate", shape.generation), ("alternatives", shape.alternatives)):
        state = {"state": "done", "reason": None, "seconds": 20.0}
        stages[name] = state if there else {"state": "skipped", "reason": "not asked for", "seconds": None}
    if shape.generation:
        store.write_json(schema.GENERATION_JSON, generation(shape))
        if not shape.modelled:
            store.write_rows(schema.TRACE_FILE, trace(shape), schema.TRACE_COLUMNS)
    if shape.alternatives:
        store.write_json(schema.ALTERNATIVES_JSON, alternatives(shape))
    store.update()
    return load_run(path)


def _moments(shape: Inference) -> list[tuple[str, int, str]]:
    found = [("prefill", shape.prompt, "mean")] if shape.prefill else []
    found += [("decode", context, "kinds" if index else "sample") for index, context in enumerate(shape.contexts)]
    middle = middle_of(shape)
    return found + ([("decode", middle, "whole")] if shape.beside_trace and shape.step_as_scene else [])


def middle_of(shape: Inference) -> int:
    """Return the tokens in the cache halfway through the generation."""
    return shape.prompt + shape.new_tokens // 2


def scene_rows(shape: Inference, phase: str, context: int, layers: str) -> list[EnergyRow]:
    """Return the rows of one moment, parents before children; each parent is its children, glue and a rest."""
    tokens = shape.batch_size * (context if phase == "prefill" else 1)
    read = shape.batch_size * context  # tokens whose keys and values attention reads
    rng = random.Random(shape.seed + context)
    rows = [_row("model", "model", None, "model", None, phase, context, shape)]
    rows.append(
        _leaf("model.embed_tokens", "embedding", None, "model", 0.0, tokens * HIDDEN * 2.0, rows[0], shape)
    )
    for layer in range(shape.layers):
        rows += _layer(layer, tokens, read, layers, rows[0], shape, rng)
    rows.append(_leaf("model.norm", "norm", None, "model", 0.0, tokens * HIDDEN * 4.0, rows[0], shape))
    head = 2.0 * shape.batch_size * HIDDEN * VOCABULARY
    rows.append(_leaf("lm_head", "lm_head", None, "model", head, HIDDEN * VOCABULARY * 2.0, rows[0], shape))
    for row in reversed(rows):
        _close(row, rows, shape)
    for row in rows:
        row.share_of_total = (row.energy_mj or 0.0) / (rows[0].energy_mj or 1.0)
        if shape.graded_work:
            grade_work(row, rows[0])
    return rows[:1] if layers == "whole" else rows


def _layer(
    index: int, tokens: int, read: int, layers: str, model: EnergyRow, shape: Inference, rng: random.Random
) -> list[EnergyRow]:
    base = f"model.layers.{index}"
    attention, mlp = f"{base}.self_attn", f"{base}.mlp"
    copied = 4.0 * read * KV * 2 if shape.kv_cache == "dynamic" else 4.0 * tokens * KV * 2
    core = 4.0 * tokens * (read / shape.batch_size) * HIDDEN
    parts = [  # name, kind, parent, FLOPs, bytes
        (f"{attention}.q_proj", "attention.query", attention, *_linear(tokens, HIDDEN, HIDDEN)),
        (f"{attention}.k_proj", "attention.key", attention, *_linear(tokens, HIDDEN, KV)),
        (f"{attention}.v_proj", "attention.value", attention, *_linear(tokens, HIDDEN, KV)),
        (f"{attention}.cache", "attention.cache", attention, 0.0, copied),
        (f"{attention}.core", "attention.core", attention, core, 4.0 * read * KV + 4.0 * tokens * HIDDEN),
        (f"{attention}.o_proj", "attention.output", attention, *_linear(tokens, HIDDEN, HIDDEN)),
        (f"{mlp}.gate_proj", "mlp.gate", mlp, *_linear(tokens, HIDDEN, INNER)),
        (f"{mlp}.up_proj", "mlp.up", mlp, *_linear(tokens, HIDDEN, INNER)),
        (f"{mlp}.act_fn", "mlp.activation", mlp, 0.0, tokens * INNER * 4.0),
        (f"{mlp}.down_proj", "mlp.down", mlp, *_linear(tokens, INNER, HIDDEN)),
    ]
    owns = layers != "kinds" and (layers != "sample" or index in {0, shape.layers // 2, shape.layers - 1})
    phase, context = model.phase, model.context_length
    found = [
        _row(base, "layer", index, "layer", "model", phase, context, shape),
        _leaf(f"{base}.input_layernorm", "norm", index, base, 0.0, tokens * HIDDEN * 4.0, model, shape),
        _row(attention, "attention", index, "block", base, phase, context, shape),
        *(_leaf(name, kind, index, parent, flops, moved, model, shape)
          for name, kind, parent, flops, moved in parts[:6]),
        _leaf(f"{base}.post_attention_layernorm", "norm", index, base, 0.0, tokens * HIDDEN * 4.0, model, shape),
        _row(mlp, "mlp", index, "block", base, phase, context, shape),
        *(_leaf(name, kind, index, parent, flops, moved, model, shape)
          for name, kind, parent, flops, moved in parts[6:]),
    ]  # fmt: skip
    for row in found:
        row.reused = row.level == "sub-component" or not owns
        if row.level in {"layer", "block"} and layers == "sample" and not owns:
            row.measured_on = row.component.replace(f".{index}", ".0", 1)
        if not row.reused and row.energy_mj is not None:
            _set(row, row.energy_mj * rng.uniform(0.98, 1.02), row.time_us or 0.0, shape)
    return found


def _linear(tokens: int, inner: int, outer: int) -> tuple[float, float]:
    return 2.0 * tokens * inner * outer, 2.0 * (inner * outer + tokens * (inner + outer))


def _leaf(
    name: str, kind: str, layer: int | None, parent: str, flops: float, moved: float, model: EnergyRow,
    shape: Inference,
) -> EnergyRow:  # fmt: skip
    inside = layer is not None and parent.count(".") == 3
    level = "sub-component" if inside else "block"
    row = _row(name, kind, layer, level, parent, model.phase, model.context_length, shape)
    busy = max(moved / BYTES_PER_S, flops / FLOPS_PER_S) * 1e6
    launch_us = LAUNCH_US if shape.executions[0] == "eager" else GRAPH_US
    time_us = max(launch_us, busy)
    watts = STATED_W if shape.modelled else WAITING_W + (BUSY_W - WAITING_W) * min(1.0, busy / time_us)
    _set(row, watts * time_us / 1e3, time_us, shape)
    row.flops, row.bytes, row.host_bound = flops, moved, busy < launch_us
    row.executed_flops = flops
    return row


def _row(
    name: str, kind: str, layer: int | None, level: str, parent: str | None, phase: str, context: int,
    shape: Inference,
) -> EnergyRow:  # fmt: skip
    return EnergyRow(
        component=name, kind=kind, layer=layer, level=level, parent=parent, phase=phase, precision="bf16",
        execution=shape.executions[0], batch_size=shape.batch_size, context_length=context, device="cuda:0",
        meter="modelled" if shape.modelled else "nvml", calls=1.0, energy_mj=None, energy_ci_low_mj=None,
        energy_ci_high_mj=None, static_mj=None, dynamic_mj=None, time_us=None, power_w=None, ticks=60, windows=6,
        passes=3, quality="A", kv_cache=shape.kv_cache,
    )  # fmt: skip


def _set(row: EnergyRow, energy: float, time_us: float, shape: Inference) -> None:
    row.energy_mj, row.time_us = energy, time_us
    row.energy_ci_low_mj, row.energy_ci_high_mj = energy * 0.991, energy * 1.009
    row.power_w = energy / time_us * 1e3
    row.clock_mhz = None if shape.modelled else 1980.0
    if not shape.modelled:
        row.static_mj = IDLE_W * time_us / 1e3
        row.dynamic_mj = energy - row.static_mj


def _close(row: EnergyRow, rows: list[EnergyRow], shape: Inference) -> None:
    children = [child for child in rows if child.parent == row.component]
    if not children:
        return
    energy = sum(child.energy_mj or 0.0 for child in children)
    time_us = sum(child.time_us or 0.0 for child in children)
    glue, rest = energy * 0.07, energy * 0.012
    _set(row, energy + glue + rest, time_us * 1.08, shape)
    row.self_mj, row.glue_mj, row.unexplained_mj = glue + rest, glue, rest
    row.glue_ci_low_mj, row.glue_ci_high_mj = glue * 0.96, glue * 1.04
    row.glue_static_mj = None if shape.modelled else glue * 0.7
    for column in ("flops", "executed_flops", "bytes"):
        setattr(row, column, sum(getattr(child, column) or 0.0 for child in children))


def _scene(phase: str, context: int, layers: str, rows: list[EnergyRow], shape: Inference) -> dict[str, Any]:
    """Return what run.json says of a scene; its books close better the shorter its context."""
    part = 0.99 if context < 4096 else 0.965
    closed = {"energy": part, "energy_low": part - 0.015, "energy_high": part + 0.014, "with_glue": True,
              "state": "closed"}  # fmt: skip
    closure = {} if layers == "whole" else {
        "model": closed, "layers": {**closed, "energy": 0.995}, "leaves": {**closed, "decides": "energy"},
    }  # fmt: skip
    return {
        "name": phase if phase == "prefill" else f"{phase}@{context}", "phase": phase, "context_length": context,
        "kv_cache": shape.kv_cache, "layers": layers, "execution": shape.executions[0], "closure": closure,
        "differential": {"mlp": differential(24.0, 0.5, 24.3)}
        if layers in {"mean", "sample"} else {},
        "passes": [{"index": index, "idle_w": None if shape.modelled else IDLE_W, "anchor_mj": rows[0].energy_mj,
                    "clock_mhz": 1980.0, "temperature_c": 41} for index in range(3)],
        "drift": {"change": 0.002, "low": -0.004, "high": 0.008, "significant": False},
    }  # fmt: skip


def _i(value: float, share: float = 0.01) -> dict[str, float]:
    """Return a value with limits ``share`` of it to each side."""
    return {"value": value, "low": value - abs(value) * share, "high": value + abs(value) * share}


def step_of(shape: Inference, context: int) -> tuple[float, float]:
    """Return the energy (mJ) and the time (us) of the model's decode step at a context."""
    root = scene_rows(shape, "decode", context, "whole")[0]
    return root.energy_mj or 0.0, root.time_us or 0.0


def _prompt_pass(shape: Inference) -> tuple[float, float]:
    root = scene_rows(shape, "prefill", shape.prompt, "whole")[0]
    return root.energy_mj or 0.0, root.time_us or 0.0


def generation(shape: Inference) -> dict[str, Any]:
    """Return the content of generation.json; prefill is too short for the sensor, detokenize has no tokenizer."""
    step_mj, step_us = step_of(shape, middle_of(shape))
    loop_mj = LOOP_MJ if not shape.modelled else STATED_W * LOOP_US / 1e3
    pass_mj, pass_us = _prompt_pass(shape)
    count = shape.new_tokens - 1
    each_s = (step_us + LOOP_US) / 1e6
    each_mj = (step_mj + loop_mj) * 1.02 * shape.disagree
    prompt, made = shape.batch_size * shape.prompt, shape.batch_size * count
    prefill_j, decode_j = pass_mj * 1.04 / 1e3, each_mj * count / 1e3
    prefill_s, decode_s = pass_us * 1.05 / 1e6, each_s * count
    whole_s, whole_j = prefill_s + decode_s, prefill_j + decode_j
    total = shape.batch_size * shape.new_tokens
    watts = STATED_W if shape.modelled else 150.0
    return {
        "settings": {"prompt_tokens": shape.prompt, "new_tokens": shape.new_tokens,
                     "batch_size": shape.batch_size, "kv_cache": shape.kv_cache,
                     "generations": shape.generations, "seed": 0},
        "phases": [
            _phase("load", "traced", 6.4, 6.4 * watts / 1e3 * 1e3, None, shape),
            _phase("tokenize", "repeated", 9.1e-5, 9.1e-5 * watts, prompt, shape),
            _phase("prefill", "regressed", prefill_s, prefill_j, prompt, shape, 0.06),
            _phase("decode", "regressed", decode_s, decode_j, made, shape, 0.008),
            {"phase": "detokenize", "method": None, "seconds": None, "energy_j": None, "static_j": None,
             "dynamic_j": None, "power_w": None, "tokens": None, "joules_per_token": None, "devices_j": None,
             "reason": "the tokenizer is missing"},
        ],
        "loop": {"per_token": {"seconds": _i(LOOP_US / 1e6, 0.02), "energy_mj": _i(loop_mj, 0.03)},
                 "per_call": {"seconds": _i(0.0021, 0.1), "energy_mj": _i(0.0021 * watts * 1e3, 0.12)},
                 "windows": 10, "reason": None},
        "step": _step(shape, step_mj, step_us),
        "steps": [_steps(first, min(first + count // 8, count), shape, step_mj, loop_mj, each_s)
                  for first in range(1, count + 1, count // 8 + 1)],
        "rates": {
            "time_to_first_token_s": _i(prefill_s, 0.01), "time_per_output_token_s": _i(each_s, 0.004),
            "joules_per_prompt_token": _i(prefill_j / prompt, 0.06),
            "joules_per_generated_token": _i(decode_j / made, 0.008),
            "tokens_per_joule": _i(total / whole_j, 0.009), "tokens_per_s": _i(total / whole_s, 0.004),
            "tokens_per_s_per_w": _i(total / whole_j, 0.009),
        },
        "marks": _marks(shape, prefill_s, each_s), "idle_w": None if shape.modelled else IDLE_W,
        "modelled": shape.modelled, "notes": ["The prompt's ids are synthetic."],
    }  # fmt: skip


def _step(shape: Inference, step_mj: float, step_us: float) -> dict[str, Any] | None:
    """Return the model's own step, taken in turn with the generations; None of a run that took none."""
    if not shape.beside_trace or shape.step_as_scene:
        return None
    static = None if shape.modelled else IDLE_W * step_us / 1e3
    return {"context_length": middle_of(shape), "seconds": _i(step_us / 1e6, 0.02), "energy_mj": _i(step_mj),
            "static_mj": static,
            "dynamic_mj": None if static is None else _i(step_mj - static, 0.03), "windows": shape.generations, "reason": None}  # fmt: skip


def _phase(
    name: str,
    method: str,
    seconds: float,
    joules: float,
    tokens: int | None,
    shape: Inference,
    share: float = 0.02,
) -> dict[str, Any]:
    static = None if shape.modelled else IDLE_W * seconds
    return {
        "phase": name, "method": method, "seconds": _i(seconds, 0.004), "energy_j": _i(joules, share),
        "static_j": static, "dynamic_j": None if static is None else joules - static,
        "power_w": _i(joules / seconds, share), "tokens": tokens,
        "joules_per_token": _i(joules / tokens, share) if tokens else None, "devices_j": [joules], "reason": None,
    }  # fmt: skip


def _steps(first: int, last: int, shape: Inference, model: float, loop: float, each_s: float) -> dict[str, Any]:
    share = 0.02 if last - first > 4 else 0.06
    energy = (model + loop) * 1.02 * shape.disagree * (0.97 + 0.06 * first / shape.new_tokens)
    return {"first": first, "last": last, "seconds": _i(each_s, 0.004), "energy_mj": _i(energy, share),
            "power_w": _i(energy / 1e3 / each_s, share)}  # fmt: skip


def _marks(shape: Inference, prefill_s: float, each_s: float) -> list[dict[str, Any]]:
    rng = random.Random(shape.seed)
    begin, found = 20.0, []
    for _ in range(shape.generations):
        first = begin + prefill_s
        tokens = [first + index * each_s for index in range(shape.new_tokens)]
        found.append({"begin_s": begin, "prefill_end_s": first, "end_s": tokens[-1], "tokens_s": tokens})
        begin = tokens[-1] + rng.uniform(0.02, 0.12)
    return found


def trace(shape: Inference) -> list[dict[str, Any]]:
    """Return power_trace.csv: a counter that ticks every 100 ms, from before the generations to after them."""
    marks = generation(shape)["marks"]
    end = marks[-1]["end_s"] + 3.0
    rng = random.Random(shape.seed)
    rows, energy, time = [], 4.0e6, 17.0
    while time < end:
        inner = [time + 0.001 * index for index in range(100)]
        watts = sum(_watts(at, marks) for at in inner) / len(inner) + rng.gauss(0, 2.5)
        rows.append({"time_s": time, "device": "cuda:0", "energy_mj": energy, "power_w": watts, "phase": "generate",
                     "token": None, "sm_clock_mhz": 1980, "temperature_c": 40})  # fmt: skip
        energy += watts * 100.0
        time += 0.1
    return rows


def _watts(at: float, marks: list[dict[str, Any]]) -> float:
    for mark in marks:
        if mark["begin_s"] <= at < mark["end_s"]:
            return 480.0 if at < mark["prefill_end_s"] else 236.0
    return IDLE_W


_RATIOS: dict[str, list[tuple[str, str, float, float]]] = {  # phase -> what, value, energy per token, time of a step
    "decode": [
        ("batch_size", "4", 0.27, 1.02), ("batch_size", "16", 0.078, 1.09), ("batch_size", "64", 0.029, 1.5),
        ("context_length", "128", 0.97, 0.99), ("context_length", "8192", 1.62, 1.4),
        ("kv_cache", "static", 0.985, 1.01), ("execution", "cuda-graph", 0.61, 0.42),
        ("execution", "compile", 0.66, 0.5), ("attention", "eager", 1.09, 1.1),
    ],
    "prefill": [("batch_size", "4", 0.72, 2.6), ("batch_size", "16", 0.6, 9.0), ("execution", "cuda-graph", 0.93, 0.8),
                ("attention", "eager", 1.04, 1.05)],
}  # fmt: skip


def alternatives(shape: Inference) -> dict[str, Any]:
    """Return the content of alternatives.json: large savings, small ones, one that cannot be told, one invalid."""
    own = {"batch_size": shape.batch_size, "context_length": shape.contexts[0], "execution": "eager",
           "kv_cache": shape.kv_cache, "attention": "sdpa"}  # fmt: skip
    rows = []
    for phase, changes in _RATIOS.items():
        energy, time_us = step_of(shape, shape.contexts[0]) if phase == "decode" else _prompt_pass(shape)
        tokens = shape.batch_size * (1 if phase == "decode" else shape.prompt)
        rows.append(_alternative("base", "", phase, own, (energy, time_us, tokens), 1.0, shape))
        for what, value, per_token, slower in changes:
            setting = {**own, what: int(value) if value.isdigit() else value}
            more = int(value) / shape.batch_size if what == "batch_size" else 1.0
            values = (energy * per_token * more, time_us * slower, tokens * more)
            ratio = slower / more if shape.modelled else per_token
            rows.append(_alternative(what, value, phase, setting, values, ratio, shape))
    return {
        "base": {"precision": "bf16", **own, "prompt_tokens": shape.prompt},
        "rows": rows,
        "skipped": [
            {"what": "attention", "value": "flash_attention_2", "phase": "decode",
             "reason": "flash-attn is not installed"},
            {"what": "batch_size", "value": "256", "phase": "decode",
             "reason": "no memory is left: a batch of 192 would fit"},
        ],
        "idle_w": None if shape.modelled else IDLE_W, "modelled": shape.modelled,
        "notes": ["Compiling took 48 s, which is in no number of a step."],
    }  # fmt: skip


def _alternative(
    what: str, value: str, phase: str, setting: dict[str, Any], values: tuple[float, float, float], ratio: float,
    shape: Inference,
) -> dict[str, Any]:  # fmt: skip
    energy, time_us, tokens = values
    energy = time_us * STATED_W / 1e3 if shape.modelled else energy
    return {
        "what": what, "value": value, "phase": phase, **setting, "energy_mj": _i(energy),
        "static_mj": None if shape.modelled else IDLE_W * time_us / 1e3, "time_us": _i(time_us, 0.004),
        "power_w": _i(energy / time_us * 1e3), "joules_per_token": _i(energy / 1e3 / tokens),
        "tokens_per_s": _i(tokens / time_us * 1e6, 0.004),
        "ratio": {"value": 1.0, "low": 1.0, "high": 1.0} if what == "base" else _i(ratio, 0.02),
        "setup_s": 48.0 if value == "compile" else 0.4, "windows": 5,
        "quality": "invalid" if value == "8192" else "A",
        "reasons": "95 % half-width 12 %" if value == "8192" else "",
    }  # fmt: skip
