"""Pages from templates, and where their links lead.

Owns the environment of the templates, in which every text is escaped, and the two kinds of links: of the server, and of
a static folder whose files find each other wherever it is put.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined

from nemesis.serve.summary import SIGNS, Standing, Summary

ASSETS = Path(__file__).parent / "assets"
STATIC_POLICY = "default-src 'none'; style-src 'self' file:; script-src 'self' file:; img-src data:"
"""What a page of the static folder may load; the server says it in a header."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """Where things are, as seen from one page. ``root`` is ``/``, or of a static page the way up to the folder."""

    root: str = "/"
    is_static: bool = False

    @property
    def runs(self) -> str:
        """The list of runs."""
        return f"{self.root}index.html" if self.is_static else self.root

    @property
    def matrix(self) -> str:
        """The runs as a matrix."""
        return f"{self.root}matrix.html" if self.is_static else f"{self.root}matrix"

    def asset(self, name: str) -> str:
        """A style or a script."""
        return f"{self.root}assets/{name}"

    def run(self, name: str) -> str:
        """The page of a run."""
        return f"{self.root}runs/{quote(name)}{'/index.html' if self.is_static else ''}"

    def report(self, name: str) -> str:
        """The report of a run."""
        return f"{self.root}runs/{quote(name)}/report.html" if self.is_static else f"{self.root}report/{quote(name)}"

    def of(self, what: str, name: str, **query: Any) -> str:
        """Another page of the server about a run, a sweep or a story."""
        asked = {key: value for key, value in query.items() if value not in (None, "")}
        return f"{self.root}{what}/{quote(name)}{f'?{urlencode(asked)}' if asked else ''}"

    def chosen(self, query: Mapping[str, Any]) -> str:
        """The list of those runs that a query chooses."""
        return f"{self.runs}?{urlencode(query)}" if query else self.runs


def render(template: str, links: Links, **values: Any) -> str:
    """A page as text. What cannot be written as UTF-8 is replaced."""
    page = environment().get_template(template).render(links=links, policy=STATIC_POLICY, **values)
    return page.encode("utf-8", "replace").decode("utf-8")


@functools.cache
def environment() -> Environment:
    """Where the templates are."""
    found = Environment(
        loader=PackageLoader("nemesis.serve"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= {"seconds": _seconds, "moment": _moment, "short": _short, "slug": _slug, "sign": _sign}
    found.globals["Standing"] = Standing
    return found


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.1f} s"


def _moment(run: Summary) -> str:
    """When a run began, as short as it can be read."""
    return "" if run.started is None else f"{run.started:%Y-%m-%d %H:%M:%S}"


def _short(commit: str) -> str:
    return commit if len(commit) <= 20 else f"{commit[:19]}…"


def _slug(text: str) -> str:
    """A word for a class of the style: letters and hyphens only."""
    return "".join(letter if letter.isascii() and letter.isalpha() else "-" for letter in text.lower())


def _sign(standing: Standing) -> str:
    return SIGNS[standing]
