"""Links, commands and options in README.md and docs/ are real."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer

from energyscope.cli.app import app

ROOT = Path(__file__).parent.parent.parent
DOCS = sorted((ROOT / "docs").glob("*.md"))
PAGES = [ROOT / "README.md", *DOCS]
LINKED = [*PAGES, *(ROOT / folder / "README.md" for folder in ("reports", "adapters"))]
GROUP = typer.main.get_command(app)
COMMANDS = {name: GROUP.get_command(None, name) for name in GROUP.list_commands(None)}
OPTIONS = {
    name: {
        option
        for each in (command, *getattr(command, "commands", {}).values())  # those within it too, as `runs rm`
        for parameter in each.params
        for option in (*parameter.opts, *parameter.secondary_opts)
    }
    | {"--help"}
    for name, command in COMMANDS.items()
}
OTHER_TOOLS = {"--nproc-per-node", "--out", "--full", "--components"}  # torchrun, tests/bench/methods.py
OTHER_TOOLS |= {
    "--interrupt_requests",
    "--port",
    "--continuous-batching",
    "--model-path",
    "--cont-batching",
    "--parallel",
}  # servers

CODE = re.compile(
    r"^```\w*\n(.*?)^```|^((?: {4}\S[^\n]*\n)+)|`((?:[^`\n]|\n(?!\n))+)`", flags=re.DOTALL | re.MULTILINE
)
CALL = re.compile(r"(?<!from )energyscope +([a-z][a-z-]*)\b([^`#|&;\n]*)")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z_-]+")


def calls(text: str) -> list[tuple[str, str]]:
    """Return each `energyscope COMMAND ...` in code blocks and spans, as the command and what follows it."""
    matches = CODE.findall(text.replace("\\\n", " "))
    code = [fenced + indented + span.replace("\n", " ") for fenced, indented, span in matches]
    return [call for one in code for call in CALL.findall(one)]


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", LINKED, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files(page):
    """Every relative link leads to a file of the project, and to a heading of it where it names one."""
    links = re.findall(r"\]\((?!http)([^)#]*)(?:#([^)]+))?\)", page.read_text(encoding="utf-8"))
    targets = [((page.parent / path).resolve() if path else page, anchor) for path, anchor in links]
    assert [path for path, _ in targets if not path.exists()] == []
    assert [(path.name, anchor) for path, anchor in targets if anchor and anchor not in anchors(path)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_exist(page):
    """Every `energyscope COMMAND` is a command, and takes the options written after it."""
    unknown = [
        (command, options)
        for command, rest in calls(page.read_text(encoding="utf-8"))
        if (options := set(OPTION.findall(rest)) - OPTIONS.get(command, set())) or command not in COMMANDS
    ]
    assert unknown == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_options_exist(page):
    """Every `--option` is one of some command, or of another tool that is named here."""
    named = set(OPTION.findall(page.read_text(encoding="utf-8")))
    assert named - set().union(*OPTIONS.values()) - OTHER_TOOLS == set()


def test_calls_are_found():
    """Blocks, spans and continued lines are read; prose and comments are not."""
    text = (
        "energyscope prose\n\n    energyscope run x \\\n        --json  # --no\n\nand `energyscope show\nRUN`.\n"
    )
    found = [(command, rest.split()) for command, rest in calls(text)]
    assert found == [("run", ["x", "--json"]), ("show", ["RUN"])]


def test_every_page_is_in_the_index():
    """docs/README.md lists every page of docs/."""
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    assert [page.name for page in DOCS if page.name != "README.md" and f"({page.name})" not in index] == []
