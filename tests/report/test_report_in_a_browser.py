"""The report in a browser: what is drawn can be found, filtered and followed, by hand and by keyboard."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import Page, expect

from nemesis.history import APPEND, POLL, EventType, PolledRecord
from nemesis.report import write_report
from tests.browser import NARROW, chromium, page

if TYPE_CHECKING:
    from tests.report.conftest import RunFolder

__all__ = ["chromium", "page"]
pytestmark = pytest.mark.slow

HOSTILE = "</script><script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>"
FINDS_OVERLAPS = """(selector) => {
  const shown = [...document.querySelectorAll(selector)].filter((one) => !one.hidden);
  const boxes = shown.map((one) => one.getBoundingClientRect());
  const before = (end, begin) => end <= begin + 0.5;
  const beside = (a, b) => before(a.right, b.left) || before(b.right, a.left);
  const apart = (a, b) => beside(a, b) || before(a.bottom, b.top) || before(b.bottom, a.top);
  const pairs = boxes.flatMap((a, at) => boxes.slice(at + 1).map((b) => apart(a, b)));
  return [boxes.length, pairs.filter((isApart) => !isApart).length];
}"""
CONTRASTS = """() => {
  const light = (text) => {
    const parts = text.match(/[\\d.]+/g).slice(0, 3).map((part) => Number(part) / 255);
    const [r, g, b] = parts.map((part) => (part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (one) => {
    for (let at = one; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if (!/, 0\\)$|transparent/.test(colour)) return colour;
    }
    return getComputedStyle(document.body).backgroundColor;
  };
  const found = [];
  for (const one of document.querySelectorAll("body *")) {
    const isText = [...one.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!isText || !one.checkVisibility() || ["SCRIPT", "NOSCRIPT", "OPTION"].includes(one.tagName)) continue;
    const [a, b] = [light(getComputedStyle(one).color), light(ground(one))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) found.push(`${one.tagName}.${one.className} ${one.textContent.trim()} ${ratio.toFixed(2)}`);
  }
  return found;
}"""


def anomaly(kind: str, *indexes: int, **fields: Any) -> dict[str, Any]:
    return {"anomaly": kind, "severity": "violation", "topic_partition": "log-0", "op_indexes": [*indexes], **fields}


@pytest.fixture
def broken_run(busy_run: Callable[[], RunFolder]) -> Path:
    """A run with 21 anomalies of three kinds, of which one no operation shows."""
    rows = [anomaly("lost-write", 40 + 2 * number, detail=f"value {number} is gone") for number in range(12)]
    rows += [anomaly("stale-read", 900 + number, detail="too old") for number in range(8)]
    rows.append(anomaly("diverged-log", offsets=[2], detail="two records at one offset"))
    return busy_run().write(verdict="invalid", anomalies=rows)


def opened(page: Page, folder: Path, anchor: str = "") -> None:
    """Write the report of a run and open it there."""
    page.goto(f"{write_report(folder).resolve().as_uri()}{anchor}")


def left(page: Page) -> str:
    """What the page says of how many operations the filters leave."""
    return page.locator("#left").inner_text()


def test_a_mark_leads_to_its_card_and_back(page: Page, broken_run: Path) -> None:
    """Each anomaly has a mark on the chart; it opens the fold in which the card is, and the card's link returns."""
    opened(page, broken_run)
    shown = page.locator("article.anomaly").count()
    assert page.locator("a.mark:visible").count() == shown == 8 + 8 + 1
    folded = page.locator("details article.anomaly").first.get_attribute("id") or ""
    number = folded.removeprefix("anomaly-")
    expect(page.locator(f"#{folded}")).to_be_hidden()
    page.locator(f"#mark-{number}").click()
    expect(page.locator(f"#{folded}")).to_be_in_viewport()
    expect(page.locator(f"#{folded}")).to_be_focused()
    page.locator(f"#{folded} a[href='#mark-{number}']").click()
    expect(page.locator(f"#mark-{number}")).to_be_in_viewport()
    expect(page.locator(f"#mark-{number}")).to_be_focused()
    assert page.locator("a.mark[aria-current=true]").all_inner_texts() == [number]


def test_a_mark_can_be_followed_by_keyboard(page: Page, broken_run: Path) -> None:
    """Enter on a mark goes to its card, and on the card's link back; a mark tells what it is when it has the focus."""
    opened(page, broken_run)
    page.locator("#mark-1").focus()
    expect(page.locator("#tip")).to_contain_text("lost-write in log-0")
    page.keyboard.press("Enter")
    expect(page.locator("#anomaly-1")).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("#mark-1")).to_be_focused()


def test_the_card_of_an_address_is_shown(page: Page, broken_run: Path) -> None:
    """Somebody who was sent a link to a folded card sees it."""
    opened(page, broken_run, "#anomaly-7")
    expect(page.locator("#anomaly-7")).to_be_in_viewport()


def test_a_mark_outside_the_shown_time_is_found_all_the_same(page: Page, broken_run: Path) -> None:
    """What is zoomed out of sight has no mark; the way from its card shows the whole run again."""
    opened(page, broken_run)
    page.locator("#from").fill("20")
    page.locator("#from").press("Enter")
    expect(page.locator("#mark-1")).to_be_hidden()
    page.locator("#anomaly-1 a[href='#mark-1']").click()
    expect(page.locator("#mark-1")).to_be_focused()
    assert page.locator("#from").input_value() == "0.00"


def test_filters_leave_what_they_say(page: Page, run_folder: RunFolder) -> None:
    """Each filter alone, two together, and the search leave the operations that match, as the table lists them."""
    for number in range(30):
        f, ok = (APPEND, EventType.OK) if number % 3 else (POLL, EventType.FAIL)
        error = None if number % 3 else "cut off"
        run_folder.operation(number, number + 0.5, f, ok, process=number % 5, value=1000 + number, error=error)
    run_folder.event(40, EventType.INVOKE, APPEND, 7, value=7, topic_partition="log-1")
    opened(page, run_folder.write(verdict="valid"))
    page.locator("#list summary").click()
    rows = page.locator("#rows tr")
    for choices, number in (
        ({"f": "append"}, 21),
        ({"outcome": "fail"}, 10),
        ({"outcome": "info"}, 1),
        ({"process": "3"}, 6),
        ({"key": "log-1"}, 1),
        ({"f": "poll", "process": "0"}, 2),
    ):
        for name, choice in choices.items():
            page.locator(f"#{name}").select_option(choice)
        expect(rows).to_have_count(number)
        assert left(page) == f"{number} of 31 drawn operations"
        page.get_by_role("button", name="Clear").click()
        expect(rows).to_have_count(31)
    for words, number in (("1017", 1), ("cut poll", 10), ("CUT off 1003", 1), ("nothing at all", 0)):
        page.locator("#words").fill(words)
        expect(rows).to_have_count(number)
    page.get_by_role("button", name="Clear").click()
    expect(rows).to_have_count(31)
    page.locator("#to").fill("9.9")
    page.locator("#to").press("Enter")
    expect(rows).to_have_count(10)


def test_an_operation_says_what_it_is(page: Page, run_folder: RunFolder) -> None:
    """By keyboard and by pointer: process, function, partition, value, outcome, offset, and the anomaly it is of."""
    run_folder.operation(1, 1.25, process=3, value=77, offset=5)
    run_folder.operation(2, 2.5, POLL, process=4, records=(PolledRecord(offset=5, value=78),))
    opened(page, run_folder.write(verdict="invalid", anomalies=[anomaly("lost-write", 0)]))
    page.locator("#plots").focus()
    page.keyboard.press("ArrowRight")
    tip = page.locator("#tip")
    for words in ("process 3: append 77, ok", "log-0, offset 5", "250.00 ms", "of anomaly 1"):
        expect(tip).to_contain_text(words)
    page.keyboard.press("ArrowRight")
    expect(tip).to_contain_text("process 4: poll 78@5, ok")
    place = tip.evaluate("(one) => [parseFloat(one.style.left), parseFloat(one.style.top) - 14]")
    page.keyboard.press("Escape")
    expect(tip).to_be_hidden()
    page.locator("#plots").hover(position={"x": place[0], "y": place[1]})
    expect(tip).to_contain_text("process 4: poll")
    page.locator("#plots").focus()
    page.keyboard.press("Escape")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(page.locator("#anomaly-1")).to_be_focused()


def test_nothing_that_is_written_covers_another_in_a_burst(page: Page, run_folder: RunFolder) -> None:
    """Of sixty elections within a second and sixteen anomalies at one moment, what is written can be read."""
    for number in range(60):
        run_folder.replica_event(5 + number / 60, number % 3 + 1, "became-leader", epoch=number)
    for number in range(16):
        run_folder.operation(5 + number / 1000, 6 + number / 1000, process=number, value=number, offset=number)
    rows = [anomaly(kind, number) for kind in ("lost-write", "stale-read") for number in range(8)]
    opened(page, run_folder.write(verdict="invalid", anomalies=rows))
    for window in (None, NARROW):
        if window is not None:
            page.set_viewport_size(window)
            for _ in range(500):  # The page's policy forbids what wait_for_function does.
                if page.evaluate("document.getElementById('plots').clientWidth < 500"):
                    break
                page.wait_for_timeout(20)
        assert page.evaluate(FINDS_OVERLAPS, "a.mark") == [16, 0]
        labels, overlaps = page.evaluate(FINDS_OVERLAPS, ".label")
        assert 0 < labels < 60
        assert overlaps == 0


def test_each_log_and_each_object_has_a_drawing_of_its_own(page: Page, run_folder: RunFolder) -> None:
    """Logs with leaders, high watermarks and truncations, and the objects of a run on objects."""
    run_folder.replica_event(0.5, 1, "became-leader", epoch=1, topic_partition="kv-0", detail='{"log_end_offset": 3}')
    run_folder.replica_event(1.5, 2, "truncated", offset=4, topic_partition="kv-0", detail='{"from_offset": 9}')
    for time_s in (1.0, 2.0):
        run_folder.replica_event(
            time_s, 2, "high-watermark", epoch=1, offset=4, topic_partition="kv-1", detail="follower"
        )
    for name in ("register-1", "register-2"):
        run_folder.event(1, EventType.INVOKE, "read", 1, topic_partition=name)
        run_folder.event(2, EventType.OK, "read", 1, topic_partition=name, value=8)
    opened(page, run_folder.write(verdict="valid"))
    assert page.locator("#each-log figcaption").all_inner_texts() == ["kv-0", "kv-1"]
    page.locator("#each-object summary").click()
    assert page.locator("#each-object figcaption").all_inner_texts() == ["register-1", "register-2"]
    drawing = page.locator("#each-log canvas").first
    box = drawing.bounding_box()
    assert box is not None
    drawing.hover(position={"x": box["width"] / 2, "y": 8})
    expect(page.locator("#each-log .tip").first).to_contain_text("replica 1 leads, epoch 1")


def test_a_script_in_a_recorded_value_does_not_run(page: Page, run_folder: RunFolder) -> None:
    """Not as a value, an error, a function, a key, a fault or an anomaly, wherever the page writes it."""
    run_folder.event(1, EventType.INVOKE, HOSTILE, 1, topic_partition=HOSTILE, detail=HOSTILE)
    run_folder.event(2, EventType.FAIL, HOSTILE, 1, topic_partition=HOSTILE, detail=HOSTILE, error=HOSTILE)
    run_folder.fault("partition", 1, shape=HOSTILE, replicas=[1])
    run_folder.replica_event(1, 1, "became-leader", epoch=1, topic_partition=HOSTILE)
    row = anomaly(HOSTILE, 0, detail=HOSTILE) | {"topic_partition": HOSTILE}
    opened(page, run_folder.write(verdict="invalid", anomalies=[row]))
    for fold in page.locator("details:visible > summary").all():
        fold.click()
    page.locator("#plots").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#tip")).to_contain_text(HOSTILE)
    page.locator("#mark-1").focus()
    expect(page.locator("#tip")).to_contain_text(HOSTILE)
    assert page.evaluate("window.hacked") is None
    assert page.locator("img").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 500])
def test_the_page_can_be_read_in_every_window(page: Page, broken_run: Path, scheme: Any, width: int) -> None:
    """It is no wider than the window, and every text stands out from its ground by 4.5 to 1, as WCAG AA asks."""
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 900})
    opened(page, broken_run)
    page.evaluate("for (const fold of document.querySelectorAll('details')) fold.open = true")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(CONTRASTS) == []


def test_all_that_can_be_used_has_a_name(page: Page, broken_run: Path) -> None:
    """Fields, buttons, drawings and links have names for those who hear the page."""
    opened(page, broken_run)
    roles: tuple[Any, ...] = ("searchbox", "combobox", "spinbutton", "button", "link", "img")
    for role in roles:
        found = page.get_by_role(role)
        assert found.count()
        for one in found.all():
            assert one.evaluate("(one) => one.ariaLabel || one.textContent.trim() || (one.labels && one.labels.length)")


def test_a_page_without_anything_complains_of_nothing(page: Page, tmp_path: Path) -> None:
    """A run of which nothing was recorded has a page with an empty drawing."""
    opened(page, tmp_path)
    expect(page.locator("#plots")).to_be_visible()
    assert left(page) == "All 0 drawn operations"
