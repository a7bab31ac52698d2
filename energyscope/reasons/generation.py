"""The words of reasons about generations: their phases, their trace, and the loop around the model."""

from __future__ import annotations

WORDS: dict[str, str] = {
    # notes on every generation of a kind
    "greedy-generation": "greedy decoding of a fixed number of tokens: "
    "min_new_tokens suppresses an early end of sequence",
    "tokens-by-phase": "joules per prompt token are the prefill's, per generated token the decode's; "
    "the first new token belongs to the prefill",
    "rates-by-phase": "tokens per joule and per second cover prefill and decode; "
    "per second and watt, the decode alone",
    "decode-power-interpolated": "decode power is fitted as straight lines between a few steps: "
    "single steps are not resolved",
    "generate-not-compiled": "generate compiles the forward pass for a static cache on a GPU; "
    "here it was told not to",
    "tokens-one-step-late": "transformers hands tokens over one step late on this device: "
    "their times are those of the next step",
    "prompt-text-decoded": "the prompt's ids are random: the tokenized text is decoded from them",
    "tokenizing-on-host": "tokenizing runs on the host: its energy is what the metered device draws meanwhile",
    "generate-loop-alone": "generate's loop was run with the forward pass bypassed, on an otherwise idle device",
    # why something was not measured
    "ended-before-measured": "the run ended before this was measured",
    "ended-before-generation": "the run ended before a generation was finished",
    "loading-not-metered": "loading was not watched by the meter",
    "one-new-token": "one new token: nothing is decoded after it",
    "meter-slower-than-phase": "this meter's power lags or is averaged over up to {settle_s:in s}, "
    "longer than a phase: "
    "use --meter nvml",
    "no-memory-for-step": "no memory was left for the step beside the generations",
    "no-memory-for-tokens": "no memory was left for {tokens:count new token}",
    "no-positions-for-loop": "the model has no positions left for generations of two lengths",
    "loop-failed": "generate's loop could not be run alone: {error}",
    # why the trace gives no energy
    "no-window-with-energy": "no window gave an energy",
    "phase-beyond-ticks": "the meter's ticks do not cover the whole phase",
    "counter-disturbed": "the energy counter was reset or jumped meanwhile",
    "few-tick-intervals": "{intervals:count usable tick interval} in {generations:count generation} is too few: "
    "generate for longer",
    "phase-not-in-ticks": "no tick interval contains any of: {phase}",
    "phases-not-separable": "not separable from {other}: both take the same share of every tick interval",
    "phase-too-uncertain": "{energy_j:in J} ± {half_j:in J} is too uncertain: generate for longer",
}
