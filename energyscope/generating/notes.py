"""What a reader of a measured generation must know."""

from __future__ import annotations

from typing import TYPE_CHECKING

from energyscope.generating.settings import GenerateSettings
from energyscope.loading import LoadedModel

if TYPE_CHECKING:
    from energyscope.workloads import Workload

GREEDY = (
    "greedy generation of a fixed number of tokens: min_new_tokens keeps an end of sequence from ending it, by a "
    "step on the logits that is not there without"
)
TOKENS = (
    "a prompt token's joules are the prefill's, a generated token's the decode's: the first new token belongs to "
    "the prefill. Tokens per joule and per second are all new tokens over prefill and decode; those per second "
    "and watt are those of the decode"
)
LINES = "along the decode, power was fitted as straight lines between a few steps: single steps are not told apart"
NOT_COMPILED = "generate compiles the forward pass for a static cache on a GPU by itself: here it was told not to"
LATE = "transformers hands tokens over one step late on this device: their times are those of the step after"
SYNTHETIC = "the prompt's ids are random: the text that was tokenized is what they decode to"
HOST = "tokenizing runs on the host: its energy is what the metered device draws meanwhile, not the host's"
LOOP = "generate's loop was run with the forward pass bypassed, beside an otherwise idle device"


def notes_of(loaded: LoadedModel, workload: Workload, settings: GenerateSettings, *, modelled: bool) -> list[str]:
    """Return the notes on a generation, before it is measured."""
    said = {
        GREEDY: True,
        TOKENS: True,
        LINES: settings.new_tokens > 2 and not modelled,
        NOT_COMPILED: settings.kv_cache == "static" and loaded.device.type == "cuda",
        LATE: loaded.device.type == "mps",
        SYNTHETIC: workload.tokens == "synthetic" and loaded.tokenizer is not None,
        HOST: not modelled and loaded.tokenizer is not None,
        LOOP: True,
    }
    return [note for note, holds in said.items() if holds]
