"""The first screen of the page of a measured server, and what the terminal says first: one answer in both."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from energyscope.reporting.page import sentence
from energyscope.reporting.run.answer import Chip, Stat
from energyscope.reporting.serving.curve import ENERGY
from energyscope.reporting.serving.phases import TOKENS
from energyscope.reporting.serving.served import Entry, Server, asked_by, engine_of
from energyscope.serving.design import ANSWER, PROMPT

TOP = (ENERGY, TOKENS)
CLOSE, NEAR = 0.05, 0.15  # errors of held-out loads
_MODELLED = "No power sensor was read: every joule is time x stated watts."


@dataclass(frozen=True)
class ServingAnswer:
    """What a reader gets in ten seconds."""

    server: Server

    @cached_property
    def chips(self) -> list[Chip]:
        """What was measured, and where."""
        document = self.server.run.document
        failed = sum(int(row["failed"] or 0) for row in self.server.loads)
        chips = [
            Chip(str((document.get("device") or {}).get("name") or "")),
            Chip(engine_of(document)),
            Chip(f"{len(self.server.loads)} loads"),
            Chip(f"{failed} requests failed" if failed else "", "warn"),
            Chip("MODELLED" if self.server.run.modelled else "", "warn", _MODELLED),
        ]
        return [chip for chip in chips if chip.text]

    @cached_property
    def facts(self) -> dict[str, Any]:
        """The numbers of the sentences."""
        measured = [row for row in self.server.curve if row["request"] is not None]
        alone = next((row for row in measured if row["users"] == 1), None)
        knee = self.server.run.serving.get("knee")
        shown = [row for row in measured if not row["noisy"]] or measured
        best = next((row for row in shown if row["load"] == knee), shown[-1] if shown else None)
        return {
            "modelled": self.server.run.modelled,
            "prompt": _tokens(best, "prompt_tokens"),
            "new": _tokens(best, "new_tokens"),
            "best": best,
            "asked": asked_by(best) if best else None,
            "alone": alone if alone is not best else None,
            "worst": self.server.worst,
            "close": CLOSE,
            "near": NEAR,
            "noisy": sum(row["noisy"] for row in measured),
            "noisy_work": sum(row["work_noisy"] for row in measured if row["noisy"]),
            "unknown": len(self.server.curve) - len(measured),
            "curve": len(self.server.curve),
            "disturbed": self.server.disturbed,
        }

    @cached_property
    def sentence(self) -> str:
        """The number that matters."""
        return sentence("serving/answer.txt.j2", facts=self.facts)

    @cached_property
    def trust(self) -> str:
        """Whether it can be trusted, in one line."""
        return sentence("serving/trust_line.txt.j2", facts=self.facts)

    @cached_property
    def stats(self) -> list[Stat]:
        """A few numbers: a prompt's token, a generated token alone and among others, the idle engine."""
        prompts = [row for row in self.server.phases if row["phase"] == PROMPT]
        answers = [row for row in self.server.phases if row["phase"] == ANSWER]
        stats = [Stat.of("Idle engine", self.server.idle, "W", "loaded, without requests")]
        if prompts:
            longest = prompts[-1]["token"]
            stats.append(Stat.of("Prompt token", longest, "J", "beyond the idle engine, long prompts"))
        for row in answers[:1] + answers[1:][-1:]:
            label = "Generated token alone" if row["users"] == 1 else f"Generated token among {row['users']}"
            stats.append(Stat.of(label, row["token"], "J", "beyond the idle engine"))
        return stats


def _tokens(row: Entry | None, key: str) -> int | None:
    return None if row is None or row[key] is None else round(row[key])
