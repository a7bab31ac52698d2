"""Pages in a real browser: it is started once a module, and a page says what went wrong in it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PATIENCE_MS = 300_000  # a busy machine is slow; what never comes fails all the same
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
# How many words of a page are seen: not those of tables, charts and what is folded.
WORDS = """() => {
  const silent = new Set(["SCRIPT", "STYLE", "TABLE", "svg", "NOSCRIPT"]);
  const count = (node) => {
    if (node.nodeType === 3) return (node.textContent.match(/\\S+/g) || []).length;
    if (node.nodeType !== 1 || silent.has(node.tagName) || node.matches(".hidden, .skip, [data-chart]")) return 0;
    if (!node.checkVisibility()) return 0;
    const parts = node.tagName === "DETAILS" && !node.open ? [node.querySelector("summary")] : node.childNodes;
    return Array.from(parts).reduce((sum, part) => sum + count(part), 0);
  };
  return count(document.body);
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A headless Chromium; CI must have one."""
    playwright = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None and os.environ.get("CI"):
        pytest.fail("no chromium: CI must have installed it")
    if CHROMIUM is None:
        pytest.skip("needs chromium: apt-get install chromium, or another Chrome on the PATH")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield opened
        opened.close()


def opened(browser: Browser, file: Path, **context: Any) -> tuple[Page, list[str]]:
    """Open a file and return the page with what goes wrong in it: messages, errors, requests to anything else."""
    page = browser.new_page(**context)
    page.set_default_timeout(PATIENCE_MS)
    wrong: list[str] = []
    page.on("console", lambda message: wrong.append(f"console {message.type}: {message.text}"))
    page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
    page.on(
        "request",
        lambda request: wrong.append(f"request: {request.url}") if request.url != file.as_uri() else None,
    )
    page.goto(file.as_uri())
    return page, wrong


def until(page: Page, holds: Callable[[], bool], seconds: float = 60.0) -> None:
    """Ask again and again until something holds, for so long at most: what is checked next says what does not."""
    for _ in range(int(seconds * 20)):
        if holds():
            return
        page.wait_for_timeout(50)


def settled(page: Page, seconds: float = 300.0) -> None:
    """Wait until every chart that is not folded away is drawn; the page forbids eval, so keep asking."""
    waiting = (
        "[...document.querySelectorAll('[data-chart]')].some(one => one.checkVisibility() && !one.dataset.drawn"
        " && !one.classList.contains('failed'))"
    )
    for _ in range(int(seconds * 20)):
        if not page.evaluate(waiting):
            return
        page.wait_for_timeout(50)
    pytest.fail(f"charts were not drawn within {seconds:g} s")


def unfold(page: Page) -> None:
    """Open everything that is folded, and wait for the charts in it."""
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    settled(page)
