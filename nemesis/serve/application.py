"""The web application: which address shows which page.

Owns the addresses and the answers' status codes. Every handler reads the store anew, in a thread, and changes nothing;
only GET and HEAD are answered, which is what a route does.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ExceptionHandler

from nemesis.history.schemas import Kind
from nemesis.serve.choice import PAGE_RUNS, choice_of, values_of
from nemesis.serve.comparison import compare
from nemesis.serve.detail import DOCUMENTS, REPORT_NAME, detail_of
from nemesis.serve.guard import REPORT_POLICY, STORY_POLICY, Guard, is_from_elsewhere
from nemesis.serve.live import LiveRuns
from nemesis.serve.matrix import matrix_of_runs, matrix_of_sweep, sweeps_of, trend_of
from nemesis.serve.pages import ASSETS, Links, render
from nemesis.serve.rows import PAGE_ROWS, read_page
from nemesis.serve.sql import Sql, examples
from nemesis.serve.store import NotInStoreError, Store, open_plain
from nemesis.serve.summary import Standing, Summaries, Summary

LINKS = Links()
CHUNK_BYTES = 1 << 16
NUMBER_MAX = 2**62
ASSET_TYPES = {"style.css": "text/css", "live.js": "text/javascript", "list.js": "text/javascript"}


def application(root: Path, *, names: Iterable[str] = (), sql: Sql | None = None) -> Starlette:
    """The application for the store in ``root``; ``names`` are host names by which it may be asked.

    Raises NotADirectoryError when there is no such folder.
    """
    pages = Pages(Store(root), sql or Sql())
    handlers: dict[type[Exception] | int, ExceptionHandler] = {NotInStoreError: _absent, HTTPException: _refused}
    return Starlette(routes=pages.routes(), middleware=[Middleware(Guard, names=names)], exception_handlers=handlers)


class Pages:
    """The handlers, each named as the address that it answers."""

    def __init__(self, store: Store, sql: Sql) -> None:
        self._store = store
        self._summaries = Summaries(store)
        self._live = LiveRuns()
        self._sql = sql

    def routes(self) -> list[Route]:
        """Every address. What is asked for comes first, since a run's name is a path."""
        return [
            Route("/", self.runs),
            Route("/matrix", self.matrix),
            Route("/sweeps/{name}", self.sweep),
            Route("/compare", self.compare),
            Route("/runs/{name:path}", self.run),
            Route("/live/{name:path}", self.live),
            Route("/history/{name:path}", self.history),
            Route("/report/{name:path}", self.report),
            Route("/document/{document}/{name:path}", self.document),
            Route("/stories", self.stories),
            Route("/stories/{name}", self.story),
            Route("/assets/{name}", self.asset),
        ]

    def runs(self, request: Request) -> Response:
        """The runs that the search form chooses, and the trend of them."""
        runs = self._summaries.all()
        choice = choice_of(request.query_params)
        chosen = choice.of(runs)
        start = _number(request, "start")
        return _page(
            "list.html.j2",
            choice=choice,
            values=values_of(runs),
            total=len(runs),
            count=len(chosen),
            runs=chosen[start : start + PAGE_RUNS],
            start=start,
            page_runs=PAGE_RUNS,
            trend=trend_of(chosen),
        )

    def matrix(self, request: Request) -> Response:
        """The runs of the store as a matrix, and the sweeps that have one of their own."""
        choice = choice_of(request.query_params)
        found = matrix_of_runs(choice.of(self._summaries.all()))
        return _page("matrix.html.j2", matrix=found, choice=choice, sweeps=sweeps_of(self._store))

    def sweep(self, request: Request) -> Response:
        """What a sweep's document tells, as a matrix."""
        found = matrix_of_sweep(self._store, request.path_params["name"])
        return _page("matrix.html.j2", matrix=found, choice=choice_of({}), sweeps=())

    def compare(self, request: Request) -> Response:
        """Two runs side by side."""
        names = request.query_params.getlist("run")
        if len(names) != 2:
            raise HTTPException(400, f"Choose two runs in the list: {len(names)} were chosen.")
        first, second = ((self._summaries.one(name), self._store.folder(name)) for name in names)
        return _page("compare.html.j2", comparison=compare(first, second))

    def run(self, request: Request) -> Response:
        """All about one run; what it has done so far, if it goes on."""
        run, folder = self._named(request)
        is_running = run.standing is Standing.RUNNING
        live = self._live.look(folder) if is_running else None
        return _page("run.html.j2", detail=detail_of(run, folder), run=run, live=live)

    def live(self, request: Request) -> Response:
        """A part of the page of a run that goes on; a header says when it does no more."""
        run, folder = self._named(request)
        if run.standing is not Standing.RUNNING:
            return HTMLResponse("", headers={"X-Run-Goes-On": "no"})
        page = render("live.html.j2", LINKS, run=run, live=self._live.look(folder))
        return HTMLResponse(page, headers={"X-Run-Goes-On": "yes"})

    def history(self, request: Request) -> Response:
        """Rows of a run's tables, or the answer to a query about them."""
        run, folder = self._named(request)
        query = request.query_params.get("query", "").strip()
        if query and is_from_elsewhere(request.headers):
            raise HTTPException(403, "A link of another site may not ask a query: paste it into the box.")
        asked = request.query_params.get("table", Kind.HISTORY.value)
        if asked not in tuple(Kind):
            raise NotInStoreError(f"there is no table {asked!r}")
        answer = self._sql.ask(folder, query) if query else None
        page = read_page(folder, Kind(asked), _number(request, "start")) if answer is None else None
        return _page(
            "history.html.j2",
            run=run,
            kinds=tuple(Kind),
            page=page,
            page_rows=PAGE_ROWS,
            query=query,
            answer=answer,
            examples=examples(),
        )

    def report(self, request: Request) -> Response:
        """The report that lies in the run's folder."""
        _, folder = self._named(request)
        opened = open_plain(folder / REPORT_NAME)
        return StreamingResponse(
            _chunks(opened), media_type="text/html", headers={"Content-Security-Policy": REPORT_POLICY}
        )

    def document(self, request: Request) -> Response:
        """A document of the run as it is."""
        name = request.path_params["document"]
        _, folder = self._named(request)
        if name not in DOCUMENTS:
            raise NotInStoreError(f"there is no document {name!r}")
        return StreamingResponse(_chunks(open_plain(folder / name)), media_type="text/plain")

    def stories(self, request: Request) -> Response:
        """The stories, in the order in which to read them."""
        from nemesis.scenarios.collection import story_names, story_text, title_of

        del request
        return _page("stories.html.j2", stories=[(name, title_of(story_text(name))) for name in story_names()])

    def story(self, request: Request) -> Response:
        """One story as a page."""
        from nemesis.scenarios.collection import story_names

        name = request.path_params["name"]
        if name not in story_names():
            raise NotInStoreError(f"there is no story {name!r}")
        return HTMLResponse(_story(name), headers={"Content-Security-Policy": STORY_POLICY})

    def asset(self, request: Request) -> Response:
        """A style or a script."""
        name = request.path_params["name"]
        if name not in ASSET_TYPES:
            raise NotInStoreError(f"there is no asset {name!r}")
        return Response((ASSETS / name).read_bytes(), media_type=ASSET_TYPES[name])

    def _named(self, request: Request) -> tuple[Summary, Path]:
        name = request.path_params["name"]
        return self._summaries.one(name), self._store.folder(name)


def _page(template: str, status: int = 200, **values: object) -> HTMLResponse:
    return HTMLResponse(render(template, LINKS, **values), status)


def _absent(request: Request, error: Exception) -> Response:
    del request
    return _page("error.html.j2", 404, title="Not here", sentence=str(error))


def _refused(request: Request, error: Exception) -> Response:
    del request
    assert isinstance(error, HTTPException), error
    return _page("error.html.j2", error.status_code, title="Not done", sentence=error.detail)


def _number(request: Request, name: str) -> int:
    """A number of the query that is none of less than 0; 0 for whatever is none."""
    text = request.query_params.get(name, "0")
    return min(int(text), NUMBER_MAX) if text.isascii() and text.isdigit() and len(text) < 20 else 0


def _chunks(file: BinaryIO) -> Iterator[bytes]:
    with file:
        while chunk := file.read(CHUNK_BYTES):
            yield chunk


@functools.lru_cache(maxsize=32)
def _story(name: str) -> str:
    from nemesis.scenarios.collection import story_text
    from nemesis.scenarios.page import render_story
    from nemesis.scenarios.play import play
    from nemesis.simulator.scenario_files import parse_scenario

    return render_story(name, play(parse_scenario(story_text(name))))
