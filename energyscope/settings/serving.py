"""What is asked of a running server: one frozen record, checked before anything is sent. No torch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, Self
from urllib.parse import urlsplit

from energyscope.errors import UsageError
from energyscope.metering.choice import DEFAULT_WATTS, SERVER_METERS
from energyscope.settings.budget import CARBON, PRICE
from energyscope.settings.fields import PANELS, check_each, read_options, setting, settings_of

MOST_USED, WHAT, HOW, _, DATA, OUTPUT = PANELS
SPREAD = "lognormal"


@dataclass(frozen=True)
class ServingSettings:
    """What is asked of a server at ``url``; ``price`` is of a kWh, ``carbon`` g of CO2e per kWh."""

    url: str
    prompt_tokens: str = setting(
        "512", "Tokens of a request's prompt: N, or N:lognormal for a spread.", MOST_USED, number=True
    )
    new_tokens: str = setting("128", "Tokens of its answer, in the same way.", MOST_USED, number=True)
    users: tuple[int, ...] = setting(
        (),
        "Users who ask at the same time, each again once answered.",
        MOST_USED,
        least=1,
        unset="1, 2, 4, ... until throughput hardly grows",
    )
    rates: tuple[str, ...] = setting(
        (),
        "Also requests per second at random times (Poisson).",
        MOST_USED,
        option="--rate",
        metavar="R[,R...]",
        number=True,
    )
    trace: Path | None = setting(
        None, "JSONL file of requests: prompt, max_tokens, and time (s) where they have one.", DATA
    )
    shared_prefix: int = setting(0, "Tokens that all prompts begin with, as a system prompt.", DATA, least=0)
    model: str | None = setting(None, "Model to ask for.", WHAT, unset="the only one that the server has")
    tokenizer: str | None = setting(
        None, "Tokenizer that counts prompts where the server states no usage: a folder or Hugging Face id.", WHAT
    )
    api: Literal["auto", "completions", "chat"] = setting("auto", "Which of the server's APIs is used.", WHAT)
    gpu_id: tuple[str, ...] = setting(
        (), "GPUs of the engine, by NVML's number or UUID.", WHAT, unset="those that its process uses"
    )
    whole_gpu: bool = setting(False, "Under MIG, measure the whole GPU with all of its slices.", WHAT)
    seconds: float = setting(10.0, "Seconds of a load.", HOW, above=0, most=3600, unit="seconds")
    timeout_s: float = setting(
        60.0, "Seconds after which a request has failed.", HOW, option="--timeout", above=0, unit="seconds"
    )
    meter: str = setting("auto", "As of `energyscope run`.", HOW, choices=SERVER_METERS)
    watts: float = setting(DEFAULT_WATTS, "Power of the modelled meter.", HOW, above=0, unit="watts")
    seed: int = setting(0, "Of prompts, orders and times.", HOW, least=0)
    price: float | None = setting(None, PRICE, OUTPUT, above=0)
    carbon: float | None = setting(None, CARBON, OUTPUT, above=0, unit="g")
    name: str | None = setting(None, "Name of the run directory.", OUTPUT, unset="model and time")
    root: Path = setting(Path("runs"), "Where run directories are.", OUTPUT)

    @classmethod
    def of(cls, url: str, **options: Any) -> Self:
        """Return the settings of options, by the names of the command line or of the fields."""
        return cls(url, **read_options(settings_of(cls), options))

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """Return the settings of `document`."""
        declared = settings_of(cls)
        known = {name: value for name, value in document.items() if name in declared}
        several = {name: tuple(value) for name, value in known.items() if declared[name].several}
        paths = {name: Path(value) for name, value in known.items() if declared[name].kind is Path and value}
        return cls(**{"url": document["url"], **known, **several, **paths})

    def document(self) -> dict[str, Any]:
        """Return the settings as plain data, for run.json."""
        plain = asdict(self)
        return {name: str(value) if isinstance(value, Path) else value for name, value in plain.items()}

    def check(self) -> None:
        """Refuse what cannot be.

        Raises:
            UsageError: with what to give instead.

        """
        check_each(self)
        parts = urlsplit(self.url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise UsageError(f"{self.url!r} is no address of a server: give one such as http://localhost:8000")
        tokens_of(self.prompt_tokens, "--prompt-tokens")
        tokens_of(self.new_tokens, "--new-tokens")
        rates_of(self.rates)
        if self.trace is not None and not self.trace.is_file():
            raise UsageError(f"--trace {self.trace} is no file")


def tokens_of(text: str, option: str) -> tuple[int, bool]:
    """Return the (median) number of tokens that an option asks for, and whether they are spread.

    Raises:
        UsageError: it is no number of tokens.

    """
    number, _, spread = text.partition(":")
    if not number.isdecimal() or not int(number) or spread not in {"", SPREAD}:
        raise UsageError(f"{option} {text!r} is no number of tokens, such as 512 or 512:{SPREAD}")
    return int(number), bool(spread)


def rates_of(words: tuple[str, ...]) -> list[float]:
    """Return requests per second.

    Raises:
        UsageError: one is no number above 0.

    """
    try:
        rates = [float(word) for word in words]
    except ValueError as error:
        raise UsageError(f"--rate {','.join(words)} is no list of numbers, such as 0.5,1,2") from error
    if not all(0 < rate < math.inf for rate in rates):
        raise UsageError(f"--rate {','.join(words)}: requests per second are above 0")
    return rates
