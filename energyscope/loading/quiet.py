"""Loggers of the libraries that load and quantize models, kept silent: what matters becomes our own error."""

from __future__ import annotations

import logging
import warnings

# torchao reports kernels for GPUs that it cannot load here, and PyTorch what torchao does in ways now deprecated.
_LOUD = ("huggingface_hub", "accelerate", "bitsandbytes", "torchao", "torch.utils._pytree")


def quieten() -> None:
    """Keep warnings of these libraries from the terminal; to be called before they are imported."""
    for library in _LOUD:
        logging.getLogger(library).setLevel(logging.ERROR)


def silence_libraries() -> None:
    """Keep progress bars and advice of the libraries out of our output; what matters becomes our own error."""
    from huggingface_hub.utils import disable_progress_bars  # type: ignore[attr-defined]
    from transformers.utils import logging as transformers_logging

    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    disable_progress_bars()
    quieten()
    for library in ("transformers", "bitsandbytes", "huggingface_hub"):
        warnings.filterwarnings("ignore", module=library)
