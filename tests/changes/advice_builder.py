"""Documents of alternatives and of a benchmark, made of a few numbers."""

from __future__ import annotations

BASE = {"execution": "eager", "batch_size": 1, "context_length": 1024, "kv_cache": "dynamic", "attention": "sdpa"}


def limited(value, half=0.01):
    """Return a value with limits ``half`` (relative) away."""
    return {"value": value, "low": value * (1 - half), "high": value * (1 + half)}


def row(what="base", value="base", *, mj=100.0, us=1000.0, phase="decode", half=0.01, quality="A", **more):
    """Return a row of alternatives.json; ``mj`` is per token, and that of the base is 100."""
    changed = {what: int(value) if value.isdigit() else value} if what in BASE else {}
    setting = {**BASE, **changed}
    tokens = setting["batch_size"] * (1 if phase == "decode" else 128)
    ratio = limited(mj / 100.0, half) if what != "base" else {"value": 1.0, "low": None, "high": None}
    return {
        "what": what, "value": value, "phase": phase, **setting,
        "energy_mj": limited(mj * tokens, half), "static_mj": None, "time_us": limited(us, half),
        "power_w": limited(mj * tokens / us * 1e3, half), "joules_per_token": limited(mj / 1e3, half),
        "tokens_per_s": limited(tokens * 1e6 / us, half), "ratio": ratio, "setup_s": None, "windows": 5,
        "quality": quality, "guards": [], "reasons": "", **more,
    }  # fmt: skip


def document(*rows, modelled=False, **base):
    """Return alternatives.json of a base in decode and some more rows."""
    return {
        "base": {"precision": "bf16", **BASE, "prompt_tokens": 128, **base},
        "rows": [row(), *rows],
        "skipped": [],
        "idle_w": None if modelled else 100.0,
        "modelled": modelled,
        "notes": [],
    }


def cell(precision, mj, *, ratio=None, quality="A", half=0.01):
    """Return a cell of benchmark.json over one sequence of 100 tokens."""
    energy_ratio = None if ratio is None else limited(ratio, half)
    return {
        "precision": precision, "batch_size": 1, "sequence_length": 100, "energy_mj": limited(mj, half),
        "energy_ratio": energy_ratio, "quality": quality,
    }  # fmt: skip
