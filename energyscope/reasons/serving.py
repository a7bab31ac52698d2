"""The words of reasons about a running server."""

from __future__ import annotations

WORDS: dict[str, str] = {
    "no-answers": "no request was answered",
    "failed-requests": "{failed:count request} of {requests} failed: their energy is in that of the others",
    "slower-than-arrivals": "the server is slower than requests arrive: {waiting:count request} "
    "had no answer when the load ended, and latencies depend on how long it lasts",
    "few-rounds": "few requests came after each other while all users were at work, who keep in step at first: "
    "give more --seconds",
    "texts-of-many-tokens": "the server sends {tokens:number} tokens at once: single tokens' times are estimated",
    "trace-repeated": "the trace was sent {times:number} times over: a cache may know its prompts",
    "cache-not-stated": "the server does not say whether its cache knew the shared prefix, whose tokens count "
    "as computed",
    "load-too-short": "too few ticks while all users were at work: give more --seconds",
    "costs-not-separable": "the loads that were measured do not tell prompts and answers apart",
    "modelled-power-is-constant": "the modelled power is the same whatever the server does: prompts, answers "
    "and the idle engine are not told apart",
    "texts-counted": "the server states no usage: tokens of answers are counted by the pieces of text that came",
    "prompts-counted": "the server states no usage: tokens of prompts are counted by the tokenizer, without what "
    "a chat template adds; where none was named, by their words, at the rate of two others",
    "prompt-tokens-unknown": "the server states no usage: tokens of prompts are not known: name its --tokenizer",
    "context-assumed": "the server does not state its context: {tokens:count token} were assumed",
    "engine-unseen": "no process on this machine answers there: which GPUs are the engine's is not known",
    "engine-hidden": "NVML's list of processes does not show the engine, which may run in a container: whether "
    "others use its GPUs is not known",
    "prompts-cached": "{share:percent} of the prompts' tokens came from the server's cache, "
    "and count as not computed",
}
