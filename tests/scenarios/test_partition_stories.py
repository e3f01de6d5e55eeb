"""The stories of a partition teach what they say: what goes wrong under an old rule does not under the right ones."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import pytest

from nemesis.scenarios.cluster_stage import INCONSISTENT, LOST
from nemesis.scenarios.collection import PARTITIONS
from nemesis.scenarios.play import play
from nemesis.scenarios.views import Cell, WorldView
from nemesis.simulator.scenario_files import Directive
from tests.scenarios.test_stories import acts

BROKEN = "BROKEN"
VARIANT = "variant"
DONE = frozenset({"kill", "stop", "start", "power-loss", "fence", "cut", "heal", "hold", "flow"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """One act of a story as it was played: its directives with their output, and how the cluster looked after each."""

    directives: tuple[Directive, ...]
    views: tuple[WorldView, ...]

    @property
    def output(self) -> str:
        """All that was printed."""
        return "\n".join(directive.output for directive in self.directives)

    @property
    def cells(self) -> dict[int, tuple[Cell, ...]]:
        """Every replica's log at the end."""
        return {replica.replica_id: replica.cells for replica in self.views[-1].replicas}

    def after(self, text: str, occurrence: int = 0) -> WorldView:
        """How the cluster looked after a command."""
        return [view for one, view in zip(self.directives, self.views, strict=True) if one.text == text][occurrence]

    def output_of(self, text: str, occurrence: int = 0) -> str:
        """What a command printed."""
        return [directive.output for directive in self.directives if directive.text == text][occurrence]


@functools.cache
def played(name: str) -> tuple[Act, ...]:
    """All acts of a story, as they are."""
    return tuple(perform(act) for act in acts(name))


def perform(act: list[Directive], **arguments: str | None) -> Act:
    """Play one act, with other arguments of its cluster; None takes one away."""
    first = {key: value for key, value in {**act[0].arguments, **arguments}.items() if value is not None}
    played = play([Directive(command="cluster", arguments=first), *act[1:]])
    return Act(
        directives=tuple(step.directive for step in played),
        views=tuple(step.view for step in played if step.view is not None),
    )


@pytest.mark.parametrize("name", PARTITIONS)
def test_the_right_rules_break_nothing(name: str) -> None:
    """In no act that has the right rules is a promise broken, and no consumer is shown two different pasts."""
    right = [act for act in played(name) if VARIANT not in act.directives[0].arguments]

    assert right
    assert not any(BROKEN in act.output or INCONSISTENT in act.output for act in right)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("data-loss", (f"{BROKEN} committed-truncated", f"{LOST} m2")),
        ("divergence", (f"{LOST} m2", f"{LOST} m3", f"{INCONSISTENT} at offset 1")),
        ("fast-failovers", (f"{BROKEN} log-matching", f"{INCONSISTENT} at offset 1")),
    ],
)
def test_an_old_rule_does_the_harm_that_it_is_told_of(name: str, told: tuple[str, ...]) -> None:
    """What the act with the old rule tells is not told of the same steps with the right ones."""
    (wrong,) = (act for act in acts(name) if VARIANT in act[0].arguments)
    output, cured = perform(wrong).output, perform(_up_to_the_difference(wrong), variant=None).output

    assert all(line in output for line in told)
    assert BROKEN not in cured
    assert INCONSISTENT not in cured


def _up_to_the_difference(act: list[Directive]) -> list[Directive]:
    """The steps that the right rules can take as well: a round of fetching that they do not need would only wait."""
    rounds = [index for index, directive in enumerate(act) if directive.text == "fetch 1"]
    return act[: rounds[0] + 1]


@pytest.mark.parametrize("name", ["data-loss", "divergence"])
def test_the_acts_go_the_same_way(name: str) -> None:
    """With the old rule and with the right ones the same is done to the cluster, so that only the rules differ."""
    first, second = ([_what_is_done(directive) for directive in act] for act in acts(name)[:2])

    assert [done for done in first if done] == [done for done in second if done]


def _what_is_done(directive: Directive) -> str:
    """What is done to the brokers; and not what is looked at, or which record takes the place of a lost one."""
    return directive.text if directive.command in DONE else ""


@pytest.mark.parametrize("act", [0, 1], ids=["old rule", "right rules"])
def test_data_is_lost_from_the_published_layout(act: int) -> None:
    """Before replica 2 restarts, both have m1 and m2; the leader knows both to be committed, the follower the first."""
    one = played("data-loss")[act]
    leader, follower = one.after("fetch 2", 1).replicas

    assert [cell.value for cell in leader.cells] == [cell.value for cell in follower.cells] == ["m1", "m2"]
    assert (leader.high_watermark, follower.high_watermark) == (2, 1)
    assert "append m2 to 1: ok" in one.output


