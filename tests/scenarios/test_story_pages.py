"""The page of a story: a picture for every step, everything in it, nothing from anywhere."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from nemesis.scenarios.collection import story_names, story_text
from nemesis.scenarios.page import render_story
from nemesis.scenarios.play import play
from nemesis.simulator.scenario_files import parse_scenario

LOADS = {"src", "href", "xlink:href", "action", "data", "srcset", "poster"}
VOID = {"meta", "link"}


class Page(HTMLParser):
    """What a test wants to know of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what begins."""
        self.tags.append(tag)
        self.ids += [value or "" for name, value in attrs if name == "id"]
        self.links += [value or "" for name, value in attrs if name in LOADS]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what begins and ends at once."""
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        """Every element ends where it should."""
        assert self.open.pop() == tag, tag


def page_of(text: str) -> str:
    """The page of a scenario."""
    return render_story("test", play(parse_scenario(text)))


@pytest.mark.parametrize("name", story_names())
def test_every_step_has_its_picture(name: str) -> None:
    """A page has one section and one figure a step, each with its number, and every link leads to one of them."""
    text = story_text(name)
    page = Page(page_of(text))
    steps = [f"step-{number}" for number in range(1, len(parse_scenario(text)) + 1)]

    assert page.open == []
    assert page.tags.count("figure") == len(steps)
    assert [found for found in page.ids if found.startswith("step-")] == steps
    assert {link.removeprefix("#") for link in page.links if link != "data:,"} <= set(page.ids)


@pytest.mark.parametrize("name", story_names())
def test_a_page_needs_nothing_else(name: str) -> None:
    """No script, no style sheet, no image, no font, no address: and the policy of the page forbids them."""
    text = page_of(story_text(name))

    assert "default-src 'none'" in text
    assert not {"script", "img", "iframe", "object", "image", "use"} & set(Page(text).tags)
    assert "http:" not in text
    assert "https:" not in text
    assert set(re.findall(r"url\([^)]*\)", text)) <= {"url(#arrow)"}


def test_the_page_shows_prose_cuts_and_broken_promises() -> None:
    """Headings, prose, commands, cut links with their direction and what was broken stand on the page."""
    story = parse_scenario(story_text("figure-8"))
    second = [number for number, directive in enumerate(story, start=1) if directive.command == "world"][1]
    text = render_story("figure-8", play(story))

    assert "<h1>Figure 8: why only a record" in text
    assert f'<h2 id="act-{second}">Second act: the leader that counts any record</h2>' in text
    assert f'<a href="#act-{second}">Second act: the leader that counts any record</a>' in text
    assert '<code class="command">elect 5 after 3 4</code>' in text
    assert 'class="spoke cut"' in text
    assert 'marker-end="url(#arrow)"' in text
    assert '<li class="broken">BROKEN leader-completeness' in text


def test_what_is_written_in_a_story_is_text() -> None:
    """Prose and values that look like markup are shown, not obeyed; only backquotes and asterisks mean something."""
    text = page_of(
        "# <b>bold</b>\n#\n# see `x<y` and *this*\nworld voters=1\n----\n\nstart\n----\n\nelect 1\n----\n\n"
        "append <script>\n----\n"
    )

    assert "<h1>&lt;b&gt;bold&lt;/b&gt;</h1>" in text
    assert "<p>see <code>x&lt;y</code> and <em>this</em></p>" in text
    assert "<script>" not in text


def test_what_changed_is_marked() -> None:
    """A replica that is not as it was is marked, one that is the same is not."""
    text = page_of("world voters=3\n----\n\nstart\n----\n\nshow\n----\n\npause 2\n----\n")
    marks = [section.count('<rect class="changed" x="166"') for section in text.split("<section")[1:]]

    assert marks == [0, 3, 0, 1]
