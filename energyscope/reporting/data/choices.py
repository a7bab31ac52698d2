"""What changing one thing at a time would do to the joules per token."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from energyscope.reporting import text
from energyscope.reporting.data.given import entries, given, section, whole
from energyscope.reporting.figure import Table
from energyscope.runs.intervals import Interval, finite

if TYPE_CHECKING:
    from energyscope.runs.store import Run

BASE = "base"
TITLES = {
    "batch_size": "batch size",
    "context_length": "context",
    "kv_cache": "KV cache",
    "execution": "execution",
    "attention": "attention",
    "precision": "precision",
}
PHASES = ("decode", "prefill")
INVALID = "invalid"


@dataclass(frozen=True)
class Choice:
    """One setting with one thing changed. Energies in mJ, times in us; ``ratio`` is of the joules per token to
    those of the run's own setting in the same phase, 1 for that setting itself.
    """

    what: str
    value: str
    phase: str
    energy: Interval | None
    static_mj: float | None
    time_us: Interval | None
    power_w: Interval | None
    per_token: Interval | None
    tokens_per_s: Interval | None
    ratio: Interval | None
    setup_s: float | None
    windows: int | None
    quality: str
    reasons: str

    @property
    def is_base(self) -> bool:
        """Whether it is the run's own setting."""
        return self.what == BASE

    @property
    def group(self) -> str:
        """What is changed, as it is called in charts."""
        return TITLES.get(self.what, self.what.replace("_", " "))

    @property
    def title(self) -> str:
        """What it is changed to, as it is called in charts."""
        number = finite(self.value)
        value = f"{int(number):,}" if number is not None and number == int(number) else self.value
        return "as it was run" if self.is_base else f"{self.group} {value}"

    @property
    def weak(self) -> bool:
        """Whether it did not reach grade C."""
        return self.quality == INVALID


@dataclass(frozen=True)
class Skipped:
    """What could not be measured, and why."""

    title: str
    phase: str
    reason: str


@dataclass(frozen=True)
class Said:
    """A sentence of advice; ``confident`` ones are borne by the measurement (see `advising.advice`)."""

    what: str
    sentence: str
    confident: bool


@dataclass(frozen=True)
class ChoicesData:
    """What alternatives.json holds: rows in its order, the run's own setting in words, advice, what is missing."""

    base: str
    rows: list[Choice]
    skipped: list[Skipped]
    advice: list[Said]
    modelled: bool
    notes: list[str]

    def of(self, phase: str) -> list[Choice]:
        """Return what was measured in a phase and can be related to the run's own setting, by what is changed."""
        found = [row for row in self.rows if row.phase == phase and not row.is_base and row.ratio is not None]
        order = list(dict.fromkeys(row.what for row in found))
        return sorted(found, key=lambda row: order.index(row.what))

    def base_of(self, phase: str) -> Choice | None:
        """Return the run's own setting in a phase."""
        return next((row for row in self.rows if row.phase == phase and row.is_base), None)

    @property
    def phases(self) -> list[str]:
        """The phases in which something can be compared."""
        named = [*PHASES, *(row.phase for row in self.rows)]
        return [phase for phase in dict.fromkeys(named) if self.of(phase)]


def choices_data(run: Run) -> ChoicesData | None:
    """Read alternatives.json; None where the run measured no alternatives."""
    document = run.alternatives
    if document is None:
        return None
    modelled = bool(document.get("modelled", run.modelled))
    return ChoicesData(
        base=_base(section(document, "base")),
        rows=[_choice(entry) for entry in entries(document, "rows")],
        skipped=[_skipped(entry) for entry in entries(document, "skipped")],
        advice=_advice(run),
        modelled=modelled,
        notes=[str(note) for note in document.get("notes") or []],
    )


def _advice(run: Run) -> list[Said]:
    from energyscope.advising.advice import advice
    from energyscope.advising.said import MODELLED  # stands once above all sentences

    found = advice(run.alternatives, run.benchmark)
    return [Said(one.what, one.sentence.removeprefix(MODELLED), one.confident) for one in found]


def _base(entry: Mapping[str, Any]) -> str:
    parts = [
        str(entry["precision"]) if entry.get("precision") else "",
        str(entry["execution"]) if entry.get("execution") else "",
        f"batch {entry['batch_size']}" if entry.get("batch_size") else "",
        f"{entry['context_length']:,} tokens of context" if entry.get("context_length") else "",
        f"a prompt of {entry['prompt_tokens']:,} tokens" if entry.get("prompt_tokens") else "",
        f"{entry['kv_cache']} KV cache" if entry.get("kv_cache") else "",
        f"{entry['attention']} attention" if entry.get("attention") else "",
    ]
    return ", ".join(part for part in parts if part)


def _choice(entry: Mapping[str, Any]) -> Choice:
    per_token, what = given(entry.get("joules_per_token")), str(entry.get("what"))
    return Choice(
        what=what,
        value=str(entry.get("value")),
        phase=str(entry.get("phase")),
        energy=given(entry.get("energy_mj")),
        static_mj=finite(entry.get("static_mj")),
        time_us=given(entry.get("time_us")),
        power_w=given(entry.get("power_w")),
        per_token=per_token.scaled(1e3) if per_token else None,
        tokens_per_s=given(entry.get("tokens_per_s")),
        ratio=given(entry.get("ratio")),
        setup_s=finite(entry.get("setup_s")),
        windows=whole(entry.get("windows")),
        quality=str(entry.get("quality") or ""),
        reasons=str(entry.get("reasons") or ""),
    )


def _skipped(entry: Mapping[str, Any]) -> Skipped:
    what = str(entry.get("what"))
    named = f"{TITLES.get(what, what.replace('_', ' '))} {entry.get('value')}"
    return Skipped(named, str(entry.get("phase") or ""), str(entry.get("reason") or "no reason was noted"))


def choices_table(data: ChoicesData, phase: str) -> Table:
    """Return a phase's alternatives as text, the run's own setting first."""
    energy = "MODELLED energy" if data.modelled else "energy"
    step = "pass" if phase == "prefill" else "step"
    columns = ["changed to", f"{energy} per token [95 %]", "against the run's own [95 %]", f"time of a {step}",
               "tokens/s", "power", "set up once", "quality"]  # fmt: skip
    base = data.base_of(phase)
    return Table(columns, [_line(row) for row in ([base] if base else []) + data.of(phase)])


def _line(row: Choice) -> list[str]:
    ratio = f"\u00d7 {text.with_limits(row.ratio, '')}" if row.ratio and not row.is_base else "\u2013"
    return [
        row.title,
        text.with_limits(row.per_token, "mJ"),
        ratio,
        text.with_limits(row.time_us, "us"),
        text.quantity(row.tokens_per_s.value if row.tokens_per_s else None, ""),
        text.quantity(row.power_w.value if row.power_w else None, "W"),
        "\u2013" if row.setup_s is None else text.quantity(row.setup_s * 1e6, "us"),
        "; ".join(part for part in (row.quality, row.reasons) if part),
    ]
