"""The stories of a quorum log teach what they say: each has its point in its output, under another rule it has not."""

from __future__ import annotations

import pytest

from nemesis.scenarios.collection import ORDER, QUORUM, story_names, story_text, title_of
from nemesis.scenarios.play import Played, play
from nemesis.simulator.scenario_files import Directive, parse_scenario

RIGHT_ALONE = ("election", "zombie-leader")
TWO_ACTS = {
    "figure-8": "BROKEN leader-completeness",
    "restarted-leader-resigns": "BROKEN log-matching",
    "divergence-by-epoch": "BROKEN consistent-committed-data",
}


def acts(name: str) -> list[list[Directive]]:
    """The directives of a story, from one world or cluster to the next."""
    found: list[list[Directive]] = []
    for directive in parse_scenario(story_text(name)):
        if directive.command in {"world", "cluster"}:
            found.append([])
        found[-1].append(directive)
    return found


def output_of(played: tuple[Played, ...]) -> str:
    """All that was printed."""
    return "\n".join(step.directive.output for step in played)


def test_the_stories_are_those_that_are_promised() -> None:
    """All stories are there, each with a title, in the order in which to read them."""
    assert story_names() == ORDER
    assert set(QUORUM) == {*RIGHT_ALONE, *TWO_ACTS}
    assert all(len(title_of(story_text(name))) > 10 for name in story_names())


@pytest.mark.parametrize("name", QUORUM)
def test_the_right_rules_break_nothing(name: str) -> None:
    """In the first act of every story no promise is broken."""
    assert "BROKEN" not in output_of(play(acts(name)[0]))


@pytest.mark.parametrize(("name", "broken"), TWO_ACTS.items())
def test_the_second_act_is_the_first_with_a_wrong_rule(name: str, broken: str) -> None:
    """The commands of both acts begin alike; only the wrong rule breaks a promise, and without it nothing is broken."""
    right, wrong = acts(name)
    shared = [directive.text for directive in right[1:8]]
    arguments = {name: text for name, text in wrong[0].arguments.items() if name != "variant"}
    cured = [Directive(command="world", arguments=arguments), *wrong[1:]]

    assert [directive.text for directive in wrong[1:8]] == shared
    assert broken in output_of(play(wrong))
    assert "BROKEN" not in output_of(play(cured[: _until_broken(wrong, broken)]))


def _until_broken(act: list[Directive], broken: str) -> int:
    """How many directives it takes until the promise breaks."""
    return next(index for index, directive in enumerate(act, start=1) if broken in directive.output)


def test_figure_8_differs_where_the_rule_differs() -> None:
    """With the right rule the reader sees nothing at the decisive moment, with the wrong one a record that is lost."""
    right, wrong = (output_of(play(act)) for act in acts("figure-8"))

    assert "read from 1: nothing, its high watermark is not known yet" in right
    assert "read from 1: a (high watermark 4)" in wrong
    assert right.endswith(wrong[wrong.rindex("1        follower") :])
    assert "read from 5: b" in wrong


def test_the_zombie_is_fenced() -> None:
    """The leader that slept is refused with FENCED_LEADER_EPOCH, and its write is truncated and never acknowledged."""
    text = story_text("zombie-leader")

    assert "FENCED_LEADER_EPOCH" in output_of(play(parse_scenario(text)))
    assert "append b to 1: unknown, NOT_LEADER_OR_FOLLOWER" in text
    assert "1 truncates its log to offset 3" in text
