"""What each address shows, to whom, and what it never does."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from nemesis.serve.application import application
from nemesis.serve.choice import PAGE_RUNS
from tests.serve.conftest import HOST
from tests.serve.stores import HOSTILE, write_run

VALID_RUN, INVALID_RUN = "append/20260102T030405", "append/20260103T030405"
PAGES = (
    "/",
    "/?q=append&verdict=valid",
    "/matrix",
    "/sweeps/soak.json",
    f"/compare?run={VALID_RUN}&run={INVALID_RUN}",
    f"/runs/{INVALID_RUN}",
    f"/live/{VALID_RUN}",
    f"/history/{VALID_RUN}",
    f"/history/{VALID_RUN}?table=events",
    "/stories",
)


class _Elements(HTMLParser):
    """Collects what a page has of scripts, handlers and styles."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.scripts: list[str] = []
        self.suspicious: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag == "script":
            self.scripts.append(values.get("src") or "inline")
        self.suspicious += [name for name in values if name.startswith("on") or name == "style"]
        self.suspicious += [
            f"{tag} {values['href']}" for name in ("href",) if (values.get(name) or "").startswith("java")
        ]
        self.suspicious += [tag] if tag in ("img", "iframe", "object", "embed", "base") else []


@pytest.mark.parametrize("page", PAGES)
def test_pages_are_whole(client: TestClient, store: Path, page: str) -> None:
    """Every page is there, may load nothing from elsewhere, and has no script of its own inside."""
    (store / "soak.json").write_text(json.dumps({"name": "soak", "complete": True, "runs": []}))
    told = client.get(page)

    assert told.status_code == 200
    assert told.headers["content-security-policy"].startswith("default-src 'none'")
    assert "unsafe" not in told.headers["content-security-policy"]
    assert told.headers["x-content-type-options"] == "nosniff"
    elements = _Elements(told.text)
    assert "inline" not in elements.scripts
    assert elements.suspicious == []


def test_the_list_shows_what_is_asked_for(client: TestClient) -> None:
    """The fields of the form choose runs, and how many there are is told."""
    assert "3 runs" in client.get("/").text
    told = client.get("/?verdict=invalid").text

    assert INVALID_RUN in told
    assert VALID_RUN not in told
    assert "1 of 3 runs" in told
    assert "No run is like that" in client.get("/?q=nothing-like-it").text


def test_a_long_list_has_pages(tmp_path: Path) -> None:
    """No page has more runs than it may, and the next one has the others."""
    for number in range(PAGE_RUNS + 5):
        (tmp_path / f"{number:03d}" / "history").mkdir(parents=True)
    with TestClient(application(tmp_path), base_url=HOST) as client:
        first, second = client.get("/").text, client.get(f"/?start={PAGE_RUNS}").text

    assert (first.count('name="run"'), second.count('name="run"')) == (PAGE_RUNS, 5)
    assert f"start={PAGE_RUNS}" in first


def test_a_run_has_its_page(client: TestClient) -> None:
    """Verdict, reasons, anomalies with their sentences, promises and settings."""
    told = client.get(f"/runs/{INVALID_RUN}").text

    for words in ("Invalid", "lost-write: 1", "value 2 is gone", "violated", "time limit", "abc123def456"):
        assert words in told


def test_what_goes_on_says_so(client: TestClient, store: Path) -> None:
    """The page of a run that grows watches it, and the part that is asked for again tells when it is over."""
    write_run(store / "append" / "now", verdict=None, is_over=False)

    assert 'id="live"' in client.get("/runs/append/now").text
    assert 'id="live"' not in client.get(f"/runs/{VALID_RUN}").text
    assert client.get("/live/append/now").headers["x-run-goes-on"] == "yes"
    assert client.get(f"/live/{VALID_RUN}").headers["x-run-goes-on"] == "no"


@pytest.mark.parametrize("query", ["", "?run=a", f"?run={VALID_RUN}&run={INVALID_RUN}&run={VALID_RUN}"])
def test_two_runs_are_compared_and_not_another_number(client: TestClient, query: str) -> None:
    """Whoever has chosen another number is told to choose two."""
    told = client.get(f"/compare{query}")

    assert told.status_code == 400
    assert "Choose two runs" in told.text


@pytest.mark.slow
def test_a_query_is_answered_on_the_page(client: TestClient) -> None:
    """Rows where there are some, and else why there are none."""
    told = client.get(f"/history/{VALID_RUN}", params={"query": "SELECT count(*) AS many FROM history"}).text
    refused = client.get(f"/history/{VALID_RUN}", params={"query": "SELECT * FROM read_text('/etc/passwd')"}).text

    assert "many" in told
    assert "1 rows" in told
    assert "Permission Error" in refused
    assert "root:" not in refused


