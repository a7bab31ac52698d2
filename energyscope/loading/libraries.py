"""The libraries that load and quantize models: kept silent, and named where one is missing or broken."""

from __future__ import annotations

import importlib
import logging
import warnings

from energyscope.failures import first_line
from energyscope.reasons import Reason, reason

# torchao reports kernels for GPUs that it cannot load here, and PyTorch what torchao does in ways now deprecated.
_LOUD = ("huggingface_hub", "accelerate", "bitsandbytes", "torchao", "torch.utils._pytree")


def silence_loggers() -> None:
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
    silence_loggers()
    for library in ("transformers", "bitsandbytes", "huggingface_hub"):
        warnings.filterwarnings("ignore", module=library)


def missing(module: str, install: str) -> Reason | None:
    """Return why a module cannot be imported; ``install`` is what to give to pip."""
    silence_loggers()
    package = module.partition(".")[0]
    try:
        importlib.import_module(module)
    except ModuleNotFoundError:
        return reason("package-missing", package=package, install=install)
    except Exception as error:  # noqa: BLE001  its libraries fail to load in many ways
        return reason("package-broken", package=package, error=first_line(error))
    return None
