"""The words of reasons about benchmarks and about alternatives to a run's own setting."""

from __future__ import annotations

WORDS: dict[str, str] = {
    # what can be measured, of both
    "measurement-failed": "{error}",
    "no-memory-left": "the device has no memory left for it",
    # the benchmark
    "models-loaded-in-turn": "the models may not fit in memory together: each is loaded again for each block; "
    "KL divergence and agreement are unknown",
    "no-batch-fits": "not even a batch of one fits in memory",
    "smaller-batch-measured": "{precision} {batch_size} x {tokens} does not fit in memory: "
    "a batch of {measured} was measured instead",
    "no-smaller-batch-fits": "{precision} {batch_size} x {tokens} does not fit in memory, "
    "nor does any smaller batch",
    "predictions-not-judged": "{precision}: predictions are not judged: {why:reason}",
    "trial-failed": "{precision} {batch_size} x {tokens}, trial {trial} has no row: {why:reason}",
    "short-warm-up": "{precision} {batch_size} x {tokens}: "
    "{passes} of {asked} warm-up passes fitted into the time of a trial",
    "unstable-latency": "the latency was not stable after the warm-up of {unstable} of {trials:count trial}",
    # alternatives
    "largest-size-that-fits": "the device has no memory left for it; {largest:count} fits",
    "base-not-measured": "the run's own setting of this phase could not be measured",
    "beyond-time-budget": "it takes about {needed_s:in s}, and {left_s:in s} are left of {budget_s:in s}",
    "passes-cut": "{passes} of {planned} passes fitted into the time",
    "context-beyond-positions": "a context must be shorter than the model's {positions:count} positions",
    "model-in-pieces": "the model is on several devices or offloaded: a step cannot be captured in one piece",
    "cuda-graph-needs-gpu": "CUDA graphs need an NVIDIA GPU",
    "compiles-decode-only": "transformers compiles decode steps only, since every prompt has another length",
    "compiled-in-parts": "torch.compile broke the step into {parts} parts",
    "lookup-random-weights": "what prompt lookup saves depends on the text that the model writes, "
    "and random weights write none",
    "lookup-beside-an-encoder": "prompt lookup is for models without an encoder here",
    "lookup-carries-states": "the model carries states from token to token, "
    "and cannot take back what was proposed",
    "lookup-without-text": "what prompt lookup saves depends on the text, and there is no evaluation data",
    "lookup-of-one-sequence": "prompt lookup is for one sequence, where weights are read for every token",
    "lookup-little-context": "a context of {tokens:count token} is too short to look anything up",
    "lookup-little-text": "the evaluation data has {tokens:count token}, "
    "and prompt lookup takes {needed:count} to be judged",
    "lookup-other-text": "with prompt lookup {texts:count text} of {of} differ from those without it, "
    "by more than rounding explains (logits {gap:number} apart)",
    "lookup-on-this-data": "prompt lookup: accepted tokens are counted while the model continues texts of the "
    "evaluation data greedily, and depend on them; looking them up is in no number of a step",
    "static-cache-of-context": "CUDA-graph and compiled steps use a static KV cache as long as the context; "
    "a longer one costs more",
    "compile-default-mode": "compiled steps use torch.compile in its default mode, without CUDA graphs",
}
