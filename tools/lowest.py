"""Install the lowest version of each direct dependency that pyproject.toml allows, and use the project with them.

    python tools/lowest.py            # in a temporary environment, a few minutes (`make lowest`)
    python tools/lowest.py --print    # the constraints alone

torch is the one of constraints.txt: an older one would be gigabytes of libraries for GPUs. What the dependencies
need themselves is as new as they let it be. The commands are the demo's, shortened, then a generation, which keeps
states of its model, and the checks of two adapters; none of them reaches for the network.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import tomllib
import venv
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
AS_KNOWN = ("torch",)
EXTRAS = ("datasets", "images", "slurm", "torchao")
SHORT = ("--granularity", "coarse", "--passes", "3", "--max-examples", "32", "--device", "cpu")
COMMANDS = (
    ("--help",),
    ("run", "--help"),
    ("run", "tiny-gpt2", *SHORT, "--name", "demo"),
    ("show", "demo"),
    ("run", "tiny-llama", *SHORT, "--phase", "both", "--context-length", "32", "--name", "generation"),
    ("check-adapter", "gpt2"),
    ("check-adapter", "llama"),
)


def main() -> None:
    """Print the constraints, or try them."""
    lines = lowest_versions(ROOT)
    print("\n".join(lines))
    if "--print" in sys.argv[1:]:
        return
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        programs = install(Path(folder), lines)
        for command in COMMANDS:
            use(programs / "energyscope", command, Path(folder))
        for name in ("demo", "generation"):
            if not (Path(folder) / "runs" / name / "report.html").is_file():
                sys.exit(f"the run {name!r} left no report")
    print(f"the lowest versions work ({time.monotonic() - begin:.0f} s)")


def lowest_versions(root: Path) -> list[str]:
    """Return a constraint for each dependency of the project in a folder, those of its extras included."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [text for texts in project["optional-dependencies"].values() for text in texts]
    known = dict(_known_versions(root))
    lines = []
    for requirement in map(Requirement, [*project["dependencies"], *extras]):
        name = requirement.name
        lines.append(f"{name}=={known[name] if name in AS_KNOWN else lower_bound(requirement)}")
    return sorted(set(lines))


def lower_bound(requirement: Requirement) -> str:
    """Return the version after `>=`.

    Raises:
        ValueError: the requirement has none.

    """
    for part in requirement.specifier:
        if part.operator == ">=":
            return part.version
    raise ValueError(f"{requirement} has no lower bound")


def _known_versions(root: Path) -> Iterator[tuple[str, str]]:
    for line in (root / "constraints.txt").read_text(encoding="utf-8").splitlines():
        name, pinned, version = line.partition("==")
        if pinned:
            yield name, version


def install(folder: Path, constraints: list[str]) -> Path:
    """Install the project with its extras into a new environment in a folder; return where its programs are."""
    listed = folder / "lowest.txt"
    listed.write_text("\n".join(constraints) + "\n", encoding="utf-8")
    venv.create(folder / "venv", symlinks=True)
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "venv"), "--quiet"]
    _run([*pip, "install", "-c", str(listed), f"{ROOT}[{','.join(EXTRAS)}]"], folder)
    _run([*pip, "check"], folder)
    return folder / "venv" / "bin"


def use(program: Path, words: tuple[str, ...], folder: Path) -> None:
    """Run a command of the project there, without the network, and say how long it took."""
    begin = time.monotonic()
    _run([str(program), *words], folder)
    print(f"energyscope {' '.join(words)}: {time.monotonic() - begin:.0f} s", flush=True)


def _run(command: list[str], folder: Path) -> None:
    """Run a command; end with all that it said if it fails."""
    environment = os.environ | {"HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{done.stdout}{done.stderr}{' '.join(command)} failed")


if __name__ == "__main__":
    main()
