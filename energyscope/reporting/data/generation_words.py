"""A generation in words: the headline rates, the table of phases, and sentences that read it."""

from __future__ import annotations

from energyscope.reporting import text
from energyscope.reporting.data.agreement import Agreement
from energyscope.reporting.data.flow import FlowNode
from energyscope.reporting.data.generation import GenerationData
from energyscope.reporting.data.headline import Metric
from energyscope.reporting.data.pace import Pace
from energyscope.reporting.data.phases import LOAD, TOTAL, PhaseRow
from energyscope.reporting.data.scenes import DECODE, PREFILL, middle_of
from energyscope.reporting.figure import Table
from energyscope.runs.intervals import Interval, total

DASH = "\u2013"
US_PER_S = 1e6
METHODS = {
    "traced": "traced",
    "repeated": "repeated",
    "regressed": "regressed",
    TOTAL: "added up",
}
_RATES = (  # name in the document, what it is called, its factor and unit, what it means
    ("joules_per_prompt_token", "{energy} per prompt token", 1e3, "mJ", "prefill, by tokens read"),
    ("joules_per_generated_token", "{energy} per generated token", 1e3, "mJ", "decode, by tokens made"),
    ("tokens_per_joule", "{tokens} per joule, whole generation", 1.0, "", "new tokens over prefill and decode"),
    ("tokens_per_s", "Tokens per second", 1.0, "", "generated, whole batch"),
    ("tokens_per_s_per_w", "{tokens} per second per watt, decode", 1.0, "", "the prefill left out"),
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
    """Return the phases as text, a line for each, and one for what they add up to without the load."""
    energy = "MODELLED energy" if data.modelled else "energy"
    columns = ["phase", "time", f"{energy} [95 %]", "share", "static", "dynamic", "power", "tokens",
               f"{energy} per token", "how"]  # fmt: skip
    rows = [*data.phases, *([data.total] if data.total else [])]
    return Table(columns, [_line(row, share_of(row, data)) for row in rows])


def share_of(row: PhaseRow, data: GenerationData) -> str:
    """Return a phase's share of the generation's energy; the load is none of it, since it happens once."""
    if row.phase == LOAD:
        return "once"
    whole = data.total.energy if data.total else None
    return DASH if row.energy is None or whole is None else text.percent(row.energy.value / whole.value)


def _line(row: PhaseRow, share: str) -> list[str]:
    how = METHODS.get(row.method or "", row.method or "")
    return [
        row.phase,
        _said(row.seconds.scaled(US_PER_S) if row.seconds else None, "us"),
        _said(row.energy, "mJ"),
        share,
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
    """Say whether the model's pass and the loop add up to the traced step or prefill."""
    what, call = ("A step", "") if found.call is None else ("The prefill", " (once per call and once for a step)")
    loop = found.loop if found.call is None else total([found.loop, found.call])
    parts = (
        f"{what}: model forward {text.quantity(found.model.value, 'mJ')} + generate's loop{call} "
        f"{text.quantity(loop.value, 'mJ')} = {text.with_limits(found.parts, 'mJ')}; "
        f"traced {text.with_limits(found.traced, 'mJ')}"
    )
    if found.ratio is None:
        return f"{parts}."
    passed = "step" if found.call is None else "pass"
    graphs = "" if found.same_execution else (
        f" The model's {passed} was measured in CUDA graphs, the generation ran eagerly: what the host launches "
        "is in the trace only."
    )  # fmt: skip
    limits = text.percent_with_limits(found.ratio)
    return f"{parts}: {_verdict(found, found.ratio)} (parts / traced {limits}).{graphs}{_pace(found.pace)}"


def _pace(found: Pace | None) -> str:
    """Say what of a difference is time, and what is work beyond idle power; empty where that is not known."""
    if found is None or found.dynamic_ratio is None:
        return ""
    longer = found.time_ratio - 1
    times = f"{text.quantity(found.parts_us, 'us')} against {text.quantity(found.traced_us, 'us')}"
    return (
        f" In time the parts are {text.percent(abs(longer))} {'longer' if longer > 0 else 'shorter'} ({times}); "
        f"beyond idle power ({text.number(found.idle_w)} W x time) they take "
        f"{text.with_limits(found.parts_dynamic, 'mJ')} and the trace "
        f"{text.with_limits(found.traced_dynamic, 'mJ')}: {text.percent_with_limits(found.dynamic_ratio)}."
    )


def _verdict(found: Agreement, ratio: Interval) -> str:
    apart = text.percent(abs(ratio.value - 1))
    if found.verdict == "agree":
        return f"they agree within {apart}"
    more = f"the parts are {apart} {'more' if ratio.value > 1 else 'less'}"
    if found.verdict == "disagree":
        return f"{more}, which is a disagreement"
    why = "which their intervals allow" if found.limited else "and not both have an interval"
    return f"{more}, {why}: whether they agree cannot be told"


def flow_caption(data: GenerationData, root: FlowNode) -> str:
    """Say what the flow of a generation adds up, and where it ends before the blocks and why."""
    nodes = {node.kind: node for node in root.children}
    middle = middle_of(data.prompt_tokens or 0, data.new_tokens or 0)
    steps = text.count((data.new_tokens or 1) - 1, "time")
    said = (
        "One generation without the load, its phases as traced. Below them stand the model's passes, measured by "
        f"themselves: a prefill once, and {steps} the step at {middle:,} tokens, the middle of the generation. "
        "Loop is what generate does around them, measured with the pass bypassed; unexplained is what the trace "
        "has beyond both. Nothing is scaled to fit; what is inside of a block, the flow of its moment shows."
    )
    ends = [_ends(nodes[phase], data, middle) for phase in (PREFILL, DECODE) if phase in nodes]
    return " ".join([said, *filter(None, ends)])


def _ends(phase: FlowNode, data: GenerationData, middle: int) -> str:
    """Say why a phase has no parts, or its pass no blocks; empty where it has."""
    decode = phase.kind == DECODE
    if not phase.children:
        why = data.disagreement if decode else "Its pass was not measured by itself."
        if data.agreement if decode else data.prefill_agreement:
            why = "Its pass was measured in a CUDA graph, while the generation ran eagerly."
        return f"The {phase.kind} has no parts: {why[:1].lower()}{why[1:]}"
    if phase.children[0].children:
        return ""
    remedy = f" (--context-length {middle} --execution eager measures a step's)" if decode else ""
    return f"The {phase.kind} has no blocks: components of that very pass, run eagerly, were not measured{remedy}."


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
