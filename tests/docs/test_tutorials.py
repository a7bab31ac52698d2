"""The tutorials in docs/ work line by line, and print what they show."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from docs_tutorials import Step, follow, missing, skeleton, steps

ROOT = Path(__file__).parent.parent.parent
INDEX = ROOT / "docs" / "README.md"
PAGES = sorted(path for path in (ROOT / "docs").glob("*.md") if path != INDEX)
TUTORIALS = [path for path in PAGES if steps(path.read_text(encoding="utf-8"))]  # the others run nothing


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_a_tutorial_works_line_by_line(path, tmp_path):
    """Every block exits with 0 in a fresh folder without network, and prints the lines that are shown below it."""
    (tmp_path / "reports").symlink_to(ROOT / "reports")
    for step in steps(path.read_text(encoding="utf-8")):
        status, printed = follow(step, tmp_path)
        assert status == 0, f"{step.code}\n{printed}"
        assert missing(step.shown, printed) is None, f"{step.code}\n{printed}"


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_a_tutorial_shows_what_comes_out(path):
    """Each has blocks that are run, and output beside them; each is in the index."""
    found = steps(path.read_text(encoding="utf-8"))
    assert found
    assert any(step.shown for step in found)
    assert f"({path.name})" in INDEX.read_text(encoding="utf-8")


@pytest.mark.parametrize("path", [INDEX, *TUTORIALS], ids=lambda path: path.stem)
def test_links_lead_somewhere(path):
    """Every relative link points at a file of the project."""
    links = re.findall(r"\]\((?!http)([^)#]+)\)", path.read_text(encoding="utf-8"))
    assert [link for link in links if not (path.parent / link).exists()] == []


def test_what_is_not_run_names_commands_and_options_that_exist():
    """A `console` block, which needs a GPU or a token, has no command or option that there is not."""
    import typer

    from energyscope.cli.app import app

    group = typer.main.get_command(app)
    commands = {name: group.get_command(None, name) for name in group.list_commands(None)}
    lines = [
        line
        for path in TUTORIALS
        for block in re.findall(r"```console\n(.*?)```", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        for line in block.replace("\\\n", " ").splitlines()
    ]
    found = [line.removeprefix("$ ").split() for line in lines if line.startswith("$ energyscope ")]
    assert found
    for words in found:
        known = {option for one in commands[words[1]].params for option in one.opts}
        assert {word for word in words if word.startswith("--")} <= known, words


def test_what_is_not_printed_is_found():
    """The comparison forgives numbers, units, grades, intervals and line breaks, and nothing else."""
    printed = (
        "load\nhead   4.22 mJ \u00b1 0.04   0.94 %   too noisy\n \u2500\u2500\u2500 \n"
        "overhead \u22123 \u00b5s, of\nwork"
    )
    assert missing("head 961 \u00b5J [900, 1,022] 2.0 %  B\n...\n... 7 ms, ... work\n...\n", printed) is None
    assert missing("overhead 3 s, of work", printed) is None
    assert missing("tail 4.22 mJ ...", printed) == "tail 4.22 mJ "
    assert missing("overhead ... 3 mJ", printed) == " 3 mJ"
    assert missing("overhead ... head", printed) == " head"  # order counts
    assert missing("head 4 mJ [3, 5] 1 % B overhead ... over", printed) == " over"  # whole words
    assert skeleton("total  -1.2e-05 J") == "total # J"


def test_blocks_are_taken_apart():
    """Text belongs to the block before it; what is only to be read is not run."""
    tutorial = "a\n```bash\nx\n```\nb\n```text\none\n...\n```\n```console\n$ y\n```\n```text\nz\n```\n"
    assert steps(tutorial) == [Step("bash", "x\n", "one\n...\n")]
