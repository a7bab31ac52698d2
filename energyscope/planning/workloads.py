"""The workloads that are planned for: a pass over prompts or a decode step, of a batch."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from energyscope.errors import UsageError

EXAMPLES = "prefill, decode, decode:32"
_WRITTEN = re.compile(r"(prefill|decode)(?::([1-9]\d*))?")


@dataclass(frozen=True)
class PlanWorkload:
    """A phase and the sequences in it; ``key`` is how it is written, ``decode:32``."""

    phase: Literal["prefill", "decode"]
    batch_size: int

    @property
    def key(self) -> str:
        return f"{self.phase}:{self.batch_size}"


def parse_workload(text: str, batch_size: int = 1) -> PlanWorkload:
    """Read a workload; without a batch size it has the run's ``batch_size``.

    Raises:
        UsageError: it cannot be understood, with examples.

    """
    match = _WRITTEN.fullmatch(text)
    if match is None:
        raise UsageError(f"--workloads {text!r} cannot be read: name some of {EXAMPLES}")
    phase: Literal["prefill", "decode"] = "decode" if match[1] == "decode" else "prefill"
    return PlanWorkload(phase, int(match[2] or batch_size))
