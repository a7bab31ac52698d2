"""Runs on data-centre GPUs that ship with energyscope, to be read offline."""

from __future__ import annotations

from pathlib import Path

from energyscope.errors import RunError, UsageError, did_you_mean

EXAMPLES = {
    "llama-1b-width-h100": "decoding with a CUDA graph, on an H100; its plan in INT4",
    "llama-3.2-1b-generation-h200": "a whole generation, eager, on an H200; random weights",
}


def is_example(path: Path) -> bool:
    """Tell whether a directory is one of the examples."""
    return path.name in EXAMPLES and path.resolve() == example(path.name)


def example(name: str) -> Path:
    """Return the directory of an example: inside the installed package, else in the checkout's ``reports``.

    Raises:
        UsageError: there is no example of this name.
        RunError: the installation lacks its files.

    """
    if name not in EXAMPLES:
        raise UsageError(f"no example is called {name!r}{did_you_mean(name, list(EXAMPLES))}")
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "examples", package.parent / "reports"):
        if (folder / name / "run.json").is_file():
            return folder / name
    raise RunError(f"the files of the example {name} are missing beside {package}: install energyscope-llm again")
