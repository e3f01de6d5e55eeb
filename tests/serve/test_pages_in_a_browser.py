"""The pages in a real browser: they work by keyboard and on narrow screens, and no recorded script runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvicorn
from playwright.sync_api import Browser, Page, expect

from nemesis.history import APPEND, EventType, HistoryEvent
from nemesis.history.writer import HistoryWriter
from nemesis.serve.application import application
from nemesis.serve.sql import Sql
from nemesis.serve.static_folder import write_static
from tests.browser import NARROW, chromium, page
from tests.serve.stores import HOSTILE, SECOND, write_run

__all__ = ["chromium", "page"]
pytestmark = pytest.mark.slow
HOSTILE_RUN = "append/20260105T030405"
SCHEMES = ("light", "dark")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of each verdict, and one in which every text is a script."""
    root = tmp_path_factory.mktemp("serve") / "store"
    for number, verdict in enumerate(("valid", "unknown", "invalid", None), start=1):
        workload = "register" if number == 2 else "append"
        write_run(
            root / "append" / f"2026010{number}T030405",
            verdict=verdict,
            workload=workload,
            seed=number,
            started_at=f"2026-01-0{number}T03:04:05+00:00",
            versions={"commit": f"c0ffee00000{number % 2}"},
        )
    write_run(root / HOSTILE_RUN, verdict="invalid", words=HOSTILE, results={"reasons": [HOSTILE]}, workload=HOSTILE)
    (root / HOSTILE_RUN / "report.html").write_text(
        "<!doctype html><link rel='icon' href='data:,'><title>report</title><p id='told'>waiting</p><script>"
        "fetch('/').then(() => 'reached', () => 'refused').then(t => document.getElementById('told').textContent = t);"
        "</script>"
    )
    return root


@pytest.fixture(scope="module")
def address(store: Path) -> Iterator[str]:
    """The application as it is served, in a thread."""
    config = uvicorn.Config(application(store, sql=Sql(time_s=60)), port=0, log_level="error", lifespan="off")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join()


ADDRESSES = (
    "/",
    "/matrix",
    "/compare?run=append/20260101T030405&run=append/20260103T030405",
    "/runs/append/20260103T030405",
    "/history/append/20260101T030405",
    "/stories",
    "/stories/data-loss",
    "/nothing",
)


@pytest.mark.parametrize("where", ADDRESSES)
def test_pages_complain_of_nothing_and_fit(chromium: Browser, address: str, where: str) -> None:
    """Wide and narrow, light and dark: no error in the console, and nothing to scroll sideways but tables."""
    complaints: list[str] = []
    for scheme in SCHEMES:
        context = chromium.new_context(viewport=NARROW, color_scheme="dark" if scheme == "dark" else "light")
        opened = context.new_page()
        opened.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        opened.on("pageerror", lambda error: complaints.append(str(error)))
        opened.goto(address + where)
        too_wide = opened.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        context.close()
        assert too_wide <= 0
    assert [text for text in complaints if "404" not in text] == []


def test_filters_choose(page: Page, address: str) -> None:
    """The form shows the runs of a verdict, of a word, and of a commit of the trend."""
    page.goto(address)
    page.get_by_label("Verdict").select_option("invalid")
    page.get_by_role("button", name="Show").click()
    expect(page.locator("#count")).to_have_text("2 of 5 runs")
    expect(page.get_by_label("Verdict")).to_have_value("invalid")

    page.get_by_role("link", name="all runs").click()
    page.get_by_role("searchbox", name="Search").fill("register")
    page.keyboard.press("Enter")
    expect(page.locator("#count")).to_have_text("1 of 5 runs")

    page.get_by_role("link", name="all runs").click()
    page.get_by_text("Commits as a table").click()
    page.get_by_role("link", name="c0ffee000000").click()
    expect(page.locator("#count")).to_have_text("2 of 5 runs")


