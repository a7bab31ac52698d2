"""The words of reasons about laws of energy over lengths, batches and models, and about predictions by them."""

from __future__ import annotations

WORDS: dict[str, str] = {
    # why cells give no law, or no number of one
    "one-cell": "one cell gives no law: measure another length or batch size (energyscope sweep)",
    "few-cells": "{cells:count cell}, and {needed} are needed",
    "few-sizes": "{sizes:count size}, and {needed} are needed",
    "few-flops": "{amounts:count different amount} of FLOPs, and {needed} are needed",
    "too-few-or-alike": "{cells:count cell}: too few, or too alike, for this law",
    "sizes-too-alike": "these sizes are too alike",
    "same-amount": "{cells:count cell} with the same {measure}: energy shows no growth with {measure}",
    "constant-energy": "all {cells:count cell} do the same work: their energy is a constant",
    "other-work-than-cells": "all {cells:count cell} do the same work, and this shape does other work",
    "different-work": "the cells do different work",
    "no-flops": "it has no FLOPs that energy could grow with",
    "no-work-of-its-own": "it has no time and work of its own",
    "no-static-power": "static power was not measured",
    "law-breaks-at-once": "not even the {cells} smallest cells "
    "are within {tolerance:percent} of the law of the others",
    "no-cell-left-for-interval": "no cell is left over for an interval",
    "trend-unclear": "the interval includes 0 and reaches beyond {flat:percent} per doubling",
    "no-two-term-law": "no two-term law of {subjects:list}",
    "k-not-positive": "k of {subjects:list} is not positive",
    "k-holds-zero": "k of {subjects:list} is not significantly different from zero",
    # flags of a law
    "cells-mixed": "cells of several {field}s: {names:list 4}",
    "term-negative": "{term} is negative",
    "term-significantly-negative": "{term} is significantly below zero: the law does not hold here",
    "term-negative-holds-zero": "{term} is negative, and not significantly different from zero",
    "term-held-at-zero": "{term} is held at 0: without the bound it would be negative",
    "term-not-separable": "{term} is held at 0: these cells do not separate it from the other terms",
    "limit-not-seen": "{limit} sets no cell's time",
    "launch-or-memory": "these times do not separate launches from memory",
    # left-out cells
    "no-cell-left-out": "no cell could be left out of a law",
    "single-group": "a single {by}: nothing is left to fit",
    "no-law-without": "without {by} {left_out}: {why:reason}",
    "of-part": "{part}: {why:reason}",
    # tokens per joule
    "knee": "up to {noun} {at:count}, tokens/J rise to {factor:number} times those at {noun} {least:count}; "
    "the next doubling changes them by {gain:change}",
    "knee-unclear": "no clear knee: from {noun} {start:count} to {end:count}, tokens/J change by {gain:change} "
    "[{low:change}, {high:change}] per doubling",
    "no-gain-from-start": "no knee: from {noun} {start:count} to {end:count}, "
    "tokens/J change by only {gain:change} per doubling",
    "no-knee-yet": "no knee up to {noun} {end:count}: from {start:count}, "
    "tokens/J still change by {gain:change} per doubling",
    # what measured cells lack
    "whole-not-measured": "the whole model was not measured",
    "no-rows": "it has no rows",
    "no-component-energies": "it holds no energies of components",
    "components-without-energy": "{missing} of {components:count component} have no energy, such as {component}",
    "no-time-or-calls": "its time or the number of its calls is unknown",
    "no-flops-or-bytes": "its FLOPs or bytes are unknown",
    "executed-flops-not-recorded": "executed FLOPs not recorded of {runs:list 3}: laws count nominal ones, "
    "in which causal attention has the full square",
    "overhead-not-measured": "the overhead between the parts of {component} was not measured",
    "not-a-cell": "{error}",
    # notes on the cells that laws are made of
    "run-not-used": "not used: {runs:list 3} ({why:reason})",
    "subject-not-used": "not used of {runs:list 3}: {subject} ({why:reason})",
    "sweep-empty": "no cell of the sweep {sweep} was measured",
    "static-cache-seen-in-part": "a static KV cache computes over its whole length; laws see its tokens only",
    "methods-kept-apart": "laws do not join different revisions of the method, {why:reason}: {groups:list}",
    "older-method": "measured by an older method ({why:reason}); measure again: {groups:list}",
    "invalid-cells-used": "the whole model is too noisy in {invalid} of {cells:count cell}, "
    "used all the same: {runs:list 3}",
    "several-versions": "cells of {group} were measured with several versions of {name}: {versions:list}",
    "several-weights": "weights of several kinds ({weights:list}): energies depend on their values too",
    "one-granularity": "components are those of {cells:count cell} at {granularity} granularity; "
    "of {others} at {unused:list}, only the whole model counts",
    "of-group": "{model}, {phase}: {why:reason}",
    # predictions
    "beyond-cells": "{measure} are {factor:number} times the {end} measured",
    "none-measured": "no {measure} were measured",
    "parts-beyond-cells": "{beyond} of {parts} parts lie outside of what was measured",
    "negative-energy": "the law gives a negative energy here: measure cells nearer to this shape",
    "negative-time": "no time: the law gives a negative one here",
    "no-lower-limit": "no lower limit of the {quantity}: the law gives a negative one",
    "no-run-with-all-parts": "no run measured all parts and the overhead between them",
    "parts-differ": "{first} and {second} have different parts ({parts:list}): use one granularity",
    "parts-without-law": "no law of {parts:list}",
    "no-such-component": "{model} has no component of this kind, or its work cannot be counted",
    "other-models-not-used": "cells of {models:list} are not used: there are enough of {model}",
    "other-models-used": "few cells of {model}: those of {models:list} are used too",
    "one-other-model": "{model} was not measured, only {other}: "
    "errors for another model are unknown (two would show them)",
    "laws-of-other-models": "{model} was not measured: its laws are of {models:list}",
    "scaled-to-board": "energies of board {board} are scaled by {factor:number} "
    "to those of {reference} (the whole model)",
    "default-context-shortened": "no --context-length was given: {tokens:count} tokens, "
    "the most that this model has room for",
}
