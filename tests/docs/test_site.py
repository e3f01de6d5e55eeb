"""The documentation's site: it is built without a warning, needs no network, and no browser complains of it."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from itertools import islice
from pathlib import Path

import pytest
from playwright.sync_api import Page

from docs.reference import commands
from docs.reference.pages import PAGES
from tests.browser import NARROW, chromium, page
from tests.depth import is_night

__all__ = ["chromium", "page"]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Path:
    """The site, built as ``make docs`` builds it."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=pytestconfig.rootpath, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


class Loaded(HTMLParser):
    """Collects what a page loads by itself: scripts, styles, fonts and pictures."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Look at one element."""
        given = dict(attrs)
        source = given.get("href") if tag == "link" and given.get("rel") != "canonical" else given.get("src")
        if source is not None:
            self.addresses.append(source)


def pages_of(site: Path) -> Iterator[Path]:
    """Every page of the site."""
    yield from (path for path in sorted(site.rglob("*.html")) if path.name != "404.html")


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    """Scripts, styles, fonts and pictures lie in the site, and each of them is there."""
    for path in pages_of(site):
        loaded = Loaded()
        loaded.feed(path.read_text(encoding="utf-8"))
        assert [each for each in loaded.addresses if re.match(r"(https?:)?//", each)] == []
        assert [each for each in loaded.addresses if not (path.parent / each.partition("?")[0]).exists()] == []


def test_a_browser_complains_of_no_page(site: Path, page: Page) -> None:
    """No page has an error in its console, from a folder and in a narrow window too, and each has its heading.

    Half a second of the processor goes into each: before a commit every eighth is looked at, at night all are.
    """
    for path in islice(pages_of(site), 0, None, 1 if is_night() else 8):
        page.goto(path.as_uri())
        assert page.locator("h1").first.is_visible(), path.name
    page.set_viewport_size(NARROW)
    page.goto((site / "index.html").as_uri())
    assert page.locator("h1").first.is_visible()


def test_every_command_is_found_from_the_start(site: Path, page: Page) -> None:
    """From the first page two clicks lead to a page with a heading for each command."""
    page.goto((site / "index.html").as_uri())
    page.get_by_role("link", name="Reference").first.click()
    page.get_by_role("link", name="Command nemesis").first.click()
    page.wait_for_selector("#exit-codes")
    headings = [text.removesuffix("¶").strip() for text in page.locator("h2").all_inner_texts()]
    expected = [path for path, _ in commands.commands_of("nemesis") if path != "nemesis"]
    assert headings == [*expected, "Exit codes"]


def test_a_search_finds_a_fault(site: Path, page: Page) -> None:
    """A word leads to a page that has it, from a folder, where browsers refuse workers."""
    page.goto((site / "index.html").as_uri())
    page.locator("input.md-search__input").first.click()
    page.keyboard.type("egress-corrupt")
    page.wait_for_selector(".md-search-result__item")
    assert "Faults" in page.locator(".md-search-result__list").inner_text()


def test_the_reference_is_in_the_site(site: Path) -> None:
    """Each page that is written from the code is there, in the list of them too, and the code that writes it is not."""
    listed = (
        (site / "reference" / "index.html").read_text(encoding="utf-8").partition("<table")[2].partition("</table")[0]
    )
    assert [name for name in PAGES if f'href="{name.removesuffix(".md")}.html"' not in listed] == []
    assert [name for name in PAGES if not (site / "reference" / name).with_suffix(".html").exists()] == []
    assert list(site.rglob("*.py")) == []


def test_pages_that_lie_above_are_in_the_site(site: Path) -> None:
    """How to contribute and to report are pages, linked from the first one, and lead to pages as on GitHub."""
    start = (site / "index.html").read_text(encoding="utf-8").partition("<article")[2]
    contributing = (site / "contributing.html").read_text(encoding="utf-8").partition("<article")[2]
    for text, targets in (
        (start, {"contributing.html", "security.html"}),
        (
            contributing,
            {"add-a-fault.html", "architecture.html#who-may-import-whom", "security.html", "releasing.html"},
        ),
    ):
        assert {each for each in re.findall(r'href="([^"]+)"', text) if each in targets} == targets
    assert "CHANGELOG.md" in contributing
    assert 'CHANGELOG.md"' not in contributing
