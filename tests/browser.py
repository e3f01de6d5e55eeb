"""A real browser for the tests of pages: Chromium without a window, driven by Playwright.

A test that opens a page asks for ``page``. It fails if the page's console shows an error, or if a script of the page
throws. Without Chromium such tests are skipped and say so.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, ViewportSize, sync_playwright

WIDE, NARROW = ViewportSize(width=1400, height=1000), ViewportSize(width=500, height=900)
"""Windows in which pages are looked at, in pixels."""


def chromium_path() -> str | None:
    """Where Chromium is on this machine; None if it is not installed."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """One browser for the tests of a module, of which none may be a coroutine: Playwright keeps an event loop going."""
    found = chromium_path()
    if found is None:
        pytest.skip("no Chromium is installed")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    """A page in a wide window, which must not complain."""
    context = chromium.new_context(viewport=WIDE)
    opened = context.new_page()
    complaints: list[str] = []
    opened.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    yield opened
    context.close()
    assert complaints == []
