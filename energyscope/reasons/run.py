"""The words of reasons about runs: their stages, the loading of models, evaluation data, and sweeps."""

from __future__ import annotations

WORDS: dict[str, str] = {
    # why a stage was skipped, or how it ended
    "cannot-draw": "{packages:list} not installed here: `energyscope report` renders it elsewhere",
    "failed": "{error}",
    "generates-no-text": "the model generates no text",
    "decodes-beside-an-encoder": "generations were traced of models without an encoder only",  # in older runs
    "maybe-running": "unclear whether the run was in progress when this page was made, at {at}",
    "no-evaluation-data": "no evaluation data: {error}",
    "not-asked-for": "not asked for",
    "no-pass-timed": "no pass over the data was timed, for which a dry run loads only small models on the CPU "
    "whose files and data are here",
    "plan-sets-its-work": "what a plan tries next depends on what it found; its replays alone are estimated above",
    "not-split": "not done with --tensor-parallel: run it without torchrun",
    "nothing-to-relate": "no {missing} was measured: there is nothing to relate",
    "offloaded-model": "part of the model waits in host memory; a pass takes as long as copying it",
    "one-pass": "one forward pass is explained, not a generation: use --phase both",
    "reads-no-text": "the model reads no text",
    "random-weights": "random weights: impact on meaningless predictions says nothing",
    "run-resumed": "taken up again at {at}: {stages:list}",
    "spread-model": "the model is spread over several devices; precisions are compared on one: "
    "use energyscope benchmark",
    "still-running": "the run was in progress when this page was made, at {at}",
    "stopped-by-user": "stopped by the user",
    "too-few-positions": "prompt and new tokens are {tokens}, but the model has {positions} positions, "
    "{left} of them after the prompt",
    # what changed in the method between two runs
    "graph-masks": "prefills in CUDA graphs were replayed with attention masks that the model has no use for",
    "methods-differ": "{first} against {second} ({changes:reason})",
    # what to know of a model as it was loaded
    "found-by-structure": "no adapter for '{model_type}': components were found by structure (auto)",
    "structure-asked-for": "components were found by structure (--adapter auto)",
    "autocast-weights": "weights are kept in FP32 and cast to FP16 in every pass",
    "double-quant-undone": "double quantization saves nothing in {layers:count layer}: "
    "bitsandbytes repacks their weights for this processor",
    "int8-dynamic": "{layers:count linear layer} in INT8 ({engine}): weights by row, "
    "{bits}-bit activations by {per}; the rest in FP32",
    "int8-static": "{layers:count linear layer} in INT8: weights by row, {bits}-bit activations by layer, "
    "calibrated on evaluation data (batches: {batches}); the rest in FP32",
    "not-its-kernels": "{layers} of {total} layers multiply in PyTorch: bitsandbytes' {precision} kernels are "
    "wrong on this {device} for {inputs:list} inputs (error {error:number}); time and energy are not theirs",
    "plain-shares": "shares are plain tensors: transformers' wrapping of them at every call is not measured",
    "split-over-processes": "split over {processes} processes: energy is summed over their devices; "
    "work, bytes and parameters are one process's",
    "size-not-quantized": "{layers} of {total} linears stay unquantized: {precision} kernels do not take their "
    "sizes (first {first})",
    "unquantized-dtype": "what is not quantized is kept and computed in {dtype}",
    "waiting-modules": "in host memory, and copied to {device} in every pass: {names:list 3}; "
    "the host's energy is not in these joules",
    # why a precision cannot be had on a device
    "autocast-fails": "torch.autocast fails on {device} ({error})",
    "autocast-without-fp16": "torch {version} does not cast to float16 on {device}",
    "kernel-fails": "{precision} was tried and failed: {error}",
    "gpu-too-old": "{gpu} is too old for {what} (compute capability {has}, needed {needed})",
    "no-dynamic-int8": "torch {version} no longer has dynamic INT8 (torch.ao.quantization.quantize_dynamic)",
    "no-int8-kernels": "this torch was built without INT8 kernels for this processor",
    "package-broken": "{package} cannot be imported ({error}): pip install -U {package}",
    "package-missing": "{package} is not installed: pip install {install}",
    "torchao-for-compile": "torchao's INT8 on {device} needs torch.compile: in eager mode every input is copied "
    "to the host",
    "torchao-too-old": "this torchao has no static INT8: pip install -U torchao",
    # why there is no tokenizer
    "no-model-files": "random weights were built without files",
    "no-tokenizer": "{folder} holds no tokenizer",
    "tokenizer-unreadable": "the tokenizer in {folder} cannot be read: {error}",
    # what to know of the evaluation data
    "blank-rows": "{rows:count blank row} left out",
    "cut-texts": "{texts} of {total} texts were cut at {tokens} tokens",
    "data-not-read": "--data {data} was not read: {why:reason}",
    "fewer-examples": "{size} is {wanted} examples, but the data hold only {found}: all of them are in the set",
    "prepared-set": "read from the prepared set {folder}, tokenized for {model}",
    "rare-words-replaced": "rare words are <unk> in this file; published perplexities usually use wiki.test.raw",
    "running-text": "running text in windows of {tokens} tokens, {stride} apart; "
    "only tokens beyond the window before count",
    "single-token-texts": "{texts} of {total} texts left out: fewer than two tokens leave nothing to predict",
    "tokens-not-checked": "unknown whether these are {model}'s own tokens: {why:reason}; vocabulary sizes agree",
}
