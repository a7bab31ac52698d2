# ruff: noqa: INP001
"""Check what a wheel ships, inside the environment that it was installed in."""

from __future__ import annotations

import sys
import zipfile
from importlib.metadata import distribution, entry_points
from importlib.util import find_spec
from pathlib import Path

TOP_LEVEL = {"energyscope", "energyscope_adapters"}
LARGEST_BYTES = 20_000_000


def problems(wheel: Path) -> list[str]:
    """Return what is wrong with the wheel and with its installation, a sentence each."""
    names = zipfile.ZipFile(wheel).namelist()
    found = [f"ships the top-level module {name!r}" for name in sorted(_top_level(names) - TOP_LEVEL)]
    found += [f"lacks {what}" for what, prefix, suffix in _CONTENTS if not _has(names, prefix, suffix)]
    found += [f"{name!r} can be imported" for name in ("adapters", "templates") if find_spec(name) is not None]
    adapters = {point.name for point in entry_points(group="energyscope.adapters")}
    found += [f"registers no adapter {name!r}" for name in sorted({"distilbert", "gpt2", "llama"} - adapters)]
    if not entry_points(group="energyscope.models"):
        found.append("registers no short names of models")
    if wheel.stat().st_size > LARGEST_BYTES:
        found.append(f"has {wheel.stat().st_size / 1e6:.0f} MB, more than {LARGEST_BYTES / 1e6:.0f}")
    spec = find_spec("energyscope")
    if spec is None or not str(spec.origin).startswith(sys.prefix):
        found.append("is not what is imported: energyscope comes from elsewhere")
    return found


_CONTENTS = [
    ("the report's templates", "energyscope/templates/", ".j2"),
    ("tiny-distilbert", "energyscope/bundled/tiny-distilbert/", "model.safetensors"),
    ("tiny-gpt2", "energyscope/bundled/tiny-gpt2/", "model.safetensors"),
    ("tiny-llama", "energyscope/bundled/tiny-llama/", "model.safetensors"),
    ("the bundled evaluation data", "energyscope/bundled/tiny-gpt2/", "evaluation.jsonl"),
    ("energyscope.runs", "energyscope/runs/", "store.py"),
    ("an example of a GPU", "energyscope/examples/llama-1b-width-h100/", "report.html"),
    ("the licence", "energyscope_llm-", "LICENSE"),
]


def _top_level(names: list[str]) -> set[str]:
    return {top for name in names if not (top := name.split("/")[0]).endswith(".dist-info")}


def _has(names: list[str], prefix: str, suffix: str) -> bool:
    return any(name.startswith(prefix) and name.endswith(suffix) for name in names)


if __name__ == "__main__":
    complaints = problems(Path(sys.argv[1]))
    for complaint in complaints:
        sys.stderr.write(f"the wheel of {distribution('energyscope-llm').version} {complaint}\n")
    sys.exit(1 if complaints else 0)
