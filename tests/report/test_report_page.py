"""The page says what the run's files say, stands alone, and cannot be taken over by what a run recorded."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from nemesis.history import APPEND, POLL, EventType
from nemesis.report import write_report

if TYPE_CHECKING:
    from tests.report.conftest import RunFolder

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"


class Page(HTMLParser):
    """The elements, the attributes and the text of a page, as a browser would find them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.scripts: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data: str) -> None:
        if self.lasttag == "script" and self.scripts:
            self.scripts[-1] += data
        elif self.lasttag != "style":
            self.text += data

    @property
    def words(self) -> str:
        return re.sub(r"\s+", " ", self.text)


def page_of(folder: Path) -> Page:
    written = write_report(folder)
    assert written == folder / "report.html"
    return Page(written.read_text(encoding="utf-8"))


@pytest.mark.parametrize(("verdict", "word"), [("valid", "Valid"), ("invalid", "Invalid"), ("unknown", "Unknown")])
def test_verdict_is_the_headline(busy_run: Callable[[], RunFolder], verdict: str, word: str) -> None:
    """The verdict of results.json is the title, with its reasons and warnings."""
    folder = busy_run().write(verdict=verdict, reasons=["because of this"], warnings=["the faults did not bite"])
    page = page_of(folder)
    assert re.search(rf"\b{word} ", page.words.split("What ran")[0])
    assert "because of this" in page.words
    assert "the faults did not bite" in page.words


def test_command_repeats_the_run(busy_run: Callable[[], RunFolder]) -> None:
    """The page shows the command as it was given, with the seed that was drawn."""
    page = page_of(busy_run().write(verdict="valid"))
    assert "nemesis run --workload append --nemesis partition,kill,pause --seed 7" in page.words


def test_empty_folder_is_unknown(tmp_path: Path) -> None:
    """A folder without a single file gives a page that says unknown and names each missing part."""
    page = page_of(tmp_path)
    assert "Unknown" in page.words
    for name in ("test.json", "results.json", "history/", "logs/", "events/"):
        assert name in page.words
    assert "not judged" in page.words
    assert "✔ kept" not in page.words


@pytest.mark.slow
def test_run_without_results_keeps_its_operations(busy_run: Callable[[], RunFolder]) -> None:
    """A run that was never judged is unknown, and shows what it did all the same."""
    page = page_of(busy_run().write())
    assert "The run has not been judged" in page.words
    assert "NOT_LEADER_OR_FOLLOWER" in page.words
    assert "✔ kept" not in page.words


def test_torn_documents_are_named(busy_run: Callable[[], RunFolder]) -> None:
    """A half-written results.json and a torn shard are named, and the page is written."""
    folder = busy_run().write(verdict="valid")
    (folder / "results.json").write_text('{"verdict": "val', encoding="utf-8")
    shard = folder / "events/part-00000.parquet"
    shard.write_bytes(shard.read_bytes()[:-9])
    page = page_of(folder)
    assert "results.json cannot be read" in page.words
    assert "events/part-00000.parquet cannot be read" in page.words


def test_a_page_weighs_its_data_and_little_more(tmp_path: Path) -> None:
    """Without anything recorded it has less than 100 kB: there is no library in it."""
    assert len(write_report(tmp_path).read_bytes()) < 100_000


def test_no_folder_is_an_error(tmp_path: Path) -> None:
    """A folder that does not exist is refused by name."""
    with pytest.raises(NotADirectoryError, match="nowhere is not a run folder"):
        write_report(tmp_path / "nowhere")


@pytest.mark.slow
def test_page_loads_nothing(busy_run: Callable[[], RunFolder]) -> None:
    """Nothing on the page refers to another place, and its policy forbids to load from one."""
    folder = busy_run().write(verdict="valid")
    page = page_of(folder)
    places = [value for name, value in page.attributes if name in ("src", "href", "srcset", "action", "data") and value]
    assert all(place.startswith(("#", "data:")) for place in places), places
    assert re.findall(r"https?://|@import|url\(", (folder / "report.html").read_text(encoding="utf-8")) == []
    contents = [value for name, value in page.attributes if name == "content"]
    assert any("default-src 'none'" in str(content) for content in contents), contents


