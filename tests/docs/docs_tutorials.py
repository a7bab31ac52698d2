"""Follow a tutorial as a newcomer does: its blocks in order, in one folder, on a terminal of 80 columns.

``bash`` and ``python`` blocks are run; a ``text`` block is what the block before it prints, the lines that are
worth showing; anything else (``console``) is only to be read. Shown lines are compared with what comes out as
`skeleton` leaves them: without numbers, scales of units, grades, box lines and spaces. Within a shown line ``...``
stands for anything; a line of it alone, for lines that are not shown.
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
from dataclasses import dataclass, field
from pathlib import Path

RUN = ("bash", "python")
COLUMNS = 80
_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)
_STYLE = re.compile(r"\x1b\[[\d;?]*[A-Za-z]")


@dataclass
class Step:
    """A block that is run, and the lines that its output must have."""

    language: str
    code: str
    shown: list[str] = field(default_factory=list)


def steps(tutorial: str) -> list[Step]:
    """Return a tutorial's blocks that are run, with what is shown of their output."""
    found: list[Step] = []
    after_a_run = False
    for language, body in _FENCE.findall(tutorial):
        if language in RUN:
            found.append(Step(language, body))
        elif language == "text" and after_a_run:
            found[-1].shown = [line for line in body.splitlines() if line.strip(" .")]
        after_a_run = language in RUN
    return found


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


def missing(shown: list[str], printed: str) -> list[str]:
    """Return the shown lines that nothing like was printed."""
    lines = [skeleton(line) for line in printed.splitlines()]
    return [line for line in shown if not any(_pattern(line).fullmatch(one) for one in lines)]


def _pattern(shown: str) -> re.Pattern[str]:
    parts = [re.escape(skeleton(part)) for part in shown.split("...")]
    return re.compile(r"\s*.*\s*".join(parts))


def skeleton(line: str) -> str:
    """Return a line without what differs from one machine or minute to the next."""
    line = re.sub(r"(?:[-+\u00d7] ?)?\d(?:[\d,.]*\d)?(?:e[-+]?\d+)?", "#", line)
    line = re.sub(r"# (p|n|\u00b5|m|k|M|G)?(s|J|W|GB|MB)\b", r"# \2", line)
    line = re.sub(r"(?<![\w#])(A|B|C|invalid)(?![\w])", "grade", line)
    return " ".join(re.sub(r"[\u2500\u2501]+", " ", line).split())
