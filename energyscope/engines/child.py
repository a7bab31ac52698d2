"""`python -m energyscope.engines.child PARENT run ...`: the command line, which stops when its parent is gone.

A worker that is killed cannot stop the run that it started; the kernel does (Linux).
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

SET_PARENT_DEATH_SIGNAL = 1  # of prctl(2)


def main() -> None:
    """Tie this process to its parent, and run the command line with the other words."""
    parent = int(sys.argv.pop(1))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(SET_PARENT_DEATH_SIGNAL, signal.SIGTERM)
    if os.getppid() != parent:  # gone before it could be tied
        sys.exit(1)
    from energyscope.cli import main as command_line

    command_line()


if __name__ == "__main__":
    main()
