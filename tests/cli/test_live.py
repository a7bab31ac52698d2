"""The live view on a real terminal (a pseudo one): it paints, clears up behind it, and never stands in the way."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time

import pytest

STEPS = """
import sys, time
from rich.console import Console
from energyscope.cli.progress import progress
with progress(Console(), title="a run", stages=("load", "profile", "ablate")) as report:
    report("load", "gpt2", 0, 1)
    print("a remark", file=sys.stderr)
    report("profile", "\\x1b]0;owned\\x07[bold]h.1.mlp", 1, 4)
    sys.stdin.readline()
    {then}
print("the summary")
"""
CLEARED = "\x1b[?25h"  # the cursor is shown again


class Terminal:
    """A program on a pseudo terminal of 80 columns and 24 lines."""

    def __init__(self, *arguments, **environment):
        self.text = ""
        left_out = {"NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "RANK"}
        kept = {name: value for name, value in os.environ.items() if name not in left_out}
        self.pid, self.screen = pty.fork()
        if self.pid == 0:  # pragma: no cover - the child
            os.environ.clear()
            os.environ.update({**kept, "TERM": "xterm-256color", "PYTHONIOENCODING": "utf-8", **environment})
            os.execv(sys.executable, [sys.executable, *arguments])  # noqa: S606 - on the pseudo terminal
        subprocess.run(["stty", "rows", "24", "cols", "80"], stdin=self.screen, check=True)

    def read(self, until=None, seconds=400.0):
        """Read until a text was printed, or to the end."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and (until is None or until not in self.text):
            if not select.select([self.screen], [], [], 0.2)[0]:
                continue
            try:
                self.text += os.read(self.screen, 65536).decode("utf-8", "replace")
            except OSError:  # it is over
                break
        return self.text

    def ended(self):
        """Read to the end, and return the exit code."""
        self.read()
        _, status = os.waitpid(self.pid, 0)
        return os.waitstatus_to_exitcode(status)


def stages_on(then="pass", until="h.1.mlp", **environment):
    """Return a terminal on which a step of a profile was shown, and is over now."""
    terminal = Terminal("-c", STEPS.format(then=then), **environment)
    terminal.read(until)
    os.write(terminal.screen, b"\n")
    return terminal


def test_stages_are_painted_and_cleared_away():
    """GIVEN a terminal, THEN stages and steps are painted, remarks stand above, and one line of all that stays."""
    terminal = stages_on()
    assert terminal.ended() == 0
    text = terminal.text
    assert "h.1.mlp" in text
    assert "\u25b8 profile" in text
    last = text.rpartition(CLEARED)[2]
    assert re.search(r"load \d+:\d\d, profile", last)
    assert "the summary" in last
    assert "h.1.mlp" not in last
    assert "a remark\r\n" in text


def test_a_remark_without_a_line_end_is_printed():
    """GIVEN the last text of an error stream without a line end, THEN it stands there when the picture is gone."""
    terminal = stages_on(then="sys.stderr.write('one last'); sys.stderr.flush(); sys.stderr.write(' remark')")
    assert terminal.ended() == 0
    assert "one last remark\r\n" in terminal.text


def test_names_do_nothing_to_the_terminal():
    """GIVEN a label that would set the terminal's title, THEN it is shown, brackets and all, and sets nothing."""
    terminal = stages_on()
    terminal.ended()
    assert "\x1b]" not in terminal.text
    assert "owned [bold]h.1.mlp" in terminal.text


def test_no_colour_where_none_is_wanted():
    """GIVEN NO_COLOR, THEN no colour is set, and the stages are painted as ever."""
    coloured, plain = stages_on(), stages_on(NO_COLOR="1")
    assert [coloured.ended(), plain.ended()] == [0, 0]
    assert "\x1b[36m" in coloured.text
    assert not any(f"\x1b[{code}m" in plain.text for code in range(30, 38))
    assert "\u25b8 profile" in plain.text


@pytest.mark.parametrize("environment", [{"TERM": "dumb"}, {"PYTHONIOENCODING": "ascii"}, {"RANK": "1"}])
def test_a_terminal_that_cannot_be_painted_on_gets_lines(environment):
    """GIVEN a terminal without cursor movement, without the letters, or another process's, THEN plain lines."""
    terminal = stages_on(until="4 steps", **environment)
    assert terminal.ended() == 0
    assert "\x1b" not in terminal.text
    assert "profile: 4 steps" in terminal.text


def test_an_error_leaves_a_clean_screen():
    """GIVEN an exception within a stage, THEN the cursor is back before it is told of."""
    terminal = stages_on(then="raise ValueError('broken')")
    assert terminal.ended() == 1
    before, _, after = terminal.text.rpartition(CLEARED)
    assert "ValueError" in after
    assert "ValueError" not in before


def test_a_painter_that_dies_stops_nobody():
    """GIVEN a painter that is killed, THEN the run goes on to its end, and the cursor is back."""
    kill = "import os, signal; os.kill(report._process.pid, signal.SIGKILL); report('ablate', 'x', 0, 1)"
    terminal = stages_on(then=kill + "; print('late', file=sys.stderr)")
    assert terminal.ended() == 0
    assert "the summary" in terminal.text.rpartition(CLEARED)[2]
    assert "late" in terminal.text


def test_a_terminal_that_reads_nothing_stops_nobody(tmp_path):
    """GIVEN a terminal that takes no more output, THEN ten thousand steps are told of without waiting for it."""
    told = tmp_path / "told"
    many = "[report('ablate', 'x' * 300, step, 9) for step in range(10000)]; "
    terminal = stages_on(then=many + f"open({str(told)!r}, 'w').close(); time.sleep(2)")
    deadline = time.monotonic() + 400  # nothing is read meanwhile
    while not told.exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert told.exists()
    assert terminal.ended() == 0


def test_ctrl_c_says_what_is_kept_on_a_clean_screen(tmp_path):
    """GIVEN Ctrl-C in a profile, THEN the picture is gone, one line says what is kept and how it goes on."""
    terminal = Terminal(
        "-m", "energyscope", "run", "tiny-gpt2", "--stages", "profile", "--passes", "500", "--name", "cut",
        "--root", str(tmp_path), HF_HUB_OFFLINE="1", OMP_NUM_THREADS="1",
    )  # fmt: skip
    text = terminal.read(until="Most MODELLED energy so far")
    assert "MODELLED 65.0 W, as stated" in text
    assert re.search(r" about \d+:\d\d to [\d:]+ left", text), "how long the run is expected to take"
    os.write(terminal.screen, b"\x03")
    assert terminal.ended() == 130
    last = " ".join(terminal.text.rpartition(CLEARED)[2].split())
    assert "Traceback" not in terminal.text
    assert re.search(r"load \d+:\d\d", last)
    assert re.search(r"profile interrupted after \d+:\d\d", last)
    assert "`energyscope report" in last
    assert "`energyscope run --resume" in last
    assert (tmp_path / "cut" / "per_layer_energy.csv").is_file()


def test_ctrl_c_does_not_reach_the_painter():
    """GIVEN SIGINT to all processes of the terminal, THEN the painter stays until the run is over."""
    body = "import os, signal; signal.signal(signal.SIGINT, signal.SIG_IGN); os.killpg(0, signal.SIGINT)"
    terminal = stages_on(then=body + "; report('ablate', 'still painted', 0, 1); sys.stdin.readline()")
    assert "still painted" in terminal.read(until="still painted")
    os.write(terminal.screen, b"\n")
    assert terminal.ended() == 0