def test_everything_can_be_done_by_keyboard(page: Page, address: str) -> None:
    """The first key leads past the navigation; two runs are chosen and compared without a mouse."""
    page.goto(address)
    page.keyboard.press("Tab")
    expect(page.get_by_text("Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    reached: list[str] = []
    while len(reached) < 2:
        page.keyboard.press("Tab")
        kind, name = page.evaluate("[document.activeElement.type, document.activeElement.value]")
        if kind == "checkbox":
            assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
            page.keyboard.press("Space")
            reached.append(name)
    page.keyboard.press("Enter")
    page.wait_for_url("**/compare?**")
    for name in reached:
        assert page.get_by_role("link", name=name).first.is_visible()


def test_a_query_is_asked_and_answered(page: Page, address: str) -> None:
    """What is typed into the box comes back as a table, and a refusal in words."""
    page.goto(f"{address}/runs/append/20260101T030405")
    page.get_by_role("link", name="History and SQL").click()
    page.get_by_label("SQL over the tables").fill("SELECT type, count(*) AS many FROM history GROUP BY ALL")
    page.get_by_role("button", name="Run the query").click()
    expect(page.get_by_role("columnheader", name="many")).to_be_visible(timeout=60_000)
    expect(page.get_by_label("SQL over the tables")).to_contain_text("count(*)")

    page.get_by_label("SQL over the tables").fill("COPY history TO 'x'")
    page.get_by_role("button", name="Run the query").click()
    expect(page.get_by_role("alert")).to_contain_text("Only SELECT", timeout=60_000)


def test_a_recorded_script_does_not_run(page: Page, address: str) -> None:
    """On no page of the run whose every text is one; and it is there to be read."""
    for where in ("/", "/matrix", f"/runs/{HOSTILE_RUN}", f"/history/{HOSTILE_RUN}"):
        page.goto(address + where)
        page.wait_for_timeout(100)
        assert page.title() != "taken"
        assert page.locator("img").count() == 0
    expect(page.get_by_text("document.title='taken'").first).to_be_visible()


def test_a_report_cannot_ask_the_server(chromium: Browser, address: str) -> None:
    """A report's own scripts run, and what they ask of the server is refused by the browser."""
    opened = chromium.new_context().new_page()
    opened.goto(f"{address}/report/{HOSTILE_RUN}")
    expect(opened.locator("#told")).to_have_text("refused")
    assert opened.evaluate("window.origin") == "null"
    opened.context.close()


def test_a_run_is_watched_until_its_verdict(page: Page, address: str, store: Path) -> None:
    """What is recorded appears by itself, and the verdict when it is there."""
    folder = store / "append" / "20260109T030405"
    writer = HistoryWriter(folder)
    write_run(store.parent / "judged")
    (folder / "test.json").write_text((store.parent / "judged" / "test.json").read_text())
    page.goto(f"{address}/runs/append/20260109T030405")
    expect(page.get_by_role("heading", name="Running")).to_be_visible()

    for index, type_ in enumerate((EventType.INVOKE, EventType.OK)):
        writer.write(HistoryEvent(index=index, time_ns=SECOND, process=3, type=type_, f=APPEND, error=HOSTILE))
    writer.flush()
    expect(page.get_by_text("of process 3").first).to_be_visible(timeout=20_000)
    assert page.title() != "taken"

    writer.close()
    (folder / "results.json").write_text((store.parent / "judged" / "results.json").read_text())
    expect(page.get_by_role("heading", name="Valid")).to_be_visible(timeout=20_000)


def test_the_static_list_is_filtered_without_a_server(page: Page, store: Path, tmp_path: Path) -> None:
    """Opened as a file: the fields hide rows, and a link leads to a run's page with its style."""
    write_static(store, tmp_path / "pages")
    page.goto((tmp_path / "pages" / "index.html").as_uri())
    page.get_by_label("Verdict").select_option("unknown")
    expect(page.locator("#runs tbody tr:visible")).to_have_count(1)
    page.get_by_role("searchbox", name="Search").fill("nothing like it")
    expect(page.locator("#runs tbody tr:visible")).to_have_count(0)
    page.get_by_role("searchbox", name="Search").fill("")
    page.get_by_role("link", name="append/20260102T030405").click()
    expect(page.get_by_role("heading", name="Unknown")).to_be_visible()
    assert page.evaluate("document.styleSheets.length") == 1


CONTRAST = """() => {
  const parse = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((c) => c / 255)
    .map((c) => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, at) => sum + c * [0.2126, 0.7152, 0.0722][at], 0);
  const paper = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  const poor = [];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!own || !element.checkVisibility() || element.closest("svg, option, noscript, script")) continue;
    const [a, b] = [light(parse(getComputedStyle(element).color)), light(paper(element))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) poor.push(`${element.tagName}.${element.className} ${ratio.toFixed(2)}`);
  }
  return poor;
}"""


@pytest.mark.parametrize("scheme", SCHEMES)
def test_texts_stand_out(chromium: Browser, address: str, scheme: str) -> None:
    """Every text has a contrast of 4.5 to 1 at least, as WCAG's AA asks for."""
    context = chromium.new_context(color_scheme="dark" if scheme == "dark" else "light")
    opened = context.new_page()
    for where in ADDRESSES[:6]:
        opened.goto(address + where)
        assert opened.evaluate(CONTRAST) == []
    context.close()
