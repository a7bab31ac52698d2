"""`energyscope show`: runs by path, name and prefix, terminals of two widths, pipes, JSON and NO_COLOR."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from functools import partial

import pytest
from run_builder import Shape, build_run

COLOUR = re.compile(r"\x1b\[[\d;]*3\d")
STYLE = re.compile(r"\x1b\[[\d;]*m")


@pytest.fixture
def runs(tmp_path):
    """A folder with two runs below ``runs``."""
    (tmp_path / "runs").mkdir()
    build_run(tmp_path / "runs" / "gpt2-one")
    build_run(tmp_path / "runs" / "gpt2-two")
    return tmp_path


@pytest.fixture
def show(command):
    """Return a function that calls the command in this process, as with a pipe."""
    return partial(command, "show")


def on_a_terminal(*arguments, cwd, columns, **environment):
    """Return what the command writes to a terminal of a width."""
    own, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    kept = {
        name: value for name, value in os.environ.items() if name not in {"COLUMNS", "NO_COLOR", "FORCE_COLOR"}
    }
    with subprocess.Popen(
        [sys.executable, "-m", "energyscope", "show", *arguments], cwd=cwd,
        env={**kept, "TERM": "xterm-256color", **environment}, stdin=its, stdout=its, stderr=its,
    ) as process:  # fmt: skip
        os.close(its)
        written = b""
        while True:
            try:
                more = os.read(own, 65536)
            except OSError:  # the other end is closed
                break
            if not more:
                break
            written += more
        process.wait(timeout=500)
    os.close(own)
    return written.decode()


def test_by_path_name_and_prefix(runs, show):
    """A run may be named by its path, its name, or the beginning of it; an ambiguous one is refused."""
    for reference in (str(runs / "runs" / "gpt2-one"), "gpt2-one", "gpt2-o", "runs/gpt2-one/report.html"):
        (runs / "runs" / "gpt2-one" / "report.html").touch()
        done = show(reference, "--json", cwd=runs)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["name"] == "gpt2-one"
    refused = show("gpt2", cwd=runs)
    assert refused.returncode == 1
    assert "gpt2-one, gpt2-two" in refused.stderr
    assert show("gpt2-one", "--table", "joules", cwd=runs).returncode == 2


@pytest.fixture(scope="module")
def narrow(tmp_path_factory):
    """A modelled run's folder, and what `show` writes of it to a terminal of 80 columns."""
    folder = tmp_path_factory.mktemp("modelled")
    build_run(folder / "modelled", Shape(modelled=True))
    return folder, on_a_terminal("modelled", cwd=folder, columns=80)


def fits(written, columns):
    """Check that tables are drawn and take the width, but no more."""
    lines = STYLE.sub("", written).splitlines()
    assert any("\u2500" in line for line in lines)
    assert columns - 40 < max(map(len, lines)) <= columns


def test_a_terminal_gets_tables_of_its_width(narrow):
    """On a terminal tables are drawn, no wider than it."""
    folder, written = narrow
    fits(written, 80)
    fits(on_a_terminal("modelled", cwd=folder, columns=140), 140)


def test_no_color_takes_the_colours_and_nothing_else(narrow):
    """A modelled run's warning is coloured; with NO_COLOR there is no colour, and the text is the same."""
    folder, coloured = narrow
    plain = on_a_terminal("modelled", cwd=folder, columns=80, NO_COLOR="1")
    assert "\x1b[1;33m" in coloured
    assert not COLOUR.search(plain)
    assert STYLE.sub("", plain) == STYLE.sub("", coloured)


def test_a_pipe_gets_plain_lines(runs, show):
    """In a pipe there are no escapes and no lines of boxes, and a row is a line whatever its length."""
    done = show("gpt2-one", "--table", "kinds", cwd=runs, COLUMNS="20")
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert rows[0][:2] == ["part", "energy_mj"]
    assert {"overhead", "unexplained"} <= {row[0] for row in rows}
    assert {len(row) for row in rows} == {len(rows[0])}
    assert "\x1b" not in done.stdout


def test_a_table_of_the_only_phase_needs_no_phase(runs, show):
    """GIVEN one phase THEN `blocks` is its blocks; GIVEN a slip of the pen THEN the nearest name is told."""
    assert show("gpt2-one", "--table", "blocks", cwd=runs).stdout.startswith("part\t")
    done = show("gpt2-one", "--table", "sumary", cwd=runs)
    assert done.returncode == 2
    assert "did you mean 'summary'?" in done.stderr


def test_a_pipe_marks_modelled_joules(runs, narrow, show):
    """GIVEN a modelled run in a pipe THEN every row says MODELLED; a measured run has no such column."""
    folder, _ = narrow
    names, *rows = (
        line.split("\t") for line in show("modelled", "--table", "kinds", cwd=folder).stdout.splitlines()
    )
    assert names[-1] == "meter"
    assert {row[-1] for row in rows} == {"MODELLED"}
    assert "meter" not in show("gpt2-one", "--table", "kinds", cwd=runs).stdout


def test_json_for_machines(runs, show):
    """`--json` prints the summary with the answer and names of tables, or one table's rows, with raw numbers."""
    done = show("gpt2-one", "--json", cwd=runs)
    assert done.returncode == 0, done.stderr
    everything = json.loads(done.stdout)
    assert everything["name"] == "gpt2-one"
    rows = json.loads(show("gpt2-one", "--table", "energy", "--json", cwd=runs).stdout)
    assert "energy" in everything["tables"]
    assert rows[0]["name"] == "model"
    assert rows[0]["energy_mj"]["value"] == pytest.approx(everything["energy_mj"])
