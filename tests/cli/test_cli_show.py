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
from run_builder import build_run


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


@pytest.mark.parametrize("columns", [80, 140])
def test_a_terminal_gets_tables_of_its_width(runs, columns):
    """On a terminal tables are drawn, no wider than it; NO_COLOR takes the colours and nothing else."""
    coloured = on_a_terminal("gpt2-one", cwd=runs, columns=columns)
    plain = on_a_terminal("gpt2-one", cwd=runs, columns=columns, NO_COLOR="1")
    colour = re.compile(r"\x1b\[[\d;]*3\d")
    style = re.compile(r"\x1b\[[\d;]*m")
    lines = style.sub("", coloured).splitlines()
    assert any("\u2500" in line for line in lines)
    assert columns - 40 < max(map(len, lines)) <= columns
    assert not colour.search(plain)
    assert style.sub("", plain) == style.sub("", coloured)


def test_colour_is_there_to_be_switched_off(tmp_path):
    """A modelled run's warning is coloured on a terminal, and not with NO_COLOR."""
    from run_builder import Shape

    build_run(tmp_path / "modelled", Shape(modelled=True))
    assert "\x1b[1;33m" in on_a_terminal("modelled", cwd=tmp_path, columns=80)
    assert "[1;33m" not in on_a_terminal("modelled", cwd=tmp_path, columns=80, NO_COLOR="1")


def test_a_pipe_gets_plain_lines(runs, show):
    """In a pipe there are no escapes and no lines of boxes, and a row is a line whatever its length."""
    done = show("gpt2-one", "--table", "kinds", cwd=runs, COLUMNS="20")
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert rows[0][:2] == ["part", "energy_mj"]
    assert {"overhead", "unexplained"} <= {row[0] for row in rows}
    assert {len(row) for row in rows} == {len(rows[0])}
    assert "\x1b" not in done.stdout


def test_json_for_machines(runs, show):
    """`--json` prints the summary with the answer and names of tables, or one table's rows, with raw numbers."""
    everything = json.loads(show("gpt2-one", "--json", cwd=runs).stdout)
    assert everything["name"] == "gpt2-one"
    rows = json.loads(show("gpt2-one", "--table", "energy", "--json", cwd=runs).stdout)
    assert "energy" in everything["tables"]
    assert rows[0]["name"] == "model"
    assert rows[0]["energy_mj"]["value"] == pytest.approx(everything["energy_mj"])
