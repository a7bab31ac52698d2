"""Follow a tutorial as a newcomer does: its blocks in order, in one folder, on a terminal of 80 columns.

``bash`` and ``python`` blocks are run; a ``text`` block is what the block before it prints, ``...`` in it what is
not shown; anything else (``console``) is only to be read. Both are compared as `skeleton` leaves them: without
numbers, scales of units, grades, intervals, box lines and line breaks.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from dataclasses import dataclass
from pathlib import Path

RUN = ("bash", "python")
COLUMNS = 80
_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)
_STYLE = re.compile(r"\x1b\[[\d;?]*[A-Za-z]")


@dataclass
class Step:
    """A block that is run, and what is shown of its output."""

    language: str
    code: str
    shown: str = ""


def steps(tutorial: str) -> list[Step]:
    """Return a tutorial's blocks that are run, with what is shown of their output."""
    blocks: list[Step] = []
    after_a_run = False
    for language, body in _FENCE.findall(tutorial):
        if language in RUN:
            blocks.append(Step(language, body))
        elif language == "text" and after_a_run:
            blocks[-1].shown = body
        after_a_run = language in RUN
    return blocks


def follow(step: Step, folder: Path) -> tuple[int, str]:
    """Run a block in a folder; return its exit status and what a terminal of 80 columns got."""
    kept = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "FORCE_COLOR"}}
    environment = {
        **kept, "HF_HUB_OFFLINE": "1", "NO_COLOR": "1", "TERM": "dumb",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }  # fmt: skip
    command = ["bash", "-euo", "pipefail", "-c", step.code]
    if step.language == "python":
        command = [sys.executable, "-c", step.code]
    own, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
    with subprocess.Popen(command, cwd=folder, env=environment, stdin=its, stdout=its, stderr=its) as process:
        os.close(its)
        written = bytearray()
        while more := _read(own):
            written += more
    os.close(own)
    return process.returncode, _STYLE.sub("", written.decode().replace("\r\n", "\n"))


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # nobody writes to it any more
        return b""


def missing(shown: str, printed: str) -> str | None:
    """Return the first stretch between two ``...`` that was not printed after those before it, if any."""
    output, position = f" {skeleton(printed)} ", 0
    for stretch in shown.split("..."):
        words = f" {skeleton(stretch)} " if stretch.strip() else " "
        start = output.find(words, position)
        if start < 0:
            return stretch
        position = start + len(words) - 1
    return None


def skeleton(text: str) -> str:
    """Return a text without what differs from one machine or minute to the next."""
    text = re.sub(r"(?:[-+\u2212\u00d7] ?)?\d(?:[\d,.]*\d)?(?:e[-+]?\d+)?", "#", text)
    text = re.sub(r" ?(\u00b1 ?#|\[#, #\])", "", text)
    text = re.sub(r"# (p|n|\u00b5|m|k|M|G)?(s|J|W|GB|MB|FLOP)\b", r"# \2", text)
    text = re.sub(r"(?:\bgrade )?(?<![\w#])(?:A|B|C|invalid|too noisy)(?!\w)", "grade", text)
    return " ".join(re.sub(r"[\u2500\u2501]+", " ", text).split())