# --- nobody else ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8484", 200),
        ("localhost", 200),
        ("LOCALHOST:1", 200),
        ("[::1]:8484", 200),
        ("192.168.1.5", 200),
        ("allowed.example:80", 200),
        ("evil.example", 421),
        ("127.0.0.1.evil.example", 421),
        ("localhost.evil.example", 421),
        ("evil.example#127.0.0.1", 421),
        ("127.0.0.1@evil.example", 421),
        ("", 421),
        ("[::1", 421),
    ],
)
def test_only_hosts_that_cannot_be_rebound_are_answered(store: Path, host: str, status: int) -> None:
    """A foreign name that was made to point here gets nothing: addresses, localhost and allowed names do."""
    with TestClient(application(store, names=["allowed.example"]), base_url=HOST) as client:
        assert client.get("/", headers={"Host": host}).status_code == status


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_nothing_can_be_changed(client: TestClient, method: str) -> None:
    """Only GET and HEAD are answered."""
    assert client.request(method, "/").status_code == 405


def test_other_sites_make_no_queries_run(client: TestClient) -> None:
    """A link of another site may lead to a page, but runs no SQL; its scripts get nothing at all."""
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    script = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}

    assert client.get(f"/history/{VALID_RUN}", headers=link).status_code == 200
    assert client.get(f"/history/{VALID_RUN}?query=SELECT+1", headers=link).status_code == 403
    assert client.get("/", headers=script).status_code == 403


# --- nothing else -----------------------------------------------------------------------------------------------------

OUTSIDE = (
    "../outside",
    "%2e%2e/outside",
    "..%2foutside",
    "append/../../outside",
    "append/%2e%2e/%2e%2e/outside",
    "append/latest",
    "linked",
    "append",
    "%00",
    "append%2f..%2f..%2foutside",
    "/etc",
    "%2fetc",
)


@pytest.mark.parametrize("name", OUTSIDE)
@pytest.mark.parametrize("what", ["runs", "live", "history", "report", "document/test.json"])
def test_nothing_outside_the_store_is_shown(client: TestClient, store: Path, what: str, name: str) -> None:
    """A run is reached by its one name: not upwards, not through a link, however it is encoded."""
    outside = write_run(store.parent / "outside", words="kept-secret")
    (outside / "report.html").write_text("kept-secret")
    (store / "linked").symlink_to(outside)
    told = client.get(f"/{what}/{name}")

    assert told.status_code == 404
    assert "kept-secret" not in told.text


@pytest.mark.parametrize("name", ["test.json", "results.json", "report.html", "history"])
def test_no_link_within_a_run_is_followed(store: Path, name: str) -> None:
    """A run whose document, report or history is a link to something else shows nothing of that."""
    secret = write_run(store.parent / "secret", words="kept-secret")
    (secret / "report.html").write_text("kept-secret")
    run = store / VALID_RUN
    if (run / name).is_dir():
        (run / name / "part-00000.parquet").unlink()
        (run / name / "part-00000.parquet").symlink_to(secret / name / "part-00000.parquet")
    else:
        (run / name).unlink(missing_ok=True)
        (run / name).symlink_to(secret / name)
    addresses = (f"/runs/{VALID_RUN}", f"/history/{VALID_RUN}", f"/report/{VALID_RUN}", f"/live/{VALID_RUN}", "/")
    with TestClient(application(store), base_url=HOST) as client:
        for address in (*addresses, f"/document/{name}/{VALID_RUN}", f"/compare?run={VALID_RUN}&run={INVALID_RUN}"):
            told = client.get(address)
            assert told.status_code in (200, 404)
            assert "kept-secret" not in told.text


@pytest.mark.parametrize("name", ["nodes", "secret.txt", "..", "%2e%2e%2fsecret.txt", "history"])
def test_only_documents_of_a_run_are_given(client: TestClient, store: Path, name: str) -> None:
    """Whatever else lies in its folder is not."""
    (store / VALID_RUN / "secret.txt").write_text("kept-secret")

    assert client.get(f"/document/{name}/{VALID_RUN}").status_code == 404


def test_documents_are_given_as_they_are(client: TestClient, store: Path) -> None:
    """As text, which a browser does not take for a page."""
    told = client.get(f"/document/test.json/{VALID_RUN}")

    assert told.text == (store / VALID_RUN / "test.json").read_text()
    assert told.headers["content-type"].startswith("text/plain")


