"""The format of scenario files: what is written is read back, and what cannot be read is refused by its line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemesis.simulator.scenario_files import Directive, ScenarioError, parse_scenario, render_scenario

READ = [
    pytest.param("show\n----\n", Directive(command="show"), id="nothing"),
    pytest.param("show 1 2\n----\nout\n", Directive(command="show", words=("1", "2"), output="out"), id="words"),
    pytest.param(
        "run until leader=1 role=2@down\n----\n",
        Directive(command="run", words=("until",), arguments={"leader": "1", "role": "2@down"}),
        id="arguments",
    ),
    pytest.param("x key=\n----\n", Directive(command="x", arguments={"key": ""}), id="an empty argument"),
    pytest.param("x 1=2\n----\n", Directive(command="x", words=("1=2",)), id="no argument"),
    pytest.param(
        "simulate\nat 1 kill 2\n  indented\n----\nok\n",
        Directive(command="simulate", lines=("at 1 kill 2", "  indented"), output="ok"),
        id="input",
    ),
    pytest.param(
        "# a\n# b\n#\n# c\nx\n----\n",
        Directive(prose="a\nb\n\nc", command="x"),
        id="prose of two paragraphs",
    ),
    pytest.param(
        "x\n----\n----\na\n\nb\n----\n----\n",
        Directive(command="x", output="a\n\nb"),
        id="output with a blank line",
    ),
    pytest.param(
        "x\n----\n----\n----\nb\n----\n----\n", Directive(command="x", output="----\nb"), id="output with dashes"
    ),
]
REFUSED = [
    pytest.param("show\n", "line 1: no ---- below the directive", id="no dashes"),
    pytest.param("show\n\n----\n", "line 1: no ---- below the directive", id="dashes too late"),
    pytest.param("show\n----\n\nHello there\n----\n", "line 4: 'Hello' is no command", id="no command"),
    pytest.param("run a=1 a=2\n----\n", "line 1: a= is given twice", id="argument twice"),
    pytest.param("show\n----\n\n# the end\n", "line 4: prose without a directive", id="prose at the end"),
    pytest.param("show\n----\n----\nout\n----\n", "line 3: no doubled ----", id="fence not closed"),
]


@pytest.mark.parametrize(("text", "directive"), READ)
def test_a_directive_is_read_and_written(text: str, directive: Directive) -> None:
    """Each form of a directive is read as what it means, and written as it was."""
    assert parse_scenario(text) == (directive,)
    assert render_scenario([directive]) == text


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_what_cannot_be_read_is_refused_by_its_line(text: str, message: str) -> None:
    """A file that is written wrongly is refused with the line and what is wrong there."""
    with pytest.raises(ScenarioError, match=message):
        parse_scenario(text)


def test_output_that_would_end_its_own_fence_is_refused() -> None:
    """Output with two lines of dashes cannot be written, and is not written wrongly."""
    with pytest.raises(ScenarioError, match="two lines ----"):
        render_scenario([Directive(command="x", output="----\n----")])


def test_lines_are_counted_through_the_file() -> None:
    """Every directive knows its line, so that an error can name it."""
    text = "# one\nx\n----\nout\n\n\n# two\n\n# three\ny\n----\n"

    assert [directive.line_number for directive in parse_scenario(text)] == [2, 10]
    assert parse_scenario(text)[1].prose == "two\n\nthree"


line = st.text(st.characters(codec="ascii", categories=["L", "N", "P"]), min_size=1, max_size=8)
paragraph = st.lists(line, min_size=1, max_size=3).map("\n".join)
directives = st.builds(
    Directive,
    prose=st.lists(paragraph, max_size=3).map("\n\n".join),
    command=st.from_regex(r"[a-z][a-z0-9-]{0,6}", fullmatch=True),
    words=st.lists(line.filter(lambda word: "=" not in word), max_size=3).map(tuple),
    arguments=st.dictionaries(st.from_regex(r"[a-z][a-z_]{0,4}", fullmatch=True), line, max_size=3),
    lines=st.lists(line.filter(lambda text: text != "----"), max_size=3).map(tuple),
    output=st.lists(paragraph, max_size=3).map("\n\n".join).filter(lambda text: "----\n----" not in text),
)


@given(st.lists(directives, max_size=4))
def test_any_scenario_survives_being_written(scenario: list[Directive]) -> None:
    """Reading what was written gives the same directives, and writing them again the same file."""
    text = render_scenario(scenario)

    assert parse_scenario(text) == tuple(scenario)
    assert render_scenario(parse_scenario(text)) == text
