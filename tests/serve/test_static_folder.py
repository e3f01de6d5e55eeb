"""The folder of pages: what the server shows, as files that find each other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from nemesis.cli.index import index
from nemesis.serve.static_folder import write_static
from tests.serve.stores import HOSTILE, write_run

INVALID_RUN = "append/20260103T030405"


def _links(page: Path) -> list[Path]:
    """The files that a page names."""
    found = re.findall(r'(?:href|src)="([^"#?]+)"', page.read_text(encoding="utf-8"))
    return [(page.parent / link).resolve() for link in found if not link.startswith("data:")]


def test_every_run_has_a_page(store: Path, tmp_path: Path) -> None:
    """The list leads to each run, and each has its verdict and its anomalies."""
    assert write_static(store, tmp_path / "pages") == 3
    page = tmp_path / "pages" / "runs" / INVALID_RUN / "index.html"

    assert page in _links(tmp_path / "pages" / "index.html")
    assert "lost-write: 1" in page.read_text(encoding="utf-8")


def test_all_links_lead_to_files_of_the_folder(store: Path, tmp_path: Path) -> None:
    """Wherever it is put, nothing is missing, and nothing leads out of it."""
    (store / INVALID_RUN / "report.html").write_text("the report")
    write_run(store / "50% of a#b&c" / "deep" / "20260103T030405")
    write_static(store, tmp_path / "pages")
    (tmp_path / "pages").rename(tmp_path / "moved")
    pages = sorted((tmp_path / "moved").rglob("index.html"))

    assert len(pages) == 5
    for page in pages:
        for target in _links(page):
            if "%" not in str(target):
                assert target.is_file(), f"{page} leads to {target}"
                assert target.is_relative_to(tmp_path / "moved")
    assert (tmp_path / "moved" / "runs" / INVALID_RUN / "report.html").read_text() == "the report"


def test_what_needs_a_server_is_left_out(store: Path, tmp_path: Path) -> None:
    """No SQL, no table, no comparison, no run that is watched."""
    write_run(store / "append" / "now", verdict=None, is_over=False)
    write_static(store, tmp_path / "pages")

    for page in (tmp_path / "pages").rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert not re.search(r'href="[^"]*(history|live|compare|stories|document|sweeps)', text)
        assert 'id="live"' not in text


def test_reports_are_neither_invented_nor_followed(store: Path, tmp_path: Path) -> None:
    """A run without a report has none here, a link is not copied, and all can be left out."""
    (tmp_path / "secret").write_text("kept-secret")
    (store / INVALID_RUN / "report.html").symlink_to(tmp_path / "secret")
    (store / "append" / "20260102T030405" / "report.html").write_text("the report")
    write_static(store, tmp_path / "pages")
    write_static(store, tmp_path / "lean", with_reports=False)

    assert [path.read_text() for path in (tmp_path / "pages").rglob("report.html")] == ["the report"]
    assert list((tmp_path / "lean").rglob("report.html")) == []


def test_what_was_recorded_is_only_text(tmp_path: Path) -> None:
    """A recorded script does not stand in the page as one."""
    write_run(tmp_path / "store" / "run", verdict="invalid", words=HOSTILE, workload=HOSTILE)
    write_static(tmp_path / "store", tmp_path / "pages")

    for page in (tmp_path / "pages").rglob("*.html"):
        assert "<img" not in page.read_text(encoding="utf-8")
        assert "Content-Security-Policy" in page.read_text(encoding="utf-8")


def test_the_command_writes_the_folder(store: Path, tmp_path: Path) -> None:
    """It tells where to begin, and refuses a store that is not there."""
    told = CliRunner().invoke(index, ["--store", str(store), "--html", str(tmp_path / "pages")])
    refused = CliRunner().invoke(index, ["--store", str(tmp_path / "none"), "--html", str(tmp_path / "pages")])

    assert told.output == f"3 runs: {tmp_path / 'pages' / 'index.html'}\n"
    assert (refused.exit_code, "is no store" in refused.output) == (2, True)


@pytest.mark.parametrize("option", [[], ["--html"]])
def test_the_command_needs_a_place(option: list[str]) -> None:
    """Where the pages go must be said."""
    assert "--html" in CliRunner().invoke(index, option).output