def hostile_run(run: RunFolder) -> Path:
    run.operation(1, 2, APPEND, EventType.FAIL, value=1, error=HOSTILE)
    run.operation(2, 3, POLL, EventType.INFO, process=1, error=f"{HOSTILE} & more")
    run.fault("partition", 1, shape=HOSTILE, replicas=[1])
    run.replica_event(1, 1, HOSTILE)
    anomaly: dict[str, Any] = {"anomaly": HOSTILE, "severity": HOSTILE, "topic_partition": HOSTILE, "detail": HOSTILE}
    run.write(
        verdict="invalid",
        reasons=[HOSTILE],
        warnings=[HOSTILE],
        anomalies=[anomaly | {"op_indexes": [0, 1, 2], "evidence": json.dumps({HOSTILE: HOSTILE})}],
        stats={HOSTILE: HOSTILE},
        engine=HOSTILE,
    )
    run.document("test.json", {"workload": HOSTILE, "argv": ["nemesis", HOSTILE], "versions": {HOSTILE: HOSTILE}})
    return run.folder


def test_recorded_text_is_never_markup(run_folder: RunFolder) -> None:
    """Markup in errors, details, options and evidence is shown as text: it adds no element and ends no script."""
    page = page_of(hostile_run(run_folder))
    assert len(page.scripts) == 2
    assert "img" not in page.tags
    assert not any(name.startswith("on") for name, _ in page.attributes)
    assert page.text.count(HOSTILE) > 10


def test_the_data_of_the_drawing_ends_no_script(run_folder: RunFolder) -> None:
    """It is JSON in which no character can begin a tag, and what was recorded is in it as it was."""
    data = page_of(hostile_run(run_folder)).scripts[0]
    assert not set("<>&") & set(data)
    assert HOSTILE in json.loads(data)["operations"]["error"]["texts"]


def test_tables_have_headers_and_the_drawing_a_description(busy_run: Callable[[], RunFolder]) -> None:
    """Those who cannot see the page find headers in each table and words for the drawing."""
    folder = busy_run().write(verdict="valid")
    page = page_of(folder)
    assert page.tags.count("table") == page.tags.count("thead")
    labels = [value for name, value in page.attributes if name == "aria-label" and value]
    assert any("3 faults, 4 leader elections, 1 truncation" in label for label in labels)
    assert page.tags.count("h1") == 1


def test_the_page_says_what_was_looked_at_and_what_was_not_judged(busy_run: Callable[[], RunFolder]) -> None:
    """Beside each promise stands how much was looked at, or why nothing was."""
    checks = {
        "lost-write": {"kept": "kept", "found": 0, "looked": 1234, "missed": 0, "why": ""},
        "hole": {"kept": "not judged", "found": 0, "looked": 0, "missed": 0, "why": "there were no such logs"},
    }
    page = page_of(busy_run().write(verdict="valid", checks=checks))
    assert "✔ kept 1,234 acknowledged writes" in page.words
    assert "? not judged there were no such logs" in page.words


def test_what_was_broken_comes_first(busy_run: Callable[[], RunFolder]) -> None:
    """The picture, then the anomalies, then the promises: the broken ones, and folded those that were kept or idle."""
    checks = {
        "lost-write": {"kept": "kept", "found": 0, "looked": 9, "missed": 0, "why": ""},
        "unseen": {"kept": "undecided", "found": 1, "looked": 9, "missed": 0, "why": ""},
        "duplicate": {"kept": "violated", "found": 2, "looked": 9, "missed": 0, "why": ""},
    }
    words = page_of(busy_run().write(verdict="invalid", checks=checks)).words
    told = [
        "Faults, throughput",
        "Anomalies (",
        "What was promised",
        "✘ violated",
        "! undecided",
        "1 kept",
        " not judged",
    ]
    places = [words.index(word) for word in told]
    assert places == sorted(places)
    assert places[-1] < words.index("What ran")


