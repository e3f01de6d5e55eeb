"""The commands of scenarios refuse what is written wrongly, each time with the line and a way out."""

from __future__ import annotations

import pytest

from nemesis.scenarios.collection import story_text
from nemesis.scenarios.files import ScenarioError, parse_scenario
from nemesis.scenarios.play import play

WORLD = "world voters=3\n----\n\nstart\n----\n\n"
WRONG = [
    ("dance", "no command 'dance'; use one of append, cut"),
    ("world voters=x", "'x' is no number"),
    ("world color=1", "world does not know color="),
    ("world variant=nonsense", "no variant 'nonsense'"),
    ("world voters=0", "give voters=1 or more"),
    ("world fetch_timeout_ms=10", "fetch_max_wait_ms (500) must be below fetch_timeout_ms (10)"),
    ("world three", "takes no words; remove 'three'"),
    ("kill", "name the replicas, as in 'kill 1'"),
    ("kill 4", "there is no replica '4'"),
    ("kill one", "there is no replica 'one'"),
    ("kill 1 how=hard", "kill does not know how="),
    ("start 1", "replica 1 has a process already"),
    ("append a", "nobody leads; say whom to ask with to="),
    ("read", "nobody leads; say whom to ask with from="),
    ("cut 1 2", "'cut 1 from 2 3' in both directions"),
    ("run", "say how long"),
    ("run 3 minutes", "say how long"),
    ("run until", "say until when"),
    ("run until tomorrow", "nothing waits for 'tomorrow'"),
    ("run until leader=2 when=now", "run does not know when="),
    ("run until known=1@x", "'x' is no number"),
    ("run until role=1@down", "did not come true within 10000 ms"),
    ("elect 1 before 2", "say who is to win"),
    ("elect", "name the replicas"),
    ("slow-disk 1 factor=much", "'much' is no number"),
    ("show\nmore", "show takes no further lines"),
]


@pytest.mark.parametrize(("text", "message"), WRONG, ids=[text for text, _ in WRONG])
def test_what_is_written_wrongly_is_refused(text: str, message: str) -> None:
    """The message names the line and says what to write instead."""
    with pytest.raises(ScenarioError, match=r"^line 7: ") as caught:
        play(parse_scenario(f"{WORLD}{text}\n----\n"))

    assert message in str(caught.value)


def test_a_scenario_begins_with_a_world() -> None:
    """Without a world there is nothing to act on."""
    with pytest.raises(ScenarioError, match="line 1: there is no world yet"):
        play(parse_scenario("show\n----\n"))


def test_a_leader_cannot_be_hurried() -> None:
    """A leader waits for no election; that it is named is a mistake of the scenario."""
    with pytest.raises(ScenarioError, match="replica 1 leads"):
        play(parse_scenario(f"{WORLD}elect 1\n----\n\nhurry 1\n----\n"))


def test_who_cannot_win_is_not_elected() -> None:
    """A replica that nobody hears is not elected however often it is hurried."""
    with pytest.raises(ScenarioError, match="1 was not elected"):
        play(parse_scenario(f"{WORLD}isolate 1\n----\n\nelect 1\n----\n"))


def test_a_value_that_waits_is_not_appended_again() -> None:
    """Two appends of one value could not be told apart while both wait."""
    with pytest.raises(ScenarioError, match="'a' waits for its answer still"):
        play(parse_scenario(f"{WORLD}elect 1\n----\n\nisolate 1\n----\n\nappend a a\n----\n"))


def test_a_world_that_broke_ends_the_scenario() -> None:
    """Where the core itself stops at an assertion nothing can go on, and the scenario is told to end before."""
    text = story_text("figure-8").replace("high-watermark-before-own-epoch", "high-watermark-beyond-log-end")

    with pytest.raises(ScenarioError, match=r"nothing goes on after core-assertion: .*; end the scenario above"):
        play(parse_scenario(text))


def test_a_process_that_is_gone_cannot_be_paused() -> None:
    """Commands for processes refuse a machine without one, and say how to start it."""
    with pytest.raises(ScenarioError, match="'start 1' first"):
        play(parse_scenario(f"{WORLD}kill 1\n----\n\npause 1\n----\n"))
