"""A story as one HTML page that needs nothing else: prose, a picture for each step, and the same as text.

Owns the making of HTML. Every text passes autoescape; a content policy forbids the page to load or run anything. Needs
jinja2, which is in the extra ``report``.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from nemesis.scenarios.cluster_stage import INCONSISTENT, LOST
from nemesis.scenarios.performance import SAME
from nemesis.scenarios.picture import EPOCH_COLOURS, NOTE_X, WIDTH, Picture, draw
from nemesis.scenarios.play import Played
from nemesis.scenarios.tables import world_table
from nemesis.simulator.scenario_files import Directive

BEGINNINGS = ("world", "cluster")
"""The commands that begin an act."""
ALARMS = ("BROKEN", LOST, INCONSISTENT)
"""How lines begin that a reader must not miss."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One directive as the page shows it. ``told`` is what it printed beside the table."""

    number: int
    heading: str | None
    paragraphs: tuple[str, ...]
    command: str
    at_ms: int | None
    told: tuple[str, ...]
    picture: Picture | None
    table: str
    messages: tuple[str, ...]
    twin: Picture | None
    """How it looked after the same command in the act before; absent where that act did not go the same way."""

    @property
    def is_broken(self) -> bool:
        """Whether a promise was broken in it, or a client was let down."""
        return any(line.startswith(ALARMS) for line in self.told)


def render_story(name: str, played: Sequence[Played]) -> str:
    """The whole page as text."""
    steps = _steps(played)
    title = next((step.heading for step in steps if step.heading), name)
    return (
        _environment()
        .get_template("story.html.j2")
        .render(
            name=name, title=title, steps=steps, width=WIDTH, note_x=NOTE_X, epoch_colours=EPOCH_COLOURS, alarms=ALARMS
        )
    )


def _steps(played: Sequence[Played]) -> list[Step]:
    steps: list[Step] = []
    before = None
    twins = _twins([one.directive for one in played])
    for number, (one, twin) in enumerate(zip(played, twins, strict=True), start=1):
        picture = draw(one.view, None if _begins(one.directive) else before) if one.view else None
        steps.append(_step(number, one, picture, None if twin is None else steps[twin].picture))
        before = one.view
    return steps


def _begins(directive: Directive) -> bool:
    return directive.command in BEGINNINGS


def _twins(directives: Sequence[Directive]) -> list[int | None]:
    """For each directive the index of the one with the same text, for as many times, in the act before."""
    twins: list[int | None] = []
    before: dict[tuple[str, int], int] = {}
    now: dict[tuple[str, int], int] = {}
    for index, directive in enumerate(directives):
        if _begins(directive):
            before, now = now, {}
        text = directive.command if _begins(directive) else directive.text
        occurrence = next(times for times in count() if (text, times) not in now)
        now[text, occurrence] = index
        twins.append(before.get((text, occurrence)))
    return twins


def _step(number: int, played: Played, picture: Picture | None, twin: Picture | None) -> Step:
    directive, view = played.directive, played.view
    paragraphs = [" ".join(part.split()) for part in directive.prose.split("\n\n") if part.strip()]
    has_heading = _begins(directive) and bool(paragraphs)
    table = "" if view is None else world_table(view)
    told = directive.output.removesuffix(table).removesuffix(SAME).splitlines()
    if view is not None and told[:1] == [f"at {view.at_ms} ms"]:
        del told[0]
    return Step(
        number=number,
        heading=paragraphs[0] if has_heading else None,
        paragraphs=tuple(paragraphs[1:] if has_heading else paragraphs),
        command=directive.text,
        at_ms=None if view is None else view.at_ms,
        told=tuple(told),
        picture=picture,
        table=table,
        messages=played.messages,
        twin=twin,
    )


@functools.cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("nemesis.scenarios"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["prose"] = _prose
    environment.filters["px"] = _px
    return environment


def _prose(text: str) -> Markup:
    """Backquotes and asterisks as the tags that they stand for."""
    marked = re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text)))
    return Markup(re.sub(r"\*([^*]+)\*", r"<em>\1</em>", marked))


def _px(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