def test_the_legend_names_only_what_occurred(busy_run: Callable[[], RunFolder], tmp_path: Path) -> None:
    """A run that was partitioned and never paused says nothing of pauses; an empty one has no legend at all."""
    words = page_of(busy_run().write(verdict="valid")).words
    legend = words[words.index("Faults, throughput") : words.index("In each lane")]
    assert "partitioned" in legend
    assert "truncation" in legend
    assert "clock set wrong" not in legend
    assert "voters or replicas changed" not in legend
    assert "leads" not in page_of(tmp_path).words.split("In each lane")[0]


def test_one_card_for_each_kind_says_how_many_there_are(run_folder: RunFolder) -> None:
    """The first example stands in the card and the others are folded; the page says what results.json does not list."""
    run_folder.operation(1, 2, value=1, offset=0)
    lost = {"anomaly": "lost-write", "severity": "violation", "topic_partition": "log-0", "offsets": [0]}
    rows: list[dict[str, Any]] = [lost | {"detail": f"value {value} is gone", "op_indexes": [0]} for value in range(20)]
    rows.append({"anomaly": "lost-write", "severity": "violation", "detail": "352 more", "evidence": {"more": 352}})
    rows.append({"anomaly": "unseen", "severity": "unknown", "detail": "perhaps", "op_indexes": [0]})
    page = page_of(run_folder.write(verdict="invalid", anomalies=rows))
    assert "lost-write: 372 found" in page.words
    assert "8 of 372 are shown; results.json has 20 of them one by one." in page.words
    assert "7 more examples" in page.words
    assert "unseen: 1 found" in page.words
    assert "of 1 are shown" not in page.words
    assert page.words.index("lost-write: 372 found") < page.words.index("unseen: 1 found")
    ids = [value for name, value in page.attributes if name == "id" and str(value).startswith("anomaly-")]
    assert ids == [f"anomaly-{number}" for number in range(1, 10)]
    assert {f"#mark-{number}" for number in range(1, 10)} <= {
        value for name, value in page.attributes if name == "href"
    }


def test_evidence_and_details_are_words_and_tables(run_folder: RunFolder) -> None:
    """Lists of objects stand in a table, and no object stands on the page as JSON."""
    run_folder.operation(1, 2, value=1, offset=0)
    run_folder.fault("partition", 1, replicas=[1], shape={"kind": "halves"})
    held = [{"replica_id": 1, "crc": 7}, {"replica_id": 2, "crc": 9, "isr": [1, 2]}]
    row = {"anomaly": "diverged-log", "severity": "violation", "evidence": {"batches": held, "isr": [1, 2]}}
    page = page_of(run_folder.write(verdict="invalid", anomalies=[row]))
    assert re.search(r"batches replica id crc isr 1 7 2 9 1, 2", page.words)
    assert "replicas: 1, shape: kind: halves" in page.words
    assert not re.search(r"[{}\[\]]", page.words)


def test_promises_of_what_the_run_does_not_have_are_not_listed(run_folder: RunFolder) -> None:
    """Where clients only append nothing is said of transactions and objects; what was not recorded is named as such."""
    run_folder.operation(1, 2, value=1, offset=0)
    checks = {
        "G1c": {
            "kept": "not judged",
            "looked": 0,
            "missed": 0,
            "why": "there were no transactions of several operations",
        },
        "nonlinearizable": {"kept": "not judged", "looked": 0, "missed": 0, "why": "there were no objects"},
        "diverged-log": {
            "kept": "not judged",
            "looked": 0,
            "missed": 0,
            "why": "there were no logs of several replicas",
        },
        "lost-write": {"kept": "kept", "looked": 1, "missed": 0, "why": ""},
    }
    words = page_of(run_folder.write(verdict="valid", checks=checks)).words
    assert "G1c" not in words
    assert "nonlinearizable" not in words
    assert "there were no logs of several replicas" in words
    assert "✔ kept 1 acknowledged writes" in words