def test_a_report_is_shown_as_a_stranger(client: TestClient, store: Path) -> None:
    """It may run its own scripts, in a sandbox, from where it can ask the server nothing."""
    (store / VALID_RUN / "report.html").write_text("<script>1</script>")
    told = client.get(f"/report/{VALID_RUN}")
    policy = told.headers["content-security-policy"]

    assert told.text == "<script>1</script>"
    assert policy.startswith("sandbox allow-scripts")
    assert "allow-same-origin" not in policy
    assert "connect-src" not in policy
    assert "default-src 'none'" in policy


@pytest.mark.parametrize("name", ["data-loss", "figure-8"])
def test_stories_have_pages(client: TestClient, name: str) -> None:
    """Each story that is listed can be read, and runs no script."""
    assert name in client.get("/stories").text
    told = client.get(f"/stories/{name}")

    assert told.status_code == 200
    assert "script-src" not in told.headers["content-security-policy"]


@pytest.mark.parametrize(
    "address", ["/nothing", "/stories/nothing", "/sweeps/nothing.json", "/assets/nothing", "/runs/x"]
)
def test_what_is_not_there_is_said_so(client: TestClient, address: str) -> None:
    """A page with a way back."""
    told = client.get(address)

    assert told.status_code == 404
    assert 'href="/"' in told.text


# --- whatever was recorded --------------------------------------------------------------------------------------------


@pytest.fixture
def hostile(tmp_path: Path) -> Iterator[TestClient]:
    """A store in which every text that can be recorded is a script, names included."""
    name = "<script>alert(1)<script>"
    for number, verdict in enumerate(("invalid", "valid", None)):
        run = write_run(
            tmp_path / name / f"{number} {name}",
            verdict=verdict,
            words=HOSTILE,
            workload=HOSTILE,
            seed=number,
            started_at=HOSTILE,
            options={
                "nemesis": [HOSTILE],
                "system": HOSTILE,
                "variant": HOSTILE,
                "schedule": HOSTILE,
                HOSTILE: HOSTILE,
            },
            versions={"commit": HOSTILE, HOSTILE: HOSTILE},
            results={"reasons": [HOSTILE]} if verdict else None,
            is_over=verdict is not None,
        )
        assert run.is_dir()
    document = {
        "name": HOSTILE,
        "runs": [{"combination": HOSTILE, "seed": HOSTILE, "reasons": [HOSTILE], "run": HOSTILE}],
    }
    (tmp_path / "<b>.json").write_text(json.dumps(document))
    with TestClient(application(tmp_path), base_url=HOST) as client:
        yield client


def test_what_was_recorded_is_only_text(hostile: TestClient) -> None:
    """On no page that can be reached from the list does a recorded text become an element or an attribute."""
    to_see, seen = ["/", "/sweeps/%3Cb%3E.json"], set[str]()
    while to_see:
        address = to_see.pop()
        seen.add(address)
        told = hostile.get(address)
        assert told.status_code == 200, address
        if "html" not in told.headers["content-type"] or address.startswith("/stories/"):
            continue
        elements = _Elements(told.text)
        assert set(elements.scripts) <= {"/assets/live.js"}, address
        assert elements.suspicious == [], address
        links = re.findall(r'href="(/[^"]*)"', told.text)
        to_see += [link.replace("&amp;", "&") for link in links if link not in seen and "query=" not in link]
        seen.update(links)

    assert any(address.startswith("/history/") for address in seen)
    assert any(address.startswith("/runs/") for address in seen)


def test_what_was_searched_for_is_only_text(client: TestClient) -> None:
    """What stands in the address comes back as the value of a field, and in no other way."""
    for address in ("/", "/matrix", f"/history/{VALID_RUN}", "/nothing", "/runs/x"):
        told = client.get(address, params={"q": HOSTILE, "commit": HOSTILE, "table": "history", "start": HOSTILE})
        assert _Elements(told.text).suspicious == []
        assert "inline" not in _Elements(told.text).scripts


def test_odd_names_and_texts_can_be_written(store: Path) -> None:
    """A name with marks of addresses leads to its run, and half a character breaks no page."""
    name = "append/50% of a?b#c&d=e"
    write_run(store / name)
    document = json.loads((store / name / "test.json").read_text())
    (store / name / "test.json").write_text(json.dumps(document | {"workload": "half \ud83d"}))
    with TestClient(application(store), base_url=HOST) as client:
        link = next(link for link in re.findall(r'href="(/runs/[^"]*)"', client.get("/").text) if "50" in link)
        told = client.get(link)

    assert told.status_code == 200
    assert "50% of a?b#c&amp;d=e" in told.text
