"""A generation in words: the headline rates, the table of phases, and sentences that read it."""

from __future__ import annotations

from energyscope.reporting import text
from energyscope.reporting.data.generation import Agreement, GenerationData, PhaseRow
from energyscope.reporting.data.headline import Metric
from energyscope.reporting.figure import Table
from energyscope.runs.intervals import Interval

DASH = "\u2013"
US_PER_S = 1e6
METHODS = {
    "traced": "traced",
    "repeated": "repeated",
    "regressed": "regressed",
}
_RATES = (  # name in the document, what it is called, its factor and unit, what it means
    ("joules_per_prompt_token", "{energy} per prompt token", 1e3, "mJ", "prefill, by tokens read"),
    ("joules_per_generated_token", "{energy} per generated token", 1e3, "mJ", "decode, by tokens made"),
    ("tokens_per_joule", "{tokens} per joule", 1.0, "", "generated, over the whole generation"),
    ("tokens_per_s", "Tokens per second", 1.0, "", "generated, whole batch"),
    ("tokens_per_s_per_w", "{tokens} per second per watt", 1.0, "", "of the decode"),
    ("time_to_first_token_s", "Time to first token", US_PER_S, "us", ""),
    ("time_per_output_token_s", "Time per output token", US_PER_S, "us", "after the first"),
)


def rates(data: GenerationData) -> list[Metric]:
    """Return the headline rates; those that could not be told say so."""
    words = {
        "energy": "Modelled energy" if data.modelled else "Energy",
        "tokens": "Tokens (modelled)" if data.modelled else "Tokens",
    }
    found = []
    for name, label, factor, unit, note in _RATES:
        item = data.rates.get(name)
        value = item.scaled(factor) if item else None
        limits = f"95 % interval {text.limits(value, unit)}" if value and value.known else ""
        said = text.quantity(value.value if value else None, unit)
        found.append(Metric(label.format(**words), said, limits, note))
    return found


def about(data: GenerationData) -> str:
    """Say what was generated, how often, and with which cache."""
    prompt = text.count(data.prompt_tokens or 0, "token")
    made = f"{text.count(data.new_tokens or 0, 'token')} from a prompt of {prompt}"
    batch = f", batch {data.batch_size}" if data.batch_size else ""
    cache = f", {data.kv_cache} KV cache" if data.kv_cache else ""
    times = f" {text.count(data.generations, 'generation')} were traced." if data.generations else ""
    return f"Real calls of generate, each making {made}{batch}{cache}.{times}"


def phase_table(data: GenerationData) -> Table:
    """Return the phases as text, a line for each."""
    energy = "MODELLED energy" if data.modelled else "energy"
    columns = ["phase", "time", f"{energy} [95 %]", "static", "dynamic", "power", "tokens",
               f"{energy} per token", "how"]  # fmt: skip
    return Table(columns, [_line(row) for row in data.phases])


def _line(row: PhaseRow) -> list[str]:
    how = METHODS.get(row.method or "", row.method or "")
    return [
        row.phase,
        _said(row.seconds.scaled(US_PER_S) if row.seconds else None, "us"),
        _said(row.energy, "mJ"),
        DASH if row.static_mj is None else text.quantity(row.static_mj, "mJ"),
        DASH if row.dynamic_mj is None else text.quantity(row.dynamic_mj, "mJ"),
        DASH if row.power_w is None else text.quantity(row.power_w.value, "W"),
        DASH if row.tokens is None else f"{row.tokens:,}",
        _said(row.per_token, "mJ"),
        "; ".join(part for part in (how or "not told", row.reason) if part),
    ]


def _said(item: Interval | None, unit: str) -> str:
    return DASH if item is None else text.with_limits(item, unit)


def loop_sentence(data: GenerationData) -> str:
    """Say what the loop of generate takes, per step and per call; or why that is not known."""
    loop = data.loop
    if loop.energy is None:
        return f"What the loop of generate takes is not known{f': {loop.reason}' if loop.reason else ''}.".replace(
            "..", "."
        )
    word = " (MODELLED)" if data.modelled else ""
    step = f"generate's own Python loop takes {text.with_limits(loop.energy, 'mJ')}{word} a step"
    if loop.seconds:
        step += f" ({text.quantity(loop.seconds.scaled(US_PER_S).value, 'us')})"
    call = f", and {text.with_limits(loop.call_energy, 'mJ')} for each call" if loop.call_energy else ""
    return f"{step[0].upper()}{step[1:]}{call}: measured by itself, with the model's pass bypassed."


def agreement_sentence(found: Agreement) -> str:
    """Say whether the model's pass and the loop add up to the traced step."""
    parts = (
        f"A step: model forward {text.quantity(found.model.value, 'mJ')} + generate's loop "
        f"{text.quantity(found.loop.value, 'mJ')} = {text.with_limits(found.parts, 'mJ')}; "
        f"traced {text.with_limits(found.traced, 'mJ')}"
    )
    if found.ratio is None:
        return f"{parts}."
    apart = text.percent(abs(found.ratio.value - 1))
    more = "more" if found.ratio.value > 1 else "less"
    limits = text.percent_with_limits(found.ratio)
    open_books = f"the parts are {apart} {more}, which is a disagreement"
    verdict = f"they agree within {apart}" if found.agrees else open_books
    graphs = "" if found.same_execution else (
        " The model's step was measured in CUDA graphs, the generation ran eagerly: what the host launches is in "
        "the trace only."
    )  # fmt: skip
    return f"{parts}: {verdict} (parts / traced {limits}).{graphs}"


def trend_sentence(data: GenerationData) -> str:
    """Say how the energy of a step changes from the first steps to the last; empty where it is not known."""
    steps = data.shown_steps
    first, last = (steps[0], steps[-1]) if len(steps) > 1 else (None, None)
    if first is None or last is None or first.energy is None or last.energy is None:
        return ""
    word = " (MODELLED)" if data.modelled else ""
    return (
        f"Steps {first.first} to {first.last} take {text.with_limits(first.energy, 'mJ')}{word} each, steps "
        f"{last.first} to {last.last} {text.with_limits(last.energy, 'mJ')}."
    )