def test_leader_epochs_lose_nothing() -> None:
    """With the right rules the replica that restarts keeps m2, leads with it, and every acknowledged record is read."""
    right = played("data-loss")[1]

    assert LOST not in right.output
    assert right.output.splitlines()[-2] == "read from 2: m1 m2 m3 (high watermark 3)"


def test_logs_diverge_by_the_old_rule_only() -> None:
    """With leader epochs the same power failures leave equal logs, and with fsync nothing is lost either."""
    old, epochs, durable = played("divergence")

    assert old.cells[1] != old.cells[2]
    assert epochs.cells[1] == epochs.cells[2]
    assert f"{LOST} m2" in epochs.output
    assert durable.cells[1] == durable.cells[2]
    assert LOST not in durable.output


def test_case_h_takes_two_rounds() -> None:
    """The follower cuts below the offset that the leader gives, and the second question finds nothing more to cut."""
    right = played("fast-failovers")[0]
    first, second = right.output_of("fetch 1"), right.output_of("fetch 1", 1)

    assert "Fetch from offset 5 in epoch 3: last epoch 2" in first
    assert "our logs differ, my epoch 1 ends at 5\n1 truncates its log to offset 1" in first
    assert "Fetch: records 1 to 5" in second
    assert "truncates" not in second
    assert LOST not in right.output


def test_the_second_round_commits() -> None:
    """The record comes by the first fetch; the second acknowledges it, and the next record brings the news of that."""
    act = played("two-round-high-watermark")[0]

    assert [replica.high_watermark for replica in act.after("fetch 2").replicas] == [0, 0]
    assert [replica.high_watermark for replica in act.after("fetch 2", 1).replicas] == [1, 0]
    assert [replica.high_watermark for replica in act.after("append b").replicas] == [1, 1]


def test_a_new_high_watermark_alone_waits() -> None:
    """Where nothing is written and nobody waits, followers learn what is committed at the end of their long poll."""
    act = played("two-round-high-watermark")[1]

    assert [replica.high_watermark for replica in act.after("fetch 3").replicas] == [1, 0, 0]
    assert 490 < act.after("run until agreed").at_ms - act.after("fetch 2").at_ms <= 502


def test_a_follower_asks_for_its_consumers() -> None:
    """Where a consumer waits at a follower, both learn at once what is committed; the other follower does not."""
    act = played("two-round-high-watermark")[2]

    assert [replica.high_watermark for replica in act.after("fetch 3").replicas] == [1, 1, 0]
    assert "poll from 2: a (high watermark 1)" in act.output_of("fetch 3")


def test_a_shrink_takes_between_one_and_one_and_a_half_lag_limits() -> None:
    """With a limit of 5 s the follower leaves the ISR within 5 to 7.5 s, and b is committed only then."""
    act = played("isr-shrink-and-expand")[0]
    shrunk = act.after("run until isr=1,2")

    assert 5000 < shrunk.at_ms <= 7500
    assert act.after("run 6s").replicas[0].high_watermark == 1
    assert act.after("run until answered").replicas[0].high_watermark == 2


def test_who_is_proposed_counts() -> None:
    """While the leader does not know what became of its proposal, a record waits for the replica that it proposed."""
    act = played("isr-shrink-and-expand")[0]
    waiting = act.after("run 5500ms")

    assert waiting.replicas[0].isr == "1 2 +3"
    assert waiting.replicas[0].high_watermark == 3
    assert "append d to 1: ok" in act.output_of("fetch 3", 2)


def test_an_unclean_election_loses_what_the_new_leader_lacks() -> None:
    """With the option off nothing is lost and nothing is written; with it on, just what replica 2 had not fetched."""
    off, on = played("unclean-election")

    assert LOST not in off.output
    assert "append d to 2: fail" in off.output
    assert [line.split(":")[0] for line in on.output.splitlines() if LOST in line] == [f"{LOST} b", f"{LOST} c"]


def test_the_fenced_leader_is_refused() -> None:
    """Its proposal meets FENCED_LEADER_EPOCH, its write is never acknowledged, and what it appended is truncated."""
    act = played("fenced-leader")[0]

    assert "1 -> controller  AlterPartition in epoch 0, partition epoch 0: the ISR is to be 1" in act.output
    assert "controller -> 1  AlterPartition refused: FENCED_LEADER_EPOCH" in act.output
    assert "append b to 1: unknown, NOT_LEADER_OR_FOLLOWER" in act.output
    assert {len(cells) for cells in act.cells.values()} == {2}


def test_the_last_replica_standing_commits_by_the_minimum() -> None:
    """Below a minimum of 2 nothing is committed and the next leader needs nothing else; a minimum of 1 waits for it."""
    two, one = played("last-replica-standing")

    assert "append c to 1: fail, NOT_ENOUGH_REPLICAS" in two.output
    assert two.output_of("read", 1).splitlines()[1] == "read from 2: a b (high watermark 2)"
    assert "no leader" in one.output_of("start 2 3")
    assert "recovering from an unclean election" in one.output_of("start 1")
    assert "read from 1: a b c" in one.output
