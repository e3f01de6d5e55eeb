"""The pages of convictions in a real browser: they can be pointed at, gone through by keyboard, and read on a phone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchmarks.synth.build import build
from benchmarks.synth.plan import Plan, SynthModel
from nemesis.cli.check_kafka import judged_as_kafka
from nemesis.linearizability.kernel import judge
from nemesis.linearizability.models.registry import load_model
from nemesis.report import write_report
from nemesis.report.conviction import write_conviction_page
from nemesis.report.conviction_kafka import write_kafka_page
from nemesis.workload.register import RegisterWorkload
from tests.browser import NARROW, chromium, page
from tests.linearizability.written import sequence
from tests.pipeline.object_runs import object_run
from tests.pipeline.test_run_objects import READ_1, WRITE_1, WRITE_2
from tests.report.test_conviction_page import STALE
from tests.report.test_conviction_pictures import judged

if TYPE_CHECKING:
    from playwright.sync_api import Page

__all__ = ["chromium", "page"]
pytestmark = pytest.mark.slow

SCRIPT = "</script><script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">"
MORE = "; ".join(f"{5 + number % 3} write {number}; {5 + number % 3} ok" for number in range(10, 40))


def conviction_page(folder: Path, history: str = STALE, name: str = "history") -> str:
    """The address of the page of a history of a register that was written by hand."""
    operations, model = sequence(history), load_model("register")
    write_conviction_page(folder / "page.html", name, model, judge(operations, model), {None: operations})
    return (folder / "page.html").as_uri()


def kafka_page(folder: Path) -> str:
    """The address of the page of a Kafka workload with cycles and a lost record."""
    history = folder / "history.jsonl"
    anomalies = {"G1c-process": 1, "G1c-realtime": 1, "G0": 1, "lost-write": 1}
    build(Plan(model=SynthModel.KAFKA, operations=200, keys=12, anomalies=anomalies, seed=3), history)
    write_kafka_page(folder / "page.html", *judged_as_kafka(history, None))
    return (folder / "page.html").as_uri()


def wider_than_window(page: Page) -> bool:
    """Whether the page as a whole must be scrolled sideways; what is wide within it has a bar of its own."""
    return bool(page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth"))


def test_an_operation_that_is_pointed_at_is_told(page: Page, tmp_path: Path) -> None:
    """Process, function, value, outcome, line and step appear below the picture."""
    page.goto(conviction_page(tmp_path))
    page.locator(".bar.last").hover()
    assert page.locator(".here").inner_text() == 'process "1": read -> 1 (line 6)'
    page.locator('.bar[data-line="4"]').hover()
    assert page.locator(".here").inner_text() == 'process "0": write 2 -> ok (line 4), step 2'


def test_the_picture_is_gone_through_by_keyboard(page: Page, tmp_path: Path) -> None:
    """Tab reaches the first operation, arrow keys the others, and each is told; Enter marks it in the tables."""
    page.goto(conviction_page(tmp_path))
    page.locator(".bar").first.focus()
    told = [page.locator(".here").inner_text()]
    for _ in range(3):
        page.keyboard.press("ArrowRight")
        told.append(page.locator(".here").inner_text())
    assert [words.split("(")[1].split(")")[0] for words in told] == ["line 1", "line 3", "line 4", "line 6"]
    page.keyboard.press("Enter")
    assert page.locator("tr.chosen").count() == 2
    assert {row.get_attribute("data-line") for row in page.locator("tr.chosen").all()} == {"6"}
    page.keyboard.press("ArrowLeft")
    assert page.locator(".here").inner_text().startswith('process "0": write 2')


def test_a_row_leads_to_its_bar_and_what_contradicts_itself_can_stand_alone(page: Page, tmp_path: Path) -> None:
    """The button of a row brings its bar into view; with the box ticked the other operations are out of sight."""
    page.goto(conviction_page(tmp_path, f"0 write 1; 0 ok; {MORE}; 1 read; 1 ok 1"))
    first = page.locator('.bar[data-line="1"]')
    assert first.evaluate("bar => bar.getBoundingClientRect().right") < 0
    page.locator('tr[data-line="1"] .find').first.click()
    assert first.evaluate("bar => bar.getBoundingClientRect().left") >= 0
    assert "chosen" in (first.get_attribute("class") or "")
    assert page.locator(".bar.other").first.is_visible()
    page.get_by_label("only what contradicts itself").check()
    assert not page.locator(".bar.other").first.is_visible()
    assert page.locator(".bar.told").first.is_visible()


def test_a_script_in_a_value_a_key_and_a_name_does_not_run(page: Page, tmp_path: Path) -> None:
    """What was recorded is text: nothing of it becomes an element or changes the page."""
    page.goto(conviction_page(tmp_path, f"0 write {SCRIPT!r}; 0 ok; 1 read; 1 ok 7", SCRIPT))
    assert page.title() == f"Invalid: {SCRIPT}"
    assert page.locator("img").count() == 0
    assert page.locator("script").count() == 1
    page.locator(".bar").first.hover()
    assert "onerror" in page.locator(".here").inner_text()
    assert page.locator(".here img").count() == 0


def test_the_page_of_a_kafka_workload_draws_each_step_of_a_cycle(page: Page, tmp_path: Path) -> None:
    """Each cycle has an arrow for each reason, all inside the drawing; offsets stand in a table."""
    page.goto(kafka_page(tmp_path))
    for figure in page.locator("figure.cycle").all():
        assert figure.locator(".arrow path").count() == figure.locator(".reasons li").count() >= 2
        drawing = figure.locator("svg").bounding_box()
        assert drawing is not None
        for box in figure.locator(".box rect").all():
            inside = box.bounding_box()
            assert inside is not None
            assert drawing["x"] <= inside["x"]
            assert inside["x"] + inside["width"] <= drawing["x"] + drawing["width"]
    assert page.locator("figure.cycle").count() == 3
    assert page.locator("table.offsets tr.named").count() >= 1


@pytest.mark.parametrize("which", ["object", "kafka", "run"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_narrow_window_shows_all_of_it(page: Page, tmp_path: Path, which: str, scheme: str) -> None:
    """On a phone the page is as wide as the window, by day and by night: what is wider scrolls by itself."""
    match which:
        case "object":
            address = conviction_page(tmp_path, f"0 write 1; 0 ok; {MORE}; 1 read; 1 ok 1", "a-long-name" * 12)
        case "kafka":
            address = kafka_page(tmp_path)
        case _:
            folder = judged(object_run(tmp_path / "run", RegisterWorkload, *WRITE_1, *WRITE_2, *READ_1))
            address = write_report(folder).as_uri()
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    page.set_viewport_size(NARROW)
    page.goto(address)
    assert not wider_than_window(page)
    assert page.locator("h1").is_visible()
