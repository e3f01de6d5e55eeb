"""The commands of scenarios refuse what is written wrongly, each time with the line and a way out."""

from __future__ import annotations

import pytest

from nemesis.scenarios.collection import story_text
from nemesis.scenarios.play import play
from nemesis.simulator.scenario_files import ScenarioError, parse_scenario

WORLD = "world voters=3\n----\n\nstart\n----\n\n"
THREE_VOTERS = ["world voters=3", "start"]
TWO_BROKERS = ["cluster brokers=2", "hold"]
WRONG = [
    ("dance", "no command 'dance'; use one of append, cluster, cut"),
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
    ("poll", "nobody leads; say whom to ask with from="),
    ("poll 1", "poll takes no words; remove '1'"),
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
    ("append a to=1 acks=2", "acks is one of all, 1, 0"),
    ("run until isr=1", "needs a 'cluster', which has brokers and a controller"),
    ("fetch 2", "needs a 'cluster', which has brokers and a controller"),
    ("cluster brokers=x", "'x' is no number"),
    ("cluster brokers=2 replicas=1,3", "replicas are some of the brokers, 1 to 2, each once"),
    ("cluster brokers=2 replicas=1,1", "replicas are some of the brokers, 1 to 2, each once"),
    ("cluster brokers=2 min-isr=3", "min-isr is at least 1 and at most the number of replicas, 2"),
    ("cluster elr=maybe", "elr is one of on, off, not 'maybe'"),
    ("cluster variant=nonsense", "no variant 'nonsense'"),
    ("cluster lag-ms=100", "replica_fetch_wait_max_ms (500) must be at most replica_lag_time_max_ms (100)"),
    ("cluster voters=3", "cluster does not know voters="),
]
WRONG_IN_A_CLUSTER = [
    ("fetch", "name the replicas, as in 'fetch 1'"),
    ("fetch 2", "replica 2 fetches all the time; 'hold 2' first"),
    ("kill 3", "there is no replica '3'; they have the numbers 1 to 2"),
    ("unclean", "say 'unclean on' or 'unclean off'"),
    ("elect-leader", "say 'elect-leader preferred' or 'elect-leader unclean'"),
    ("fence 1", "broker 1 sends heartbeats and is not fenced"),
    ("elect 1", "elect is for a 'world', in which replicas elect their leader themselves"),
    ("run until fenced=1", "did not come true within 120000 ms"),
]


@pytest.mark.parametrize(("text", "message"), WRONG, ids=[text for text, _ in WRONG])
def test_what_is_written_wrongly_is_refused(text: str, message: str) -> None:
    """The message names the line and says what to write instead."""
    with pytest.raises(ScenarioError, match=r"^line 7: ") as caught:
        play(parse_scenario(f"{WORLD}{text}\n----\n"))

    assert message in str(caught.value)


@pytest.mark.parametrize(("text", "message"), WRONG_IN_A_CLUSTER, ids=[text for text, _ in WRONG_IN_A_CLUSTER])
def test_what_is_written_wrongly_of_a_cluster_is_refused(text: str, message: str) -> None:
    """The same of commands that need a cluster, or that a cluster does not have."""
    with pytest.raises(ScenarioError, match=r"^line 4: ") as caught:
        play(parse_scenario(f"cluster brokers=2\n----\n\n{text}\n----\n"))

    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("commands", "message"),
    [
        pytest.param(["show"], "line 1: there is no world yet", id="no_world"),
        pytest.param([*TWO_BROKERS, "fetch 1"], "replica 1 has nobody to ask", id="leader_fetches"),
        pytest.param(
            [*TWO_BROKERS, "fetch 2", "fetch 2"],
            "a request of replica 2 is under way; let time pass",
            id="follower_fetches_twice",
        ),
        pytest.param([*THREE_VOTERS, "elect 1", "hurry 1"], "replica 1 leads", id="leader_is_hurried"),
        pytest.param([*THREE_VOTERS, "isolate 1", "elect 1"], "1 was not elected", id="nobody_hears_it"),
        pytest.param(
            [*THREE_VOTERS, "elect 1", "isolate 1", "append a a"],
            "'a' waits for its answer still",
            id="appends_could_not_be_told_apart",
        ),
        pytest.param([*THREE_VOTERS, "kill 1", "pause 1"], "'start 1' first", id="no_process"),
    ],
)
def test_what_cannot_be_done_now_is_refused(commands: list[str], message: str) -> None:
    """A command that is written rightly, after others which leave nothing for it to do."""
    with pytest.raises(ScenarioError, match=message):
        play(parse_scenario("\n".join(f"{command}\n----\n" for command in commands)))


def test_a_world_that_broke_ends_the_scenario() -> None:
    """Where the core itself stops at an assertion nothing can go on, and the scenario is told to end before."""
    text = story_text("figure-8").replace("high-watermark-before-own-epoch", "high-watermark-beyond-log-end")

    with pytest.raises(ScenarioError, match=r"nothing goes on after core-assertion: .*; end the scenario above"):
        play(parse_scenario(text))
