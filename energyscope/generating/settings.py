"""How generations are measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from energyscope.errors import UsageError


@dataclass(frozen=True)
class GenerateSettings:
    """What is generated and for how long.

    ``new_tokens`` are generated from each prompt, with a KV cache of the kind ``kv_cache``. Generations follow one
    another for ``seconds``, at least ``least`` of them; what is repeated (the loop, the tokenizer) gets ``passes``
    windows. ``seed`` draws the pauses between generations.
    """

    new_tokens: int = 128
    kv_cache: Literal["dynamic", "static"] = "dynamic"
    seconds: float = 12.0
    least: int = 5
    seed: int = 0
    passes: int = 5

    def __post_init__(self) -> None:
        """Refuse what cannot be measured.

        Raises:
            UsageError: a number is too small, or there is no such cache.

        """
        if self.new_tokens < 1:
            raise UsageError(f"{self.new_tokens} new tokens are too few: use 1 or more")
        if self.kv_cache not in {"dynamic", "static"}:
            raise UsageError(f"{self.kv_cache!r} is not a KV cache to generate with: use dynamic or static")
        if not self.seconds > 0:
            raise UsageError(f"generating for {self.seconds:g} s is not possible: use more than 0")
        if self.least < 2 or self.passes < 2:
            raise UsageError("generations and passes need 2 or more each: one alone has no interval")
