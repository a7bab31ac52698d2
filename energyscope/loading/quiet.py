"""Loggers of the libraries that load and quantize models, kept silent: what matters becomes our own error."""

from __future__ import annotations

import logging

# torchao reports kernels for GPUs that it cannot load here, and PyTorch what torchao does in ways now deprecated.
_LOUD = ("huggingface_hub", "accelerate", "bitsandbytes", "torchao", "torch.utils._pytree")


def quieten() -> None:
    """Keep warnings of these libraries from the terminal; to be called before they are imported."""
    for library in _LOUD:
        logging.getLogger(library).setLevel(logging.ERROR)
